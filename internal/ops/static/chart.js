// Charts of what changes with time. uPlot draws them, with the colours of the style sheet; a text says the same.

/* global uPlot -- vendor/uPlot.iife.min.js */

import { element, swatch } from './dom.js'
import { clock, number } from './format.js'

const HEIGHT = 200
const STEPS = [60, 120, 300, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800] // of the axis of time, in seconds
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`)

// label writes a moment of an axis: its day where a step is a day or more, else its time.
function label(at, step) {
  const t = new Date(at * 1000)
  return step >= 86400 ? t.toLocaleDateString('en-CA').slice(5) : t.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' })
}

// Chart draws series [name, colour] as 'lines', or on top of each other as 'areas' or 'bars'. One without a colour is told and
// not drawn. The legend tells the values under the pointer; else those of the bars together, or the latest.
export class Chart {
  constructor(holder, kind, series) {
    const now = Date.now() / 1000
    Object.assign(this, { kind, series, times: [], values: [], span: [now - 300, now] })
    this.picture = element('div', { className: 'chart', role: 'img' })
    this.told = series.map(() => element('span'))
    this.moment = element('li')
    holder.replaceChildren(this.picture, element('ul', { className: 'legend' }, ...series.map(([name, colour], i) => (
      element('li', {}, ...(colour ? [swatch(colour)] : []), `${name} `, this.told[i]))), this.moment))
    // What is painted later hides what is below it, so the sum of all comes first.
    this.drawn = series.map(([, colour], i) => ({ colour, i })).filter((s) => s.colour).reverse()
    this.picture.plot = new uPlot(this.options(), [[], ...this.drawn.map(() => [])], this.picture)
    new ResizeObserver(([{ contentRect: { width } }]) => width && this.picture.plot.setSize({ width, height: HEIGHT })).observe(this.picture)
  }

  options() {
    const axis = { stroke: () => colour('soft'), grid: { stroke: () => colour('line'), width: 1 }, ticks: { show: false } }
    return {
      width: this.picture.clientWidth || 320, height: HEIGHT, padding: [8, 20, 0, 0], legend: { show: false },
      cursor: { drag: { x: false }, y: false, points: { show: false } },
      scales: { x: { range: () => this.span }, y: { range: (_, __, top) => [0, top > 0 ? uPlot.rangeNum(0, top, 0.1, true)[1] : 1] } },
      axes: [
        { ...axis, size: 28, incrs: STEPS, values: (_, all, __, ___, step) => all.map((at) => label(at, step)) },
        { ...axis, size: 60, values: (_, all) => all.map(number) },
      ],
      series: [{}, ...this.drawn.map((s) => this.look(() => colour(s.colour)))],
      hooks: { setCursor: [(plot) => this.tell(plot.cursor.idx)] },
    }
  }

  // look is how one series is drawn.
  look(paint) {
    if (this.kind === 'lines') return { stroke: paint, width: 2, points: { show: false } }
    const paths = this.kind === 'bars' ? uPlot.paths.bars({ align: 1, size: [0.9, Infinity] }) : undefined
    return { fill: paint, width: 0, points: { show: false }, paths }
  }

  // draw shows the values of each series at these times, in seconds, over a span of time.
  draw(title, times, values, span) {
    Object.assign(this, { times, values, span })
    let sum = times.map(() => 0)
    const heights = this.series.map(([, colour], i) => {
      if (!colour || this.kind === 'lines') return values[i]
      sum = values[i].map((value, j) => value + sum[j])
      return this.kind === 'bars' ? sum.map((height, j) => values[i][j] ? height : null) : sum
    })
    this.picture.plot.setData([times, ...this.drawn.map((s) => heights[s.i])])
    this.tell(this.picture.plot.cursor.idx)
    this.picture.ariaLabel = `${title}: ${this.series.map(([name], i) => `${name} ${number(this.total(i))}`).join(', ')}`
  }

  total(i) {
    return this.kind === 'bars' ? this.values[i].reduce((sum, value) => sum + value, 0) : this.values[i].at(-1)
  }

  // tell writes into the legend what there is at one of the times, or at none.
  tell(at) {
    const under = at != null && at < this.times.length
    this.moment.textContent = under ? `at ${clock(this.times[at] * 1000).slice(0, -4)}` : ''
    this.values.forEach((all, i) => { this.told[i].textContent = number(under ? all[at] : this.total(i)) })
  }
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const picture of document.querySelectorAll('.chart')) picture.plot.redraw()
})
