// History: what happened by the hour, or over a month by the day, of one category or of all.

import { columns, number, swatch } from './chart.js'
import { byId, element } from './dom.js'

const HOUR = 3600000
const drawn = [['delivered', 'f2'], ['failed', 'f4'], ['expired', 'f3']]
const counted = ['accepted', 'delivered', 'deferred', 'failed', 'expired', 'cancelled', 'replaced']
const colours = new Map(drawn)
const spans = { '24h': { hours: 24, step: 1 }, '7d': { hours: 168, step: 1 }, '30d': { hours: 720, step: 24 } }

// bars adds up the hours of each bar.
function bars(hours, span) {
  const first = Math.floor(Date.now() / HOUR) - span.hours + 1
  const all = Array.from({ length: span.hours / span.step }, (_, i) => ({ at: (first + i * span.step) * HOUR, ...Object.fromEntries(counted.map((name) => [name, 0])) }))
  for (const h of hours) {
    const bar = all[Math.floor((Date.parse(h.hour) / HOUR - first) / span.step)]
    if (bar) for (const name of counted) bar[name] += h[name] ?? 0
  }
  return all
}

// label says when a bar begins.
function label(at, span) {
  const t = new Date(at)
  return span.hours === 24 ? t.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' }) : t.toLocaleDateString('en-CA').slice(5)
}

function legend(sums) {
  return element('ul', { className: 'legend' }, ...counted.map((name) => {
    const item = element('li', {})
    if (colours.has(name)) item.append(swatch(colours.get(name)))
    item.append(`${name} ${number(sums[name])}`)
    return item
  }))
}

let latest

async function show() {
  const span = byId('history-span').value, category = byId('history-category').value
  const response = await fetch(`history?${new URLSearchParams({ since: span, ...(category && { category }) })}`)
  if (!response.ok) return
  latest = { span, category, hours: (await response.json()).hours }
  redraw()
}

// redraw draws what is known, in the width that there is.
function redraw() {
  if (!latest) return
  const { span, category, hours } = latest
  const all = bars(hours, spans[span])
  const sums = Object.fromEntries(counted.map((name) => [name, all.reduce((sum, bar) => sum + bar[name], 0)]))
  const title = `${category || 'All categories'}, last ${span}: ${counted.map((name) => `${name} ${number(sums[name])}`).join(', ')}`
  byId('history-chart').replaceChildren(columns(byId('history-chart'), all, drawn, title, (at) => label(at, spans[span])), legend(sums))
}

// offer offers the categories that there are.
export function offer(categories) {
  const select = byId('history-category')
  if (select.options.length === categories.length + 1) return
  const chosen = select.value
  select.replaceChildren(element('option', { value: '', textContent: 'all categories' }), ...categories.map((name) => element('option', { value: name, textContent: name })))
  select.value = categories.includes(chosen) ? chosen : ''
}

byId('history-span').addEventListener('change', show)
byId('history-category').addEventListener('change', show)
addEventListener('resize', redraw)
setInterval(show, 60000)
show()
