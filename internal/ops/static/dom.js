// What every page needs to build its elements.

import { number } from './format.js'

export const byId = (id) => document.getElementById(id)

// text changes a text only when it differs, so that screen readers are not told the same again.
export const text = (id, value) => { if (byId(id).textContent !== value) byId(id).textContent = value }

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties)
  made.append(...children)
  return made
}

// swatch is the square in the colour of a series, beside its name.
export const swatch = (colour) => element('i', { className: `swatch ${colour}` })

// badge shows a status: its word, in the colour of what it means.
export const badge = (status) => element('span', { className: `badge ${status}`, textContent: status })

export const retryAfter = 2000 // milliseconds until the process or a store is asked again that did not respond

// readAgain reads again in a while what a store did not tell in time, unless something else is shown by then. It waits while
// somebody works in what is shown: reading replaces that.
export function readAgain(shown, read, stillWanted) {
  setTimeout(() => {
    if (!stillWanted()) return
    if (shown.contains(document.activeElement)) readAgain(shown, read, stillWanted)
    else read()
  }, retryAfter)
}

// swap takes over the contents of the same page as the server wrote it anew.
export async function swap(response) {
  const next = new DOMParser().parseFromString(await response.text(), 'text/html').getElementById('main')
  if (next) byId('main').replaceChildren(...next.children)
}

// keepAsking shows what a path responds with. While the process or its stores do not respond, it asks again.
export async function keepAsking(path, show) {
  const response = await fetch(path).catch(() => null)
  if (response?.ok) show(await response.json())
  else if (!response || response.status >= 500) setTimeout(keepAsking, retryAfter, path, show)
}

// fields lists names and texts, or elements; those without a value are left out.
export function fields(pairs) {
  const list = element('dl', { className: 'fields' })
  for (const [name, value] of pairs) if (value) list.append(element('dt', { textContent: name }), element('dd', {}, value))
  return list
}

// rows fills a table's body. A cell is a text, a number or an element. A column that is empty in all rows is hidden.
export function rows(id, all, empty, columns) {
  const body = byId(id), heads = [...body.closest('table').tHead?.rows[0].cells ?? []]
  if (body.contains(document.activeElement)) return // do not take away what has the focus
  const hidden = (i) => all.length > 0 && all.every((cells) => cells[i] === '' || cells[i] === '–')
  heads.forEach((head, i) => { head.hidden = hidden(i) })
  body.replaceChildren(...(all.length ? all.map((cells) => element('tr', {}, ...cells.map((cell, i) => {
    const made = i === 0 ? element('th', { scope: 'row' }) : element('td', typeof cell === 'number' ? { className: 'number' } : {})
    made.hidden = hidden(i)
    if (heads[i]) made.dataset.name = heads[i].textContent
    made.append(typeof cell === 'number' ? number(cell) : cell)
    return made
  }))) : [element('tr', {}, element('td', { className: 'empty', colSpan: columns, textContent: empty }))]))
}
