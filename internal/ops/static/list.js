// The list of notifications, as the server writes it. Its filter is the page's address, so a view can be kept, sent, and gone
// back to; this goes from one to the next without leaving the page, and changes all that match.

import { clock } from './format.js'
import { ask, get, post } from './act.js'
import { byId, element, keepAsking, readAgain, text } from './dom.js'

// filter is what the address says, without the place in the list.
function filter() {
  const query = new URLSearchParams(location.search)
  query.delete('cursor')
  return query
}

function go(address) {
  history.pushState(null, '', address)
  load()
}

// listen takes the links and the form of the filter, which have the server write another page.
function listen() {
  byId('main').addEventListener('click', (event) => {
    const link = event.target.closest('#statuses a, #pages a')
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    go(link.href)
  })
  byId('filter').addEventListener('submit', (event) => {
    event.preventDefault()
    const given = new URLSearchParams([...new FormData(event.target)].filter(([, value]) => value))
    go(`list.html${given.size ? `?${given}` : ''}`)
  })
  byId('filter').addEventListener('reset', (event) => {
    event.preventDefault()
    go('list.html')
  })
  addEventListener('popstate', () => load())
}

// finish completes what the server wrote, without the columns that are empty in all rows, and has it written again when a store
// did not tell all in time.
function finish() {
  for (const [i, head] of [...document.querySelectorAll('#list thead th')].entries()) {
    const cells = [...byId('items').rows].map((row) => row.cells[i])
    const empty = cells.every((cell) => cell?.textContent === '')
    for (const cell of [head, ...cells]) if (cell) cell.hidden = empty
  }
  for (const time of document.querySelectorAll('#list time')) time.textContent = clock(Date.parse(time.dateTime)).slice(0, -4)
  const mine = latest, partial = 'partial' in byId('list').dataset
  text('connection', partial ? 'incomplete, loading again …' : `loaded, ${clock(Date.now()).slice(-12, -4)}`)
  if (partial) readAgain(byId('list'), load, () => mine === latest)
}

let latest = 0

// load shows what the address says. Of two that overlap the later one counts.
async function load() {
  const mine = ++latest
  const response = await get(location.href).catch(() => undefined)
  if (mine !== latest) return
  if (response === null) return text('connection', 'a text search needs the ops token')
  if (!response) {
    text('connection', 'could not load')
    return readAgain(byId('list'), load, () => mine === latest)
  }
  const next = new DOMParser().parseFromString(await response.text(), 'text/html')
  if (mine !== latest || !next.getElementById('list')) return
  const { name } = document.activeElement
  for (const id of ['statuses', 'used', 'unused', 'list']) byId(id).replaceWith(next.getElementById(id))
  const input = name && byId('filter').elements[name]
  if (input) (input.checkVisibility() ? input : byId('more').firstElementChild).focus()
  finish()
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

listen()
finish()
if (location.search.includes('text=') && byId('fault').textContent) load() // with the token
showJobs()
