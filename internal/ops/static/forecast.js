// The coming 24 hours: what is held now, for which reason, and when it will be released.

import { Chart } from './chart.js'
import { byId, rows, text } from './dom.js'
import { clock } from './format.js'

// Reasons that a policy does not name; a cap has a name of its own.
const words = {
  quiet_hours: 'quiet hours', digest: 'a digest', limits: 'limits', calendar: 'calendar limits', user_cap: 'user cap', scheduled: 'send_at', retrying: 'a retry', provider: 'its provider',
  paused_by_operator: 'a pause',
}
const colours = { limits: 'c1', user_cap: 'c2', quiet_hours: 'c3', retrying: 'c4', provider: 'c5', scheduled: 'c6', digest: 'c7', calendar: 'c8' } // as in the chart of what waits
const wording = (reason) => words[reason] ?? reason.replace(':', ' ')
const colour = (reason) => colours[reason] ?? 'c8'
const moment = (at) => !at ? 'nobody knows' : clock(Date.parse(at)).slice(0, -4)

let latest = '', chart, names

// foresee shows a forecast.
export function foresee(forecast) {
  const state = JSON.stringify(forecast)
  if (!forecast || latest === state) return
  latest = state
  const { from, slice_seconds, reasons = [], exact } = forecast
  text('forecast-hint', (reasons.length ? 'What is held now, and when the limits and quiet hours in force will release it. New notifications are not included.' : 'Nothing is held.') +
    (exact ? '' : ' An estimate from a sample of what waits.'))
  byId('forecast-shown').hidden = !reasons.length
  rows('forecast', reasons.map((held) => [wording(held.reason), held.count, moment(held.first), moment(held.last)]), '', 4)
  if (!reasons.length) return
  const last = Math.max(...reasons.map((held) => held.released.findLastIndex((n) => n)))
  const begins = Date.parse(from) / 1000, times = reasons[0].released.slice(0, Math.max(6, last + 2)).map((_, i) => begins + i * slice_seconds)
  const series = reasons.map((held) => [wording(held.reason), colour(held.reason)])
  if (names !== series.join()) chart = new Chart(byId('forecast-chart'), 'bars', series)
  names = series.join()
  chart.draw('Released in the coming 24 hours', times, reasons.map((held) => held.released.slice(0, times.length)), [begins, begins + times.length * slice_seconds])
}
