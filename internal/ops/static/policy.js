// The policy page works without this file. It adds the token of an operator where the process wants one.

import { sendForm } from './act.js'
import { byId, swap } from './dom.js'

byId('diff').addEventListener('submit', async (event) => {
  event.preventDefault()
  const response = await sendForm(event.target)
  if (!response) return
  await swap(response)
  byId('diff-title').scrollIntoView()
})
