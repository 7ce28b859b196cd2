// Package faults holds only tests, under the build tag faults. They run real dispatcher processes on real Redis and
// Postgres servers, and do to them what happens in production: kill, freeze, empty, cut off. Each scenario also runs
// without the protection that it is about, and must then fail. make faults runs them.
package faults
