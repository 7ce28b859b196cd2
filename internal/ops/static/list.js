// The list of notifications. Its filter is the page's address, so a view can be kept, sent, and gone back to.

import { clock, duration } from './format.js'
import { ask, get, post } from './act.js'
import { badge, byId, element, keepAsking, readAgain, rows, text } from './dom.js'

const statuses = ['scheduled', 'queued', 'deferred', 'sending', 'retrying', 'delivered', 'failed', 'expired', 'cancelled', 'replaced']
const names = ['status', 'user', 'category', 'channel', 'reason', 'host', 'since', 'until', 'text']
const perPage = 100

// filter is what the address says, without the place in the list.
function filter() {
  const given = new URLSearchParams(location.search)
  return new URLSearchParams(names.flatMap((name) => given.get(name) ? [[name, given.get(name)]] : []))
}

const address = (query) => `list.html${query.size ? `?${query}` : ''}`

// changed is the filter with other values; an empty one is left out.
function changed(values) {
  const query = filter()
  for (const [name, value] of Object.entries(values)) value ? query.set(name, value) : query.delete(name)
  return query
}

function go(query) {
  history.pushState(null, '', address(query))
  load()
}

// link is a link within this page, which does not load it again.
function link(label, query, current = false) {
  const made = element('a', { href: address(query), textContent: label })
  if (current) made.ariaCurrent = 'page'
  made.addEventListener('click', (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    go(query)
  })
  return made
}

// short takes out the middle of a name that would fill a row.
const short = (name) => name.length > 37 ? `${name.slice(0, 18)}…${name.slice(-18)}` : name

const lookUp = (query) => element('a', { href: `./?q=${encodeURIComponent(query)}`, title: query, textContent: short(query) })

function showFilter() {
  const query = filter()
  const focused = document.activeElement
  for (const name of names.slice(1)) {
    const input = byId('filter').elements[name]
    input.value = query.get(name) ?? ''
    byId(input.value ? 'used' : 'unused').append(input.parentElement) // those that are not in use stay folded
  }
  if (focused.form) (focused.checkVisibility() ? focused : byId('more').firstElementChild).focus()
  const current = query.get('status') ?? ''
  byId('statuses').replaceChildren(link('all', changed({ status: '' }), current === ''),
    ...statuses.map((status) => link(status, changed({ status }), current === status)))
}

function show(page) {
  rows('items', page.items.map((n) => [
    element('time', { dateTime: n.created_at, textContent: clock(Date.parse(n.created_at)).slice(0, -4) }),
    badge(n.status), n.detail ?? (n.reason === n.status ? '' : n.reason ?? ''), lookUp(n.user_id), n.category, n.host ? `${n.channel} ${n.host}` : n.channel, n.attempts,
    n.deliver_at ? `in ${duration(Math.max(0, (Date.parse(n.deliver_at) - Date.now()) / 1000))}` : '–', lookUp(n.id),
  ]), page.next ? 'None on this page; there may be some on the next.' : 'No notification matches.', 9)
  text('shown', `${page.items.length} shown`)
  byId('note').hidden = !page.note
  text('note', page.note ?? '')
  const pages = []
  if (new URLSearchParams(location.search).get('cursor')) pages.push(link('‹ Newest', filter()))
  if (page.next) pages.push(link('Older ›', changed({ cursor: page.next })))
  byId('pages').replaceChildren(...pages)
}

let latest = 0

// load shows what the address says. Of two that overlap the later one counts. What does not respond is asked again without a
// word each time.
async function load(again = false) {
  const mine = ++latest
  if (!again) {
    showFilter()
    text('connection', 'loading …')
  }
  const query = filter()
  const cursor = new URLSearchParams(location.search).get('cursor')
  if (cursor) query.set('cursor', cursor)
  query.set('limit', perPage)
  try {
    const response = await get(`notifications?${query}`)
    if (!response) return text('connection', 'a text search needs the ops token')
    const fault = response.ok ? '' : await response.text()
    const page = response.ok ? await response.json() : { items: [], partial: response.status >= 500 }
    if (mine !== latest) return
    show(page)
    byId('fault').hidden = !fault
    text('fault', fault)
    text('connection', page.partial ? 'incomplete, loading again …' : `loaded, ${clock(Date.now()).slice(-12, -4)}`)
    if (page.partial) readAgain(byId('items'), () => load(true), () => mine === latest)
  } catch (error) {
    if (mine !== latest) return
    text('connection', `could not load: ${error}`)
    readAgain(byId('items'), () => load(true), () => mine === latest)
  }
}

