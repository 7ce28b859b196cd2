// How the pages write numbers and times.

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

export function clock(milliseconds) {
  const t = new Date(milliseconds)
  const time = t.toLocaleTimeString('en-GB', { hour12: false }) + '.' + String(t.getMilliseconds()).padStart(3, '0')
  return t.toDateString() === new Date().toDateString() ? time : `${t.toLocaleDateString('en-CA')} ${time}`
}
