// What operators do: a question first, the token where the process wants one, and then the request.

import { byId, element, text } from './dom.js'

const dialog = element('dialog', { id: 'sure' }, element('form', { method: 'dialog' },
  element('p', { id: 'sure-text' }),
  element('p', { id: 'sure-token', hidden: true }, element('label', {}, 'Token of --ops-token ', element('input', { id: 'token', type: 'password', autocomplete: 'off' }))),
  element('div', { className: 'row' }, element('button', { value: 'yes', id: 'sure-yes', textContent: 'Yes' }),
    element('button', { value: 'no', id: 'sure-no', formNoValidate: true, textContent: 'No' }))))
dialog.setAttribute('aria-labelledby', 'sure-text')
document.body.append(dialog)

// ask shows a question and returns whether the operator said yes. It does not wait for the dialog's close event. That event
// comes some time after the dialog closes, so it could be taken for the reply to the next question.
export function ask(question, token = false) {
  const closed = new AbortController()
  text('sure-text', question)
  byId('sure-token').hidden = !token
  dialog.showModal()
  byId(token ? 'token' : 'sure-no').focus()
  return new Promise((resolve) => {
    const close = (yes) => {
      closed.abort()
      resolve(yes)
    }
    dialog.addEventListener('submit', (event) => close(event.submitter?.value === 'yes'), { signal: closed.signal })
    dialog.addEventListener('cancel', () => close(false), { signal: closed.signal })
  })
}

// post sends a request of an operator, and asks for the token where it is needed. It returns the response, or null when the
// operator gave none.
export async function post(path, body) {
  let token = sessionStorage.getItem('token') ?? ''
  for (;;) {
    const headers = { 'Content-Type': 'application/json', 'Pacer-Operator': 'dashboard' }
    if (token) headers.Authorization = `Bearer ${token}`
    const response = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) })
    if (response.status !== 401) {
      if (token) sessionStorage.setItem('token', token)
      return response
    }
    if (!await ask('This needs the token.', true)) return null
    token = byId('token').value
    byId('token').value = ''
  }
}

// act asks for confirmation, takes an action, and returns whether it was taken.
export async function act(action, question) {
  if (!await ask(question)) return false
  const response = await post('actions', action)
  if (!response) return false
  const message = response.ok ? (await response.json()).done : await response.text()
  text('connection', message)
  if (!response.ok) await ask(`That did not work: ${message}`)
  document.dispatchEvent(new Event('acted'))
  return response.ok
}
