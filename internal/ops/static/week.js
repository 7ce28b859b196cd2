// A user's week: when the user is not to be disturbed, day by day, in the user's time zone.

import { draw } from './marks.js'
import { element, swatch } from './dom.js'

const HOUR = 3600000
const HEAD = 20, ROW = 26, BAR = 18, RIGHT = 34

const date = (day, options) => new Date(`${day.date}T12:00:00Z`).toLocaleDateString('en-GB', { timeZone: 'UTC', ...options })

// clockIn gives what the user's clock shows at a moment of a day.
function clockIn(zone, day, at) {
  try {
    return new Date(at).toLocaleTimeString('en-GB', { timeZone: zone, hour: '2-digit', minute: '2-digit' })
  } catch { // the browser does not know the zone
    return new Date(at - Date.parse(day.noon) + 12 * HOUR).toISOString().slice(11, 16)
  }
}

// inWords lists the stretches of quiet, those over midnight as one.
function inWords(week) {
  const stretches = []
  for (const day of week.days) {
    for (const span of day.quiet) {
      const last = stretches.at(-1)
      const until = { at: span.until, text: `${date(day, { weekday: 'short' })} ${clockIn(week.zone, day, Date.parse(span.until))}` }
      if (last?.until.at === span.from) last.until = until
      else stretches.push({ from: `${date(day, { weekday: 'short', day: 'numeric', month: 'short' })} ${clockIn(week.zone, day, Date.parse(span.from))}`, until })
    }
  }
  return stretches.map((s) => `${s.from} to ${s.until.text}`)
}

// hoursOf says of a day how long it is, when that is not 24 hours.
function hoursOf(day) {
  const hours = (Date.parse(day.ends) - Date.parse(day.begins)) / HOUR
  return hours === 24 ? '' : `${hours} h`
}

// knownUntil gives the moment until which the week is known, which a window with many stretches shortens.
const knownUntil = (week) => week.known_until ? Date.parse(week.known_until) : Infinity

// untilWhen says so.
function untilWhen(week) {
  const until = knownUntil(week), day = week.days.find((d) => until < Date.parse(d.ends))
  if (!day) return ''
  return ` Known until ${date(day, { weekday: 'short', day: 'numeric', month: 'short' })} ${clockIn(week.zone, day, until)}; what follows is left out.`
}

// picture draws a row for each day, a pixel to a unit. A row is as long as the day is.
function picture(wide, week, waiting, now, title) {
  const narrow = wide < 560, left = narrow ? 58 : 92
  const longest = Math.max(...week.days.map((day) => Date.parse(day.ends) - Date.parse(day.begins)))
  const scale = (wide - left - RIGHT) / longest, known = knownUntil(week)
  const parts = [0, 6, 12, 18, 24].map((hour) => draw('text', { x: left + hour * HOUR * scale, y: 13, 'text-anchor': 'middle' }, String(hour).padStart(2, '0')))
  week.days.forEach((day, i) => {
    const begins = Date.parse(day.begins), ends = Date.parse(day.ends), y = HEAD + i * ROW
    const x = (at) => left + (at - begins) * scale
    const bar = (from, until, kind, words) => draw('rect', { class: kind, x: x(from), y, width: Math.max(1, (until - from) * scale), height: BAR }, draw('title', {}, words))
    const name = date(day, narrow ? { weekday: 'short', day: 'numeric' } : { weekday: 'short', day: 'numeric', month: 'short' })
    parts.push(draw('text', { x: 0, y: y + 13 }, name))
    if (begins < known) parts.push(bar(begins, Math.min(ends, known), 'open', `${name}: open`))
    if (now > begins && now < ends) parts.push(bar(begins, now, 'past', `${name}: over`))
    for (const span of day.quiet) {
      const from = Date.parse(span.from), until = Date.parse(span.until)
      parts.push(bar(from, until, 'quiet', `${name}: quiet from ${clockIn(week.zone, day, from)} to ${clockIn(week.zone, day, until)}`))
    }
    for (const hours of [-6, 0, 6]) {
      const at = x(Date.parse(day.noon) + hours * HOUR)
      parts.push(draw('line', { class: 'six', x1: at, x2: at, y1: y, y2: y + BAR }))
    }
    for (const one of waiting.filter((w) => w.at >= begins && w.at < ends)) {
      parts.push(draw('circle', { class: 'f3 expected', cx: x(one.at), cy: y + BAR / 2, r: 5 }, draw('title', {}, `${one.id} expected at ${clockIn(week.zone, day, one.at)}`)))
    }
    if (now >= begins && now < ends) parts.push(draw('line', { class: 'now', x1: x(now), x2: x(now), y1: y - 3, y2: y + BAR + 3 }))
    if (hoursOf(day)) parts.push(draw('text', { x: x(ends) + 4, y: y + 13 }, hoursOf(day)))
  })
  const high = HEAD + week.days.length * ROW
  return draw('svg', { viewBox: `0 0 ${wide} ${high}`, class: 'hours', role: 'img', 'aria-label': title }, ...parts)
}

const key = (colour, words) => element('li', {}, swatch(colour), words)

// weekOf shows the week of a user; waiting are moments at which something is expected to go, each {at, id}. It draws into
// a holder once that has its width.
export function weekOf(user, week, waiting, now) {
  const words = inWords(week)
  const switches = week.days.filter(hoursOf).map((day) => `${date(day, { weekday: 'short', day: 'numeric', month: 'short' })} has ${hoursOf(day)}, because the clocks change`)
  const chart = element('div', {})
  const title = `Quiet hours of ${user}, ${week.zone}: ${[...words, ...switches].join('; ')}`
  const observer = new ResizeObserver(() => chart.isConnected ? chart.replaceChildren(picture(chart.clientWidth, week, waiting, now, title)) : observer.disconnect())
  observer.observe(chart)
  return element('div', { className: 'category' }, element('h3', { textContent: `Quiet hours, ${week.zone}` }),
    element('p', { className: 'caption', textContent: `In these hours nothing in ${week.categories.join(', ')} goes out. They end at a moment of this user’s own, within the policy’s spread.${untilWhen(week)}` }),
    chart,
    element('ul', { className: 'legend' }, key('quiet', 'quiet'), key('open', 'open'), key('past', 'over'), key('c3', 'something is expected to go'), element('li', { textContent: 'Dashed: now.' })),
    element('details', {}, element('summary', { textContent: 'In words' }), element('ul', {}, ...[...words, ...switches].map((textContent) => element('li', { textContent })))))
}
