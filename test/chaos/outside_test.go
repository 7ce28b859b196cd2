package chaos_test

// outside runs what really talks to a store. A world lives in a bubble of testing/synctest, whose clock moves only
// while all its goroutines wait for something within; real connections belong to goroutines outside of it. Who asks one
// waits on a channel that was made outside, so that the clock stands still until the store has replied.
type outside struct{ free chan *outsider }

// outsider is a goroutine outside of the bubble.
type outsider struct {
	jobs chan func()
	done chan struct{}
}

// outsiders is how many calls can be under way at once; only those that wait for a lock of Postgres last.
const outsiders = 16

// newOutside must be called outside of the bubble; stop ends its goroutines.
func newOutside() (o *outside, stop func()) {
	o = &outside{free: make(chan *outsider, outsiders)}
	for range outsiders {
		worker := &outsider{jobs: make(chan func()), done: make(chan struct{})}
		go func() {
			for job := range worker.jobs {
				job()
				worker.done <- struct{}{}
			}
		}()
		o.free <- worker
	}
	return o, func() {
		for range outsiders {
			close((<-o.free).jobs)
		}
	}
}

// do runs a job outside and waits for its end. The job must touch no channel and no timer of the bubble.
func (o *outside) do(job func()) {
	worker := <-o.free
	worker.jobs <- job
	<-worker.done
	o.free <- worker
}