byId('filter').addEventListener('submit', (event) => {
  event.preventDefault()
  const given = Object.fromEntries(new FormData(event.target))
  go(changed({ ...given, cursor: '' }))
})
byId('filter').addEventListener('reset', (event) => {
  event.preventDefault()
  go(new URLSearchParams())
})
addEventListener('popstate', () => load())

// suggest offers the names that there are.
function suggest({ categories, channels }) {
  byId('categories').replaceChildren(...categories.map((value) => element('option', { value })))
  byId('channels').replaceChildren(...channels.map((c) => element('option', { value: c.channel })))
  byId('move-to').replaceChildren(...channels.map((c) => element('option', { value: c.channel, textContent: c.channel })))
}

const verbs = { retry: ['Send again', 'sent again'], cancel: ['Cancel', 'cancelled'], move: ['Move', 'moved'] }

// send posts an order, and returns the response's body, or null after it has told what is wrong.
async function send(order) {
  const response = await post('bulk', order)
  if (!response) return null
  if (response.ok) return response.json()
  await ask(`This did not work: ${await response.text()}`)
  return null
}

// readable writes a query as people do.
const readable = (query) => [...new URLSearchParams(query)].map(([name, value]) => `${name} ${value}`).join(', ')

// changeAll counts what the filter selects, asks, and begins the job that changes it.
async function changeAll(action, channel = '') {
  const order = { action, filter: filter().toString(), ...(channel && { channel }) }
  const found = await send(order)
  if (!found) return
  if (!found.count) return text('connection', 'nothing that matches can be changed this way')
  const size = `${found.more ? 'the first ' : ''}${found.count.toLocaleString('en')} ${found.count === 1 ? 'notification' : 'notifications'}`
  const question = `${verbs[action][0]} ${size}${channel && ` to ${channel}`}? Selected: ${readable(found.filter)}.`
  if (await ask(question) && await send({ ...order, filter: found.filter, confirm: found.confirm })) showJobs()
}

function showJob(job) {
  const told = `${job.done} of ${job.count} ${verbs[job.action][1]}` + (job.skipped ? `, ${job.skipped} skipped` : '') +
    (job.refused ? `, ${job.refused} refused: ${(job.faults ?? []).at(-1)}` : '')
  const item = element('li', {}, `${clock(Date.parse(job.at)).slice(0, -4)} ${job.status}: ${told} (${readable(job.filter)}), by ${job.by}`)
  if (job.status === 'running') {
    const bar = element('progress', { max: job.count, value: job.done + job.skipped + job.refused })
    bar.ariaLabel = told
    const stop = element('button', { type: 'button', className: 'plain', textContent: 'Stop …' })
    stop.addEventListener('click', async () => {
      if (await ask('Stop this job? What it has changed stays changed.') && await post(`bulk/${job.id}/cancel`, {})) showJobs()
    })
    item.append(bar, stop)
  }
  return item
}

let running = false

const showJobs = () => keepAsking('bulk', latestJobs)

// latestJobs shows the latest jobs, and again every second while one runs. Once it has ended the list is loaded again.
function latestJobs(all) {
  const jobs = (all ?? []).slice(0, 5)
  if (!byId('jobs').contains(document.activeElement)) byId('jobs').replaceChildren(...jobs.map(showJob))
  const runs = jobs.some((job) => job.status === 'running')
  if (running && !runs) load()
  running = runs
  if (runs) setTimeout(showJobs, 1000)
}

byId('retry-all').addEventListener('click', () => changeAll('retry'))
byId('cancel-all').addEventListener('click', () => changeAll('cancel'))
byId('move-all').addEventListener('submit', (event) => {
  event.preventDefault()
  changeAll('move', byId('move-to').value)
})

keepAsking('snapshot', suggest)
load()
showJobs()
