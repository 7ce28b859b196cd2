//go:build race

package agenda_test

// perStepOnMini is how many steps of random programs are played on Redis for one on the engine in this process, which
// the race detector makes slow.
const perStepOnMini = 30
