// History: what happened by the hour, or over a month by the day, of one category or of all.

import { Chart } from './chart.js'
import { byId, element } from './dom.js'

const HOUR = 3600 // seconds, as in all times of this file
const series = [['accepted'], ['delivered', 'c2'], ['deferred'], ['failed', 'c4'], ['expired', 'c3'], ['cancelled'], ['replaced']]
const spans = { '24h': { hours: 24, step: 1 }, '7d': { hours: 168, step: 1 }, '30d': { hours: 720, step: 24 } }
const chart = new Chart(byId('history-chart'), 'bars', series)

async function show() {
  const since = byId('history-span').value, category = byId('history-category').value
  const response = await fetch(`history?${new URLSearchParams({ since, ...(category && { category }) })}`)
  if (!response.ok) return
  const { hours, step } = spans[since]
  const first = Math.floor(Date.now() / 1000 / HOUR) - hours + 1
  const times = Array.from({ length: hours / step }, (_, i) => (first + i * step) * HOUR)
  const values = series.map(() => times.map(() => 0))
  for (const hour of (await response.json()).hours) {
    const bar = Math.floor((Date.parse(hour.hour) / 1000 / HOUR - first) / step)
    series.forEach(([name], i) => { if (bar in times) values[i][bar] += hour[name] ?? 0 })
  }
  chart.draw(`${category || 'All categories'}, last ${since}`, times, values, [times[0], (first + hours) * HOUR])
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
setInterval(show, 60000)
show()
