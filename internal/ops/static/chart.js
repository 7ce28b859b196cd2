// Charts in SVG: lines for rates, stacked areas for what waits, columns by the hour, and a line of moments for one
// notification or user.

const NS = 'http://www.w3.org/2000/svg'

export function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS(NS, name)
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
  element.append(...children)
  return element
}

// number writes a number in a few characters, exactly below 10,000.
export function number(n) {
  if (n === 0) return '0'
  if (Math.abs(n) < 10) return String(Math.round(n * 100) / 100)
  if (Math.abs(n) < 10000) return Math.round(n).toLocaleString('en')
  if (Math.abs(n) < 1e6) return `${(n / 1e3).toFixed(1)} k`
  return `${(n / 1e6).toFixed(2)} M`
}

export function duration(seconds) {
  if (seconds < 0.001) return '0'
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`
  if (seconds < 59.5) return `${seconds.toFixed(seconds < 9.95 ? 1 : 0)} s`
  const whole = Math.round(seconds), minutes = Math.round(seconds / 60)
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  if (minutes < 2880) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
  return `${Math.round(seconds / 86400)} days`
}

// ceiling is the next round number above the largest value.
export function ceiling(largest) {
  if (largest <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(largest))
  return [1, 2, 5, 10].find((step) => step * power >= largest) * power
}

const WIDTH = 640, HEIGHT = 200, LEFT = 68, BOTTOM = 22, TOP = 8, SPAN = 300

// Chart draws series of points, each {at, …}, over the last five minutes, stacked or as lines.
export class Chart {
  constructor(holder, title, series, { stacked = false } = {}) {
    Object.assign(this, { title, series, stacked })
    this.svg = draw('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img' })
    this.legend = document.createElement('ul')
    this.legend.className = 'legend'
    this.values = series.map(([, name], i) => {
      const item = document.createElement('li')
      item.append(swatch(`f${i + 1}`))
      const value = document.createElement('span')
      item.append(`${name} `, value)
      this.legend.append(item)
      return value
    })
    holder.append(this.svg, this.legend)
  }

  draw(points) {
    const last = points.at(-1)
    if (!last) return
    const x = (p) => LEFT + (WIDTH - LEFT - 8) * (1 - (last.at - p.at) / 1000 / SPAN)
    const shown = points.filter((p) => last.at - p.at <= SPAN * 1000)
    const bases = shown.map(() => 0)
    const layers = this.series.map(([read]) => shown.map((p, i) => {
      const low = this.stacked ? bases[i] : 0
      bases[i] = low + read(p)
      return [low, low + read(p)]
    }))
    const top = ceiling(Math.max(...layers.flat().map(([, high]) => high), 0))
    const y = (v) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - v / top)
    const parts = [0, 0.5, 1].flatMap((share) => [
      draw('line', { class: 'grid', x1: LEFT, x2: WIDTH - 8, y1: y(top * share), y2: y(top * share) }),
      draw('text', { x: LEFT - 6, y: y(top * share) + 4, 'text-anchor': 'end' }, number(top * share)),
    ])
    for (const minutes of [5, 4, 3, 2, 1]) {
      parts.push(draw('text', { x: x({ at: last.at - minutes * 60000 }), y: HEIGHT - 6, 'text-anchor': minutes === 5 ? 'start' : 'middle' }, `−${minutes} min`))
    }
    layers.forEach((layer, i) => {
      const high = layer.map(([, v], j) => `${x(shown[j]).toFixed(1)},${y(v).toFixed(1)}`)
      if (this.stacked) {
        const low = layer.map(([v], j) => `${x(shown[j]).toFixed(1)},${y(v).toFixed(1)}`).reverse()
        parts.push(draw('path', { class: `area f${i + 1}`, d: `M${[...high, ...low].join('L')}Z` }))
      } else {
        parts.push(draw('path', { class: `line s${i + 1}`, d: `M${high.join('L')}` }))
      }
    })
    this.svg.replaceChildren(...parts)
    const now = this.series.map(([read, name], i) => {
      this.values[i].textContent = number(read(last))
      return `${name} ${number(read(last))}`
    })
    this.svg.setAttribute('aria-label', `${this.title}: ${now.join(', ')}`)
  }
}

// columns draws stacked columns, each {at, NAME: n, …}, of series [name, class], a pixel to a unit, so that its texts can be
// read at any width of the holder.
export function columns(holder, all, series, title, label) {
  const high = 180, left = 48, bottom = 22, head = 8
  const wide = holder.clientWidth || 1240
  const top = ceiling(Math.max(...all.map((column) => series.reduce((sum, [name]) => sum + column[name], 0))))
  const width = (wide - left - 8) / all.length
  const y = (v) => head + (high - head - bottom) * (1 - v / top)
  const parts = [0, 0.5, 1].flatMap((share) => [
    draw('line', { class: 'grid', x1: left, x2: wide - 8, y1: y(top * share), y2: y(top * share) }),
    draw('text', { x: left - 6, y: y(top * share) + 4, 'text-anchor': 'end' }, number(top * share)),
  ])
  all.forEach((column, i) => {
    let base = 0
    for (const [name, colour] of series) {
      if (column[name]) parts.push(draw('rect', { class: colour, x: left + i * width, width: Math.max(1, width - 1), y: y(base + column[name]), height: y(base) - y(base + column[name]) }, draw('title', {}, `${label(column.at)}: ${number(column[name])} ${name}`)))
      base += column[name]
    }
    if (i % Math.ceil(all.length / Math.min(8, wide / 80)) === 0) parts.push(draw('text', { x: left + i * width, y: high - 6 }, label(column.at)))
  })
  return draw('svg', { viewBox: `0 0 ${wide} ${high}`, role: 'img', 'aria-label': title, class: 'hours' }, ...parts)
}

// swatch is the square in the colour of a series, beside its name.
export const swatch = (colour) => draw('svg', { viewBox: '0 0 12 12', 'aria-hidden': 'true' }, draw('rect', { width: 12, height: 12, rx: 2, class: colour }))

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

export function clock(milliseconds) {
  const t = new Date(milliseconds)
  const time = t.toLocaleTimeString('en-GB', { hour12: false }) + '.' + String(t.getMilliseconds()).padStart(3, '0')
  return t.toDateString() === new Date().toDateString() ? time : `${t.toLocaleDateString('en-CA')} ${time}`
}
