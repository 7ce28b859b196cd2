// The policy page works without this file. It adds the token of an operator where the process wants one.

import { sendForm } from './act.js'
import { byId } from './dom.js'

byId('diff').addEventListener('submit', async (event) => {
  event.preventDefault()
  const response = await sendForm(event.target)
  if (!response) return
  const next = new DOMParser().parseFromString(await response.text(), 'text/html').getElementById('main')
  if (next) byId('main').replaceChildren(...next.children)
  byId('diff-title').scrollIntoView()
})
