// The dashboard: it listens to the stream of snapshots and shows each.

import { Chart } from './chart.js'
import { clock, duration, number } from './format.js'
import { byId, element, keepAsking, retryAfter, rows, text } from './dom.js'
import { act } from './act.js'
import { foresee } from './forecast.js'
import { offer } from './history.js'

const rates = new Chart(byId('rates-chart'), 'lines', [['accepted', 'c1'], ['delivered', 'c2'], ['deferred', 'c3'], ['failed', 'c4']])
const waiting = new Chart(byId('waiting-chart'), 'areas', [
  ['limits', 'c1'], ['user cap', 'c2'], ['quiet hours', 'c3'], ['retry', 'c4'], ['provider', 'c5'], ['scheduled', 'c6'], ['digest', 'c7'],
])
let points = []

function listen() {
  const stream = new EventSource('events')
  stream.addEventListener('history', (event) => { points = JSON.parse(event.data) ?? [] })
  stream.addEventListener('snapshot', (event) => show(JSON.parse(event.data)))
  stream.addEventListener('error', () => {
    text('connection', 'connection lost, reconnecting …')
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, retryAfter) // it gives up after a response such as 502
  })
}

function show(s) {
  text('connection', `${s.stale ? 'not live, figures of' : 'live,'} ${clock(Date.parse(s.at)).slice(-12, -4)}`)
  warnings(s)
  if (s.stale) return
  points.push({ at: Date.parse(s.at), ...s.rates, waiting: s.waiting })
  points = points.slice(-300)
  charts()
  tiles(s)
  foresee(s.forecast)
  partitions(s.partitions)
  tables(s)
  pauses(s)
  offer(s.categories ?? [])
}

const STEP = 5000 // milliseconds between two points of the charts, as in the history

// charts draw the last five minutes.
function charts() {
  const steps = Object.values(Object.groupBy(points, (p) => Math.floor(p.at / STEP)))
  const times = steps.map((step) => step.at(-1).at / 1000), span = [times.at(-1) - 300, times.at(-1)]
  const near = times.map((t) => points.filter((p) => p.at > t * 1000 - STEP && p.at <= t * 1000))
  const mean = (name) => near.map((all) => all.reduce((sum, p) => sum + p[name], 0) / all.length)
  rates.draw('Per second', times, ['accepted', 'delivered', 'deferrals', 'failed'].map(mean), span)
  const reasons = ['throttle', 'user_cap', 'quiet_hours', 'retry', 'provider', 'scheduled', 'digest']
  waiting.draw('Waiting', times, reasons.map((name) => steps.map((step) => step.at(-1).waiting[name] ?? 0)), span)
}

function tiles(s) {
  text('well', `All is well: ${number(s.deferred)} wait for a slot, ${number(s.rates.delivered)} are delivered a second, ${number(s.ended.failed)} failed.`)
  document.title = `${s.deferred} deferred – pacer`
  text('deferred', s.deferred.toLocaleString('en'))
  text('deferred-users', `of ${number(s.users_deferred)} ${s.users_deferred === 1 ? 'user' : 'users'}`)
  text('oldest', s.deferred ? duration(s.oldest_deferred_seconds) : '–')
  const left = s.drained_at ? Math.max(0, Date.parse(s.drained_at) - Date.parse(s.at)) / 1000 : 0
  text('drain', s.drained_at ? `${s.crowds_exact ? '' : 'at least '}${duration(left)}` : s.deferred ? '–' : 'empty')
  const again = s.retime && `rescheduled under the new policy: users ${s.retime.done} of ${s.retime.users}`
  text('drain-at', again ? again : s.drained_at ? `at ${clock(Date.parse(s.drained_at)).slice(0, -4)}, by the limits` : 'by the limits')
  ended(s.ended, 'failed')
  ended(s.ended, 'expired')
  text('delivered', `${number(s.rates.delivered)}/s`)
  text('sending', number(s.sending))
  text('queued', number(s.queued))
  text('late', duration(s.lateness.p99))
  text('late-median', duration(s.lateness.p50))
  text('pulls', s.pulls_per_delivery ? s.pulls_per_delivery.toFixed(2) : '–')
  text('violations', s.invariants.at ? number(s.invariants.violations) : '–')
  text('unended', s.invariants.at ? `${number(s.invariants.unended)} unended` : 'not checked yet')
}

// ended shows how many failed or expired of late, and for which reasons.
function ended(all, status) {
  text(status, number(all[status]))
  const since = all.since ? Date.parse(all.since) : Date.now()
  const reasons = (all.reasons ?? []).filter((r) => r.status === status).slice(0, 3).map((r) => `${number(r.count)} ${r.reason}`)
  text(`${status}-why`, [`since ${clock(since).slice(-12, -7)}`, ...reasons].join(', '))
}

function partitions(all) {
  const most = Math.max(1, ...all.map((l) => l.deferred))
  byId('partitions').replaceChildren(...all.map((l) => element('li', {
    className: l.deferred ? `heat${Math.ceil(5 * l.deferred / most)}` : '', title: `partition ${l.partition}: ${l.deferred} deferred, ${l.queued} queued, ${l.sending} under way`,
  }, String(l.partition), element('b', { textContent: number(l.deferred) }))))
}

// health says in words whether a host is called, as Host.Health does in Go.
function health(h, now) {
  const bad = (textContent) => element('span', { className: 'bad', textContent })
  const until = [h.paused_until, h.breaker === 'open' && h.next_try].find((at) => at && Date.parse(at) > now)
  if (until) return bad(`not called until ${clock(Date.parse(until)).slice(0, -4)}`)
  if (h.breaker !== 'closed') return bad('trying one call')
  return h.failing ? bad('calling, the latest call failed') : 'calling'
}

