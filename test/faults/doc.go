// Package faults holds no code of its own: its tests, under the build tag faults, run real dispatcher processes on real
// Redis and Postgres servers and do to them what happens in production: kill, freeze, empty, cut off. Each scenario is
// also run with the protection that it is about switched off, and must then fail. Run them with make faults.
package faults
