// The search: it shows a notification with its timeline, or a user with the windows that throttle the user.

import { clock, duration, moments } from './chart.js'
import { act } from './act.js'
import { byId, element } from './dom.js'

const section = byId('found')
const title = byId('found-title')
const body = byId('found-body')

function show(text, ...children) {
  title.textContent = text
  body.replaceChildren(...children)
  section.hidden = false
  title.focus()
}

// What is shown stands in the address, so it can be kept, sent, and gone back to.
const shown = () => new URLSearchParams(location.search).get('q')

function close() {
  section.hidden = true
  byId('query').focus()
}

byId('found-close').addEventListener('click', () => {
  history.pushState(null, '', './')
  close()
})
addEventListener('popstate', () => shown() ? lookUp(shown()) : close())

// lookUp searches for a notification with this id, or else for a user.
export async function lookUp(query) {
  if (shown() !== query) history.pushState(null, '', `./?q=${encodeURIComponent(query)}`)
  byId('query').value = query
  try {
    const response = await fetch(`lookup/${encodeURIComponent(query)}`)
    if (!response.ok) throw new Error(await response.text())
    const { notification, user } = await response.json()
    if (notification) showNotification(notification)
    else showUser(user)
  } catch (error) {
    show(`Could not look up ${query}`, element('p', { textContent: String(error) }))
  }
}

// local writes the times in a sentence as this page writes times.
const local = (text) => text.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (at) => clock(Date.parse(at)))

const kinds = { accepted: 'f1', deferred: 'f3', sending: 'f5', attempt: 'f5', retrying: 'f3', held: 'f3', delivered: 'f2', failed: 'f4', expired: 'f4', cancelled: 'f4', replaced: 'f4' }

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
    s.detail ? `: ${local(s.detail)}` : '', s.reply ? `; the provider replied: ${s.reply}` : '', i > 0 ? ` (after ${duration((s.ms - steps[i - 1].ms) / 1000)})` : '')))
  const children = [
    fields([
      ['status', n.status], ['because', n.standing !== n.status && local(n.standing)],
      ['provider replied', n.reply],
      ['expected', n.deliver_at && (Date.parse(n.deliver_at) > Date.now() ? `in ${duration((Date.parse(n.deliver_at) - Date.now()) / 1000)}` : 'now')],
      ['before it', n.ahead && `${n.ahead} of this user's, by priority, then arrival; under a user cap, over all categories`],
      ['user', n.user_id], ['category', `${n.category}, ${n.priority}, by ${n.channel}`],
      ['attempts', String(n.attempts)], ['deferrals', String(n.deferrals)],
      ...(n.devices ?? []).map((d) => [`device ${d.device}`, `${d.outcome}${d.reply ? `; the provider replied: ${d.reply}` : ''}`]),
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

function showUser(u) {
  const now = Date.now()
  const used = u.categories.filter((c) => c.state !== 'free' || c.waiting.length || c.admitted)
  const children = [element('p', { textContent: (u.known ? '' : 'No notification has this id; as for a user: ') + local(u.standing) })]
  children.push(...used.map((c) => {
    const holder = element('div', { className: 'category' }, element('h3', { textContent: c.category }),
      element('p', { className: 'caption', textContent: local(c.standing) }))
    const marks = [
      ...(c.admitted ?? []).map((at) => ({ at: Date.parse(at), kind: 'f2', title: `counted at ${clock(Date.parse(at))}` })),
      ...c.waiting.filter((w) => w.deliver_at).map((w) => ({ at: Date.parse(w.deliver_at), kind: 'f3', title: `${w.id} expected at ${clock(Date.parse(w.deliver_at))}` })),
    ]
    if (marks.length) {
      holder.append(moments(`Windows of ${u.user_id} in ${c.category}: ${(c.admitted ?? []).length} counted, ${c.waiting.length} expected`, marks, { now }),
        element('p', { className: 'caption', textContent: 'Green: counted in the windows. Orange: when a waiting notification is expected to go.' }))
    }
    holder.append(element('ul', {}, ...c.limits.rules.map((r) => element('li', { textContent: `${r.rule}: ${r.used} used, ${r.remaining} left` + (r.frees_at ? `, the next free at ${clock(Date.parse(r.frees_at))}` : '') }))))
    if (c.limits.in_force === 'user') holder.append(element('p', { className: 'caption', textContent: `The user's own limits (${(c.limits.own ?? []).join(', ')}) hold in place of the policy's (${c.limits.policy.join(', ')}).` }))
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
    ...u.latest.map((v) => [clock(Date.parse(v.accepted_at)), `${v.id}, ${v.category} by ${v.channel}: ${v.status}${v.reason && v.reason !== v.status ? `, ${v.reason}` : ''}${v.reply ? `; the provider replied: ${v.reply}` : ''}`]),
    ...u.notes.map((note) => ['note', note]),
  ]))
  show(`User ${u.user_id}`, ...children)
}

if (shown()) lookUp(shown())
