// The coming 24 hours: what is held now, for which reason, and when it will be released.

import { clock, columns, number, swatch } from './chart.js'
import { byId, element, rows, text } from './dom.js'

// Reasons that a policy does not name; a cap has a name of its own.
const words = {
  quiet_hours: 'quiet hours', digest: 'a digest', limits: 'limits', calendar: 'calendar limits', user_cap: 'user cap', scheduled: 'send_at', retrying: 'a retry', provider: 'its provider',
  paused_by_operator: 'a pause',
}
const colours = { limits: 'f1', user_cap: 'f2', quiet_hours: 'f3', retrying: 'f4', provider: 'f5', scheduled: 'f6', digest: 'f7', calendar: 'f8' } // as in the chart of what waits
const wording = (reason) => words[reason] ?? reason.replace(':', ' ')
const colour = (reason) => colours[reason] ?? 'f8'
const hour = (at) => new Date(at).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' })
const moment = (at) => !at ? 'nobody knows' : clock(Date.parse(at)).slice(0, -4)

let latest

// foresee shows a forecast.
export function foresee(forecast) {
  const state = JSON.stringify(forecast)
  if (!forecast || latest?.state === state) return
  latest = { state, forecast }
  redraw()
}

// redraw draws the latest forecast, in the width that there is.
function redraw() {
  if (!latest) return
  const { from, slice_seconds, reasons = [], exact } = latest.forecast
  text('forecast-hint', (reasons.length ? 'What is held now, and when the limits and quiet hours in force will release it. New notifications are not included.' : 'Nothing is held.') +
    (exact ? '' : ' An estimate from a sample of what waits.'))
  byId('forecast-table').hidden = !reasons.length
  rows('forecast', reasons.map((held) => [
    element('span', {}, swatch(colour(held.reason)), wording(held.reason)), held.count, moment(held.first), moment(held.last),
  ]), '', 4)
  byId('forecast-chart').replaceChildren()
  if (!reasons.length) return
  const all = reasons[0].released.map((_, i) => ({
    at: Date.parse(from) + i * slice_seconds * 1000, ...Object.fromEntries(reasons.map((held) => [wording(held.reason), held.released[i]])),
  }))
  const title = `Released in the coming 24 hours: ${reasons.map((held) => `${number(held.count - (held.later ?? 0))} held for ${wording(held.reason)}`).join(', ')}`
  byId('forecast-chart').replaceChildren(columns(byId('forecast-chart'), all, reasons.map((held) => [wording(held.reason), colour(held.reason)]), title, hour))
}

addEventListener('resize', redraw)
