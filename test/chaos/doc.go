// Package chaos plays random worlds: whole deployments of several processes, put together from the real parts. Each
// call to Redis, to Postgres and to the provider is a step, and a schedule decides what becomes of it. The package
// holds only tests; see docs/measurements/chaos.md.
package chaos
