// The search: it shows a notification with its timeline, or a user with the windows that throttle the user.

import { clock } from './format.js'
import { moments } from './marks.js'
import { get } from './act.js'
import { badge, byId, element, fields, readAgain } from './dom.js'
import { local, notification } from './notification.js'
import { weekOf } from './week.js'

const section = byId('found')
const title = byId('found-title')
const body = byId('found-body')

let latest = 0 // the latest look-up: what an earlier one finds is not shown any more

// What is shown stands in the address, so it can be kept, sent, and gone back to.
const address = () => new URLSearchParams(location.search)
const shown = () => address().get('q')

// turnTo shows one page: what was found, or the one that the address names.
function turnTo(found) {
  const page = found ? 'found' : address().get('page') ?? 'now'
  document.body.dataset.page = page
  section.hidden = !found
  for (const link of byId('nav').children) {
    if (link.dataset.page === page) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
}

function show(text, ...children) {
  title.textContent = text
  document.title = `${text} – pacer`
  body.replaceChildren(...children)
  turnTo(true)
}

function close() {
  latest++
  turnTo(false)
  byId('query').focus()
}

byId('found-close').addEventListener('click', () => {
  history.pushState(null, '', './')
  close()
})
addEventListener('popstate', () => shown() ? lookUp(shown()) : close())

// lookUp searches for a notification with this id, or else for a user, and shows what it finds.
export async function lookUp(query) {
  if (shown() !== query) history.pushState(null, '', `./?q=${encodeURIComponent(query)}`)
  byId('query').value = query
  const mine = ++latest
  await read(query, mine)
  if (mine === latest) title.focus()
}

// read reads what has an id, again and again until the stores have told all of it.
async function read(query, mine) {
  let partial = true // also when nobody responds
  try {
    const response = await get(`lookup/${encodeURIComponent(query)}?contents`)
    partial = response?.status >= 500
    if (!response) throw new Error('this needs the ops token')
    if (!response.ok) throw new Error(await response.text())
    const found = await response.json()
    if (mine !== latest) return // another was looked up meanwhile
    partial = (found.notification ?? found.user).partial
    if (found.notification) show(`Notification ${query}`, ...notification(found.notification, lookUp))
    else showUser(found.user)
  } catch (error) {
    if (mine === latest) show(`Could not look up ${query}`, element('p', { textContent: String(error) }))
  }
  if (partial) readAgain(body, () => read(query, mine), () => mine === latest)
}

function showUser(u) {
  const now = Date.now()
  const used = u.categories.filter((c) => c.state !== 'free' || c.waiting.length || c.admitted)
  const children = [element('p', { textContent: (u.known ? '' : 'No notification has this id; as a user id: ') + local(u.standing) })]
  if (u.week) {
    const expected = u.categories.flatMap((c) => c.waiting).filter((w) => w.deliver_at).map((w) => ({ at: Date.parse(w.deliver_at), id: w.id }))
    children.push(weekOf(u.user_id, u.week, expected, now))
  }
  children.push(...used.map((c) => {
    const holder = element('div', { className: 'category' }, element('h3', { textContent: c.category }),
      u.standing.includes(c.standing) ? '' : element('p', { className: 'caption', textContent: local(c.standing) }))
    const marks = [
      ...(c.admitted ?? []).map((at) => ({ at: Date.parse(at), kind: 'f2', title: `counted at ${clock(Date.parse(at))}` })),
      ...c.waiting.filter((w) => w.deliver_at).map((w) => ({ at: Date.parse(w.deliver_at), kind: 'f3', title: `${w.id} expected at ${clock(Date.parse(w.deliver_at))}` })),
    ]
    if (marks.length) {
      holder.append(moments(`Windows of ${u.user_id} in ${c.category}: ${(c.admitted ?? []).length} counted, ${c.waiting.length} expected`, marks, { now }),
        element('p', { className: 'caption', textContent: 'Green: counted in the windows. Orange: when a waiting notification is expected to go.' }))
    }
    holder.append(element('ul', {}, ...c.limits.rules.map((r) => element('li', { textContent: `${r.rule}: ${r.used} used, ${r.remaining} left` + (r.frees_at ? `, the next free at ${clock(Date.parse(r.frees_at))}` : '') }))))
    if (c.limits.in_force === 'user') holder.append(element('p', { className: 'caption', textContent: `The user's own limits (${(c.limits.own ?? []).join(', ')}) hold in place of the policy's (${c.limits.policy.join(', ')}); caps hold in any case.` }))
    if (c.waiting.length) {
      holder.append(element('ol', { className: 'steps' }, ...c.waiting.map((w) => {
        const link = element('button', { type: 'button', className: 'link', textContent: w.id })
        link.addEventListener('click', () => lookUp(w.id))
        return element('li', {}, link, ` by ${w.channel}: ${local(w.waits_for)}${w.ahead ? `, ${w.ahead} of this user's before it` : ''}`)
      })))
    }
    return holder
  }))
  children.push(fields([
    ...u.devices.map((d) => [`device ${d.id}`, `${d.channel}, ${d.active ? 'active' : `not active: ${d.reason}`}${d.last ? `; last ${d.last.outcome}` : ''}`]),
    ...u.latest.map((v) => [clock(Date.parse(v.accepted_at)), element('span', {}, badge(v.status), ` ${v.id}, ${v.category} by ${v.channel}${v.reason && v.reason !== v.status ? `: ${v.reason}` : ''}${v.reply ? `; the provider replied: ${v.reply}` : ''}`)]),
    ...u.notes.map((note) => ['note', note]),
  ]))
  show(`User ${u.user_id}`, ...children)
}

turnTo(false)
if (shown()) lookUp(shown())
