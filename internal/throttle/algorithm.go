package throttle

// Algorithm is how the limits of a category count.
type Algorithm uint8

const (
	// Rolling is the default. It remembers every admission and holds each limit exactly, in every window. It costs
	// memory for each of the newest Max admissions.
	Rolling Algorithm = iota
	// FixedWindow counts in windows that begin with their first admission. It costs constant memory. Within any
	// window of length Per it may admit up to 2·Max−1: Max−1 at the end of one counting window, and Max in the next. It
	// may admit one more when the admission that opened the first window was refunded.
	FixedWindow
	// TokenBucket refills Max tokens per Per, continuously. It costs constant memory. Within any window of length
	// Per it may admit up to 2·Max−1: a full bucket at once, and nearly as many from the refill.
	TokenBucket
)

// algorithms holds everything about an algorithm in Go. Its Lua is in the file lua/algorithms/NAME.lua.
var algorithms = [...]struct {
	name   string // in the policy file
	letter string // in the names of its keys
	// counting is what it does with the counter of a limit; nil for the algorithm that keeps a log.
	counting counting
}{
	Rolling:     {name: "rolling", letter: "l"},
	FixedWindow: {name: "fixed_window", letter: "f", counting: fixedWindow{}},
	TokenBucket: {name: "token_bucket", letter: "b", counting: tokenBucket{}},
}

// Algorithms lists all algorithms.
func Algorithms() []Algorithm {
	all := make([]Algorithm, len(algorithms))
	for i := range all {
		all[i] = Algorithm(i)
	}
	return all
}

// String is the algorithm's name in the policy file.
func (a Algorithm) String() string {
	if int(a) < len(algorithms) {
		return algorithms[a].name
	}
	return "invalid"
}

// ParseAlgorithm reads an algorithm's name.
func ParseAlgorithm(name string) (Algorithm, bool) {
	for i, known := range algorithms {
		if known.name == name {
			return Algorithm(i), true
		}
	}
	return 0, false
}

// KeepsLog reports whether every admission is remembered and limits are exact. Other algorithms count: two of their
// windows may share one window of length Per.
func (a Algorithm) KeepsLog() bool { return algorithms[a].counting == nil }

// MostWithin is how many admissions any window of length Per may hold under a limit.
func (a Algorithm) MostWithin(limit Rule) int {
	if a.KeepsLog() {
		return limit.Max
	}
	return 2 * limit.Max
}
