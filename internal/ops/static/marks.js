// Marks on a line of time, in SVG.

import { clock } from './format.js'

const NS = 'http://www.w3.org/2000/svg'

export function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS(NS, name)
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
  element.append(...children)
  return element
}

// moments draws marks on a time line. Each is {at, kind, label}; kinds are f1 to f5. With even they stand at equal
// distances, for marks with hours between some and milliseconds between others. On a narrow screen it scrolls by itself.
export function moments(title, marks, { now, even = false } = {}) {
  const width = 900, height = 64, left = 10, right = 10
  const times = marks.map((m) => m.at)
  if (now !== undefined) times.push(now)
  const first = Math.min(...times), last = Math.max(...times)
  const place = (at, i) => left + (width - left - right) * (even ? (marks.length > 1 ? i / (marks.length - 1) : 0.5) : last > first ? (at - first) / (last - first) : 0.5)
  const svg = draw('svg', { viewBox: `0 0 ${width} ${height}`, class: 'moments', role: 'img', 'aria-label': title },
    draw('line', { class: 'axis', x1: left, x2: width - right, y1: 30, y2: 30 }))
  if (now !== undefined && !even) {
    const x = place(now)
    svg.append(draw('line', { class: 'now', x1: x, x2: x, y1: 8, y2: 52 }), draw('text', { x: Math.min(x + 4, width - 30), y: 14 }, 'now'))
  }
  marks.forEach((m, i) => {
    const x = place(m.at, i)
    const anchor = x < 60 ? 'start' : x > width - 60 ? 'end' : 'middle'
    svg.append(draw('circle', { class: m.kind, cx: x, cy: 30, r: 5 }, draw('title', {}, m.title ?? '')))
    if (m.label) svg.append(draw('text', { x, y: i % 2 && even ? 14 : 54, 'text-anchor': anchor }, m.label))
  })
  if (!even && last > first) {
    svg.append(draw('text', { x: left, y: 54 }, clock(first)), draw('text', { x: width - right, y: 54, 'text-anchor': 'end' }, clock(last)))
  }
  const holder = document.createElement('div')
  Object.assign(holder, { className: 'scroll', tabIndex: 0, role: 'group', ariaLabel: 'Time line' })
  holder.append(svg)
  return holder
}
