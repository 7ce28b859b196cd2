//go:build race

package agenda_test

// stepsOnMini is how many steps of random programs are played on the engine in this process, which the race detector
// makes slow.
const stepsOnMini = 3_000