// pausedBy says who paused a channel, and since when.
function pausedBy(p) {
  return element('span', { className: 'bad', textContent: `paused by ${p.by} since ${clock(Date.parse(p.at)).slice(0, -4)}${p.why ? `: ${p.why}` : ''}` })
}

function tables(s) {
  const now = Date.parse(s.at)
  rows('channels', s.channels.flatMap((c) => [
    ...c.paused ? [[c.channel, '–', pausedBy(c.paused), 0, '–']] : c.hosts.length ? [] : [[c.channel, '–', 'not used yet', 0, '–']],
    ...c.hosts.map((h) => [c.channel, h.host || '–', health(h, now), h.in_flight, h.outcome ? `${clock(Date.parse(h.outcome_at)).slice(-12, -4)} ${h.outcome}` : '–']),
  ]), 'No channels.', 5)
  byId('crowds-hint').hidden = s.crowds_exact
  rows('crowds', (s.crowds ?? []).map((c) => [
    element('a', { href: `./?q=${encodeURIComponent(c.user_id)}`, textContent: c.user_id }), c.category, c.deferred,
    c.until ? `${c.reason} until ${clock(Date.parse(c.until)).slice(0, -4)}` : '–',
  ]), 'Nothing is deferred.', 4)
  rows('processes', (s.processes ?? []).map((p) => [
    p.id, p.roles.join(', '), duration((Date.parse(s.at) - Date.parse(p.since)) / 1000), p.concurrency ? `${p.in_flight} of ${p.concurrency}` : '–', policy(p.policy),
  ]), 'No processes.', 5)
  stores(s)
}

// policy says which policy a process has in force.
function policy(p) {
  if (!p) return '–'
  const loaded = `${p.version}, ${p.file}, loaded ${clock(Date.parse(p.loaded_at)).slice(0, -4)}`
  return p.refused ? element('span', { className: 'bad', textContent: `${loaded}; refused: ${p.refused}` }) : loaded
}

function stores(s) {
  const r = s.redis
  const list = [['Redis', r.in_this_process ? 'in this process' : `version ${r.version}`]]
  if (!r.in_this_process) {
    list.push(['commands', `${number(r.ops_per_second)}/s, clients: ${number(r.clients)}`],
      ['memory', `${number(r.memory_bytes / 1048576)} MiB` + (r.max_memory_bytes ? ` of ${number(r.max_memory_bytes / 1048576)} MiB` : ', no limit')],
      ['eviction', r.eviction_policy === 'noeviction' ? 'none' : element('span', { className: 'bad', textContent: `${r.eviction_policy}: loses notifications` })],
      ['persistence', r.append_only ? 'append-only file' : 'snapshots only'])
  }
  if (s.postgres) list.push(['Postgres', `connections: in use ${s.postgres.in_use}, idle ${s.postgres.idle}, at most ${s.postgres.max}; waits for one: ${number(s.postgres.waited)}`])
  rows('stores', list, '', 2)
}

let subjects = ''

function pauses(s) {
  const all = [
    ...s.channels.map((c) => ['channel', c.channel]), ...s.categories.map((c) => ['category', c]), ...s.partitions.map((l) => ['partition', String(l.partition)]),
  ]
  if (subjects !== JSON.stringify(all)) {
    subjects = JSON.stringify(all)
    byId('subject').replaceChildren(...all.map(([kind, name]) => element('option', { value: JSON.stringify({ kind, name }), textContent: `${kind} ${name}` })))
  }
  const list = byId('pauses')
  const state = JSON.stringify(s.pauses ?? [])
  if (list.dataset.state === state) return
  list.dataset.state = state
  list.replaceChildren(...(s.pauses ?? []).map((p) => element('li', {},
    `${p.kind} ${p.name} is paused, since ${clock(Date.parse(p.at))}, by ${p.by}${p.why ? `: ${p.why}` : ''}`, resumes(`Resume ${p.kind} ${p.name} …`, p))))
  auditLog()
}

// warnings shows the sentences about what does not work, each with the way to what one can do. What one may be about to click
// or has the focus stays while only a figure in its sentence changes.
function warnings(s) {
  const list = byId('warnings'), all = s.problems ?? []
  const remedies = JSON.stringify(all.map((p) => p.remedy))
  if (list.dataset.remedies !== remedies) list.replaceChildren(...all.map((p) => element('p', {}, element('span'), remedy(p.remedy))))
  list.dataset.remedies = remedies
  all.forEach((p, i) => {
    const said = list.children[i].firstChild
    if (said.textContent !== p.text) said.textContent = p.text
  })
  list.hidden = !all.length
  byId('well').hidden = !list.hidden
}

// remedy is the button that resumes what is paused, or the link to where something can be done.
function remedy({ label, address, resume } = {}) {
  if (resume) return resumes(label, resume)
  return label ? element('a', { href: address, textContent: label }) : ''
}

function resumes(textContent, { kind, name }) {
  const made = element('button', { type: 'button', textContent })
  Object.assign(made.dataset, { action: 'resume', kind, name, ask: `Resume ${kind} ${name}?` })
  return made
}

const auditLog = () => keepAsking('audit', (entries) => rows('audit',
  (entries ?? []).map((e) => [clock(Date.parse(e.at)), e.by, e.action, e.subject, e.detail ?? '']), 'No entries yet.', 5))

byId('pause').addEventListener('submit', (event) => {
  event.preventDefault()
  const { kind, name } = JSON.parse(byId('subject').value)
  act({ action: 'pause', kind, name, why: byId('why').value }, `Pause ${kind} ${name}? Its notifications wait until it is resumed.`)
})

document.addEventListener('acted', auditLog)
auditLog()
listen()
