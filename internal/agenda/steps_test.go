//go:build !race

package agenda_test

// stepsOnMini is how many steps of random programs are played on the engine in this process.
const stepsOnMini = 10_000
