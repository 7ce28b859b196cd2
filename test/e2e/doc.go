// Package e2e holds the end-to-end scenarios: built programs on a real Redis, with a receiver of the test's own,
// workers killed and stopped. They take minutes and are run by `make accept`, under the build tag accept.
package e2e
