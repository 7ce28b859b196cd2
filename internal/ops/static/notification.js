// One notification: where it stands, each attempt, what it says, and what happened to it.

import { clock, duration } from './format.js'
import { moments } from './marks.js'
import { act, askToken } from './act.js'
import { badge, element, fields } from './dom.js'

// local writes the times in a sentence as this page writes times.
export const local = (text) => text.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (at) => clock(Date.parse(at)))

const kinds = { accepted: 'f1', deferred: 'f3', sending: 'f5', attempt: 'f5', retrying: 'f3', held: 'f3', changed: 'f1', released: 'f5', delivered: 'f2', failed: 'f4', expired: 'f4', cancelled: 'f4', replaced: 'f4' }

// ahead says how far a moment lies ahead.
const ahead = (at) => Date.parse(at) > Date.now() ? `in ${duration((Date.parse(at) - Date.now()) / 1000)}` : 'now'

// notification builds what is shown of one.
export function notification(n, lookUp) {
  const steps = n.timeline.map((s) => ({ ...s, ms: Date.parse(s.at) }))
  return [
    fields([
      ['status', badge(n.status)], ['because', n.standing !== n.status && local(n.standing)],
      ['expected', n.deliver_at && ahead(n.deliver_at)],
      ['before it', n.ahead && `${n.ahead} of this user's, by priority, then arrival; under a user cap, over all categories`],
      ['user', link(n.user_id, lookUp)], ['category', `${n.category}, ${n.priority}, by ${n.channel}`],
      ['deferrals', String(n.deferrals)],
      ...(n.devices ?? []).map((d) => [`device ${d.device}`, `${d.outcome}${d.reply ? `; the provider replied: ${d.reply}` : ''}`]),
      ['times in', Intl.DateTimeFormat().resolvedOptions().timeZone],
    ]),
    buttons(n, lookUp),
    part(`Attempts: ${n.attempts}`, attempts(n, steps)),
    part('Contents', ...contents(n, () => lookUp(n.id))),
    part('Timeline', ...timeline(n, steps)),
  ]
}

// link leads to another look-up without loading the page again.
function link(query, lookUp) {
  const made = element('a', { href: `./?q=${encodeURIComponent(query)}`, textContent: query })
  made.addEventListener('click', (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    lookUp(query)
  })
  return made
}

const part = (title, ...children) => element('div', { className: 'part' }, element('h3', { textContent: title }), ...children)

// attempts is a table of those that are known.
function attempts(n, steps) {
  const tried = steps.filter((s) => s.attempt)
  if (!tried.length) return element('p', { className: 'caption', textContent: n.attempts ? 'Their outcomes are not kept.' : 'None yet.' })
  const names = ['Attempt', 'At', 'Took', 'Outcome', 'The provider replied', 'Next attempt']
  const rows = tried.map((s, i) => {
    const cells = [s.attempt, element('time', { dateTime: s.at, textContent: clock(s.ms) }), took(s.took_ms),
      outcome(s), s.reply || '–', next(n, s, tried[i + 1])]
    return row(...cells.map((content, j) => {
      const made = element(j ? 'td' : 'th', { role: j ? 'cell' : 'rowheader' }, content)
      made.dataset.name = names[j] // shown where the table is too narrow for columns
      return made
    }))
  })
  const head = names.map((textContent) => element('th', { role: 'columnheader', textContent }))
  return element('table', { className: 'attempts stacked', role: 'table', ariaLabel: 'Attempts' },
    element('thead', { role: 'rowgroup' }, row(...head)), element('tbody', { role: 'rowgroup' }, ...rows))
}

// row has its role in so many words: a phone shows the table as blocks, and would forget it.
const row = (...cells) => element('tr', { role: 'row' }, ...cells)

const took = (ms) => !ms ? '–' : ms < 1 ? '< 1 ms' : duration(ms / 1000)

const outcome = (s) => !s.outcome ? 'under way' : s.reason && s.reason !== s.outcome ? `${s.outcome}: ${s.reason}` : s.outcome

// next says when the attempt after this one began, or is expected.
function next(n, s, following) {
  if (following) return `${duration((following.ms - s.ms) / 1000)} later`
  return n.status === 'retrying' && n.deliver_at ? `${ahead(n.deliver_at)}, ${clock(Date.parse(n.deliver_at))}` : '–'
}

// contents shows what the notification says, to those who may read it.
function contents(n, again) {
  if (n.contents_withheld) {
    const show = element('button', { type: 'button', textContent: 'Show contents …' })
    show.addEventListener('click', async () => { if (await askToken()) again() })
    return [element('p', { className: 'caption', textContent: `Not shown: ${n.contents_withheld}.` }), ...(n.contents_withheld.includes('needs the ops token') ? [show] : [])]
  }
  const c = n.contents ?? {}
  return [fields([
    ['to', c.to ?? 'the user’s devices'], ['title', c.title],
    ['body', c.body && block(c.body, 'Body')], ['data', c.data && block(JSON.stringify(c.data, null, 2), 'Data')],
    [`for ${n.channel}`, c.override && block(JSON.stringify(c.override, null, 2), `For ${n.channel}`)],
  ])]
}

// block is a long text, which scrolls by itself.
const block = (textContent, ariaLabel) => element('pre', { textContent, ariaLabel, tabIndex: 0, role: 'group' })

function timeline(n, steps) {
  const told = (s) => s.attempt ? `attempt ${s.attempt}` : s.detail ? `${s.kind}: ${local(s.detail)}` : s.kind
  return [
    moments(`Timeline of ${n.id}: ${steps.map((s) => s.kind).join(', ')}`,
      steps.map((s) => ({ at: s.ms, kind: kinds[s.kind] ?? 'f1', label: s.kind, title: `${clock(s.ms)} ${s.detail ?? ''}` })), { even: true }),
    element('ol', { className: 'steps' }, ...steps.map((s, i) => element('li', {},
      element('time', { dateTime: s.at, textContent: clock(s.ms) }), ` ${told(s)}`,
      i > 0 ? ` (after ${duration((s.ms - steps[i - 1].ms) / 1000)})` : ''))),
  ]
}

function buttons(n, lookUp) {
  const button = (textContent, click) => {
    const made = element('button', { type: 'button', textContent })
    made.addEventListener('click', click)
    return made
  }
  const acts = (text, action, question) => button(text, async () => { if (await act(action, question)) lookUp(n.id) })
  const row = element('div', { className: 'row' })
  if (['scheduled', 'queued', 'deferred', 'retrying'].includes(n.status)) {
    row.append(acts('Release …', { action: 'release', id: n.id }, `Release notification ${n.id}? It goes at once, whatever limits and quiet hours say.`),
      acts('Cancel …', { action: 'cancel', id: n.id }, `Cancel notification ${n.id}? It will never be delivered.`))
  }
  if (['failed', 'expired'].includes(n.status)) {
    row.append(acts('Send again …', { action: 'retry', id: n.id }, `Send notification ${n.id} again, as a new one?`))
  }
  return row
}
