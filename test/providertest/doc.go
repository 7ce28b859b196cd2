// Package providertest plays the providers of all channels, as servers that respond as a script says: over HTTP/1.1,
// HTTP/2 and SMTP. It knows what providers do and nothing of how pacer reads it, so the two can be compared.
//
// A script is a list of rules. A [Rule] holds by the target, by how many calls came within a second, and by age: how
// many calls came before, or how long ago the first one was. Its [Reply] is a status with header and body, and what
// becomes of the connection: it hangs, drips, is reset or half-closed, or goes away (GOAWAY). What no rule is about is
// accepted. Every call is noted.
package providertest
