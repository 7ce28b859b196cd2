// What operators do: a question first, the token where the process wants one, and then the request.

import { byId, element, text } from './dom.js'

const dialog = element('dialog', { id: 'sure' }, element('form', { method: 'dialog' },
  element('p', { id: 'sure-text' }),
  element('p', { id: 'sure-token', hidden: true }, element('label', {}, 'Ops token (--ops-token) ', element('input', { id: 'token', type: 'password', autocomplete: 'off' }))),
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

// send makes a request, with the token once it is known.
function send(path, options = {}) {
  const token = sessionStorage.getItem('token')
  return fetch(path, token ? { ...options, headers: { ...options.headers, Authorization: `Bearer ${token}` } } : options)
}

// askToken asks for the token, and returns whether the operator gave one. It is kept until the tab closes.
export async function askToken() {
  if (!await ask('This needs the token.', true)) return false
  sessionStorage.setItem('token', byId('token').value)
  byId('token').value = ''
  return true
}

// request asks for the token where it is needed. It returns the response, or null when the operator gave none.
async function request(path, options) {
  for (;;) {
    const response = await send(path, options)
    if (response.status !== 401) return response
    sessionStorage.removeItem('token') // it was a wrong one
    if (!await askToken()) return null
  }
}

// post sends a request of an operator, as request does.
export function post(path, body) {
  const headers = { 'Content-Type': 'application/json', 'Pacer-Operator': 'dashboard' }
  return request(path, { method: 'POST', headers, body: JSON.stringify(body) })
}

// sendForm sends a form, as request does.
export const sendForm = (form) => request(form.action, { method: 'POST', headers: { 'Pacer-Operator': 'dashboard' }, body: new FormData(form) })

// get reads a page as request does.
export const get = (path) => request(path, {})

// act asks for confirmation, takes an action, and returns whether it was taken.
export async function act(action, question) {
  if (!await ask(question)) return false
  const response = await post('actions', action)
  if (!response) return false
  const message = response.ok ? (await response.json()).done : await response.text()
  text('connection', message)
  if (!response.ok) await ask(`This did not work: ${message}`)
  document.dispatchEvent(new Event('acted'))
  return response.ok
}

// A button may name its action, and the question before it.
document.addEventListener('click', (event) => {
  const { ask: question, ...action } = event.target.closest('[data-action]')?.dataset ?? {}
  if (question) act(action, question)
})
