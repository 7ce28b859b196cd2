// The search: it shows a notification with its timeline, or a user with the windows that throttle the user.

import { clock, duration, moments } from './chart.js'
import { act } from './app.js'

const section = document.getElementById('found')
const title = document.getElementById('found-title')
const body = document.getElementById('found-body')

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties)
  made.append(...children)
  return made
}

function show(text, ...children) {
  title.textContent = text
  body.replaceChildren(...children)
  section.hidden = false
  title.focus()
}

document.getElementById('found-close').addEventListener('click', () => {
  section.hidden = true
  document.getElementById('query').focus()
})

// lookUp searches for a notification with this id, or else for a user.
export async function lookUp(query) {
  try {
    const response = await fetch(`lookup/${encodeURIComponent(query)}`)
    if (!response.ok) throw new Error(await response.text())
    const { notification, categories } = await response.json()
    if (notification) showNotification(notification)
    else showUser(query, categories ?? [])
  } catch (error) {
    show(`Could not look up ${query}`, element('p', { textContent: String(error) }))
  }
}

const kinds = { accepted: 'f1', deferred: 'f3', sending: 'f5', attempt: 'f5', retrying: 'f3', delivered: 'f2', failed: 'f4', expired: 'f4', cancelled: 'f4', replaced: 'f4' }

function fields(pairs) {
  const list = element('dl', { className: 'fields' })
  for (const [name, value] of pairs) if (value) list.append(element('dt', { textContent: name }), element('dd', { textContent: value }))
  return list
}

function button(text, action, question) {
  const made = element('button', { type: 'button', textContent: text })
  made.addEventListener('click', async () => { if (await act(action, question)) lookUp(action.id) })
  return made
}

function showNotification(n) {
  const steps = n.timeline.map((s) => ({ ...s, ms: Date.parse(s.at) }))
  const list = element('ol', { className: 'steps' }, ...steps.map((s, i) => element('li', {},
    element('time', { dateTime: s.at, textContent: clock(s.ms) }), ` ${s.kind}`,
    s.detail ? `: ${s.detail}` : '', i > 0 ? ` (after ${duration((s.ms - steps[i - 1].ms) / 1000)})` : '')))
  const children = [
    fields([
      ['status', n.reason ? `${n.status}: ${n.reason}` : n.status],
      ['expected', n.deliver_at && `${clock(Date.parse(n.deliver_at))}, in ${duration((Date.parse(n.deliver_at) - Date.now()) / 1000)}`],
      ['before it', n.ahead && `${n.ahead} of this user's, by priority, then arrival; under a user cap, over all categories`],
      ['user', n.user_id], ['category', `${n.category}, ${n.priority}, by ${n.channel}`],
      ['attempts', String(n.attempts)], ['deferrals', String(n.deferrals)],
    ]),
    moments(`Timeline of ${n.id}: ${steps.map((s) => s.kind).join(', ')}`,
      steps.map((s) => ({ at: s.ms, kind: kinds[s.kind] ?? 'f1', label: s.kind, title: `${clock(s.ms)} ${s.detail ?? ''}` })), { even: true }),
    list,
  ]
  const userButton = element('button', { type: 'button', textContent: `Show user ${n.user_id}` })
  userButton.addEventListener('click', () => lookUp(n.user_id))
  const row = element('div', { className: 'row' }, userButton)
  if (['scheduled', 'queued', 'deferred', 'retrying'].includes(n.status)) {
    row.append(button('Cancel …', { action: 'cancel', id: n.id }, `Cancel notification ${n.id}? It will never be delivered.`))
  }
  if (['failed', 'expired'].includes(n.status)) {
    row.append(button('Send again …', { action: 'retry', id: n.id }, `Send notification ${n.id} again, as a new one?`))
  }
  show(`Notification ${n.id}`, ...children, row)
}

function showUser(user, categories) {
  const now = Date.now()
  const used = categories.filter((c) => c.waiting || c.rules.some((r) => r.used) || c.admitted)
  const children = used.map((c) => {
    const holder = element('div', { className: 'category' }, element('h3', { textContent: c.category }),
      element('p', { className: 'caption', textContent: (c.allowed ? 'The next may go now' : `The next may go at ${clock(Date.parse(c.next_allowed_at))}, because of ${c.reason}`) + `; ${c.waiting} waiting, ${c.deferred} deferred.` }))
    const marks = [
      ...(c.admitted ?? []).map((at) => ({ at: Date.parse(at), kind: 'f2', title: `counted at ${clock(Date.parse(at))}` })),
      ...(c.backlog ?? []).map((w) => ({ at: Date.parse(w.deliver_at), kind: 'f3', title: `${w.id} expected at ${clock(Date.parse(w.deliver_at))}` })),
    ]
    if (marks.length) {
      holder.append(moments(`Windows of ${user} in ${c.category}: ${(c.admitted ?? []).length} counted, ${(c.backlog ?? []).length} expected`, marks, { now }),
        element('p', { className: 'caption', textContent: 'Green: counted in the windows. Orange: when a waiting notification is expected to go.' }))
    }
    holder.append(element('ul', {}, ...c.rules.map((r) => element('li', { textContent: `${r.rule}: ${r.used} used, ${r.remaining} left` + (r.frees_at ? `, the next free at ${clock(Date.parse(r.frees_at))}` : '') }))))
    if (c.backlog) {
      holder.append(element('ol', { className: 'steps' }, ...c.backlog.map((w) => {
        const link = element('button', { type: 'button', className: 'link', textContent: w.id })
        link.addEventListener('click', () => lookUp(w.id))
        return element('li', {}, link, ` expected at ${clock(Date.parse(w.deliver_at))}${w.ahead ? `, ${w.ahead} of this user's before it` : ', the next of this user'}`)
      })))
    }
    return holder
  })
  if (!children.length) children.push(element('p', { textContent: 'No notification has this id. For a user with this id nothing waits, and nothing was counted recently.' }))
  show(`User ${user}`, ...children)
}
