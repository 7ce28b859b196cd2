// Reads requests from standard input, one JSON object a line, and writes a response line for each: what libraries of other
// authors made of what pacer sent, or {"error": "..."} when they did not understand it.
import crypto from 'node:crypto'
import readline from 'node:readline'

import ece from 'http_ece'
import { decodeProtectedHeader, importJWK, jwtVerify } from 'jose'
import { Webhook } from 'standardwebhooks'

const readers = {
  // A push service checks the credential (RFC 8292), a browser decrypts the message (RFC 8291).
  async webpush({ body, privateKey, authSecret, authorization, audience }) {
    const [, token, key] = /^vapid t=([^,]+), ?k=(.+)$/.exec(authorization)
    const point = Buffer.from(key, 'base64url')
    const jwk = {
      kty: 'EC', crv: 'P-256',
      x: point.subarray(1, 33).toString('base64url'), y: point.subarray(33, 65).toString('base64url'),
    }
    const { payload } = await jwtVerify(token, await importJWK(jwk, 'ES256'), {
      algorithms: ['ES256'], audience, requiredClaims: ['exp', 'sub'], maxTokenAge: undefined,
    })
    if (payload.exp > Date.now() / 1000 + 24 * 3600) throw new Error(`the token ends at ${payload.exp}`)
    const browser = crypto.createECDH('prime256v1')
    browser.setPrivateKey(Buffer.from(privateKey, 'base64url'))
    const plain = ece.decrypt(Buffer.from(body, 'base64'), { version: 'aes128gcm', privateKey: browser, authSecret })
    return { plain: plain.toString('utf8'), subject: payload.sub, algorithm: decodeProtectedHeader(token).alg }
  },
  // A receiver of Standard Webhooks verifies signature and age. Its library knows shared secrets only: an Ed25519
  // signature is verified by OpenSSL.
  async webhook({ body, secret, headers }) {
    if (secret.startsWith('whpk_')) {
      const key = crypto.createPublicKey({
        key: { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(secret.slice(5), 'base64').toString('base64url') }, format: 'jwk',
      })
      const text = Buffer.from(body, 'base64').toString('utf8')
      const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${text}`
      const valid = headers['webhook-signature'].split(' ').some((signature) => {
        const [version, encoded] = signature.split(',')
        return version === 'v1a' && crypto.verify(null, Buffer.from(signed), key, Buffer.from(encoded, 'base64'))
      })
      if (!valid) throw new Error('no matching signature found')
      return { plain: text }
    }
    return { plain: JSON.stringify(new Webhook(secret).verify(Buffer.from(body, 'base64').toString('utf8'), headers)) }
  },
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  let response
  try {
    const { kind, ...request } = JSON.parse(line)
    response = await readers[kind](request)
  } catch (error) {
    response = { error: String(error) }
  }
  process.stdout.write(JSON.stringify(response) + '\n')
}
