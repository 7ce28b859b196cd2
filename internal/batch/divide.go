package batch

import "fmt"

// Outcome is what became of one request of a batch.
type Outcome[Result any] struct {
	Result Result
	Err    error
}

// Divide runs requests in one go, and returns one outcome for each, in order. When that fails and ofOne says that the
// error is about one of the requests, it runs each half by itself, and so on: in the end that one has the error and the
// others have their results. That takes about twice as many runs as the number of requests has binary digits, for each
// request that fails. What has failed is run again, so it must have had no effect, or one that comes once.
//
// Any other error ends it, and is that of all requests that have no outcome yet: the store is away, say, and to ask it
// for each of them would take as many time-outs.
func Divide[Request, Result any](
	requests []Request, run func([]Request) ([]Result, error), ofOne func(error) bool,
) []Outcome[Result] {
	outcomes := make([]Outcome[Result], len(requests))
	var divide func(from, until int) (ended error)
	divide = func(from, until int) error {
		results, err := run(requests[from:until])
		if err == nil && len(results) != until-from {
			err = fmt.Errorf("a batch of %d requests has %d results", until-from, len(results))
		}
		if err != nil && ofOne(err) && until-from > 1 {
			half := (from + until) / 2
			if ended := divide(from, half); ended != nil {
				fail(outcomes[half:until], ended)
				return ended
			}
			return divide(half, until)
		}
		if err != nil {
			fail(outcomes[from:until], err)
			if ofOne(err) {
				return nil
			}
			return err
		}
		for i, result := range results {
			outcomes[from+i].Result = result
		}
		return nil
	}
	_ = divide(0, len(requests)) // each request has its outcome
	return outcomes
}

// fail gives an error to requests.
func fail[Result any](outcomes []Outcome[Result], err error) {
	for i := range outcomes {
		outcomes[i].Err = err
	}
}
