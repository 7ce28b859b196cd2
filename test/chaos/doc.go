// Package chaos is the random world: whole deployments of several processes, put together from the real parts, in which
// each call to Redis, to Postgres and to the provider is a step that a schedule decides about. It holds tests alone;
// see docs/measurements/chaos.md.
package chaos
