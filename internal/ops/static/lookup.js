// One notification or user. The server wrote it; this adds the reader's clock and the pictures, and reads again what a store
// did not tell in time.

import { askToken, get } from './act.js'
import { byId, readAgain, swap } from './dom.js'
import { clock } from './format.js'

const main = byId('main')

// finish completes what the server wrote.
function finish() {
  for (const time of main.querySelectorAll('time')) time.textContent = clock(Date.parse(time.dateTime)).slice(0, time.dateTime.includes('.') ? undefined : -4)
  if (byId('zone')) byId('zone').textContent = Intl.DateTimeFormat().resolvedOptions().timeZone
  main.querySelectorAll('.line').forEach(place)
  byId('show-contents')?.addEventListener('click', async () => { if (await askToken()) read() })
  if (main.querySelector('[data-partial]')) readAgain(main, read, () => true)
}

// place puts what stands on a line of time where it belongs. A line without a beginning and an end has those of its marks.
function place(line) {
  const marks = [...line.children], moments = marks.map((mark) => Date.parse(mark.dataset.from))
  const from = Date.parse(line.dataset.from ?? '') || Math.min(...moments)
  const whole = (Date.parse(line.dataset.until ?? '') || Math.max(...moments)) - from || 1
  const span = line.nextElementSibling?.querySelector('.span')
  if (span) span.textContent = `${clock(from)} to ${clock(from + whole)}. `
  marks.forEach((mark, i) => {
    mark.style.left = `${100 * (moments[i] - from) / whole}%`
    if (mark.dataset.until) mark.style.width = `${100 * (Date.parse(mark.dataset.until) - moments[i]) / whole}%`
  })
}

// read reads the page again, with the token where there is one.
async function read() {
  const response = await get(location.href).catch(() => null)
  if (!response) return readAgain(main, read, () => true)
  await swap(response)
  finish()
}

document.addEventListener('acted', read)
finish()
if (byId('show-contents') && sessionStorage.getItem('token')) read()
