//go:build faults

package faults_test

import (
	"net/http"
	"sync"
	"time"
)

// retrying is the protection against what a provider does wrong.
var retrying = protection{name: "retries", mutations: "no-retry"}

// providerScenarios are what providers do.
func providerScenarios() []*scenario {
	timeouts := protection{name: "time-out of a send", mutations: "no-send-timeout"}
	finishing := protection{
		name: "time-out of the rest of a response", mutations: timeouts.mutations, rewrites: []rewrite{{
			file: "internal/push/httpsend/classify.go",
			says: "finishIn = 2 * time.Second", instead: "finishIn = 24 * time.Hour",
		}},
	}
	var promised promises
	return []*scenario{
		{
			name: "ProviderHangs", soak: true, fault: "provider accepts and never responds, 3 s", perAttempt: true,
			without: timeouts, check: nothingInFlight,
			inject: during(3*time.Second, func(_ http.ResponseWriter, r *http.Request, _ delivery) int {
				<-r.Context().Done()
				return 0
			}),
		},
		{
			name: "ProviderDrips", soak: true, fault: "provider sends one byte a second, 3 s", perAttempt: true,
			without: finishing, check: nothingInFlight,
			inject: during(3*time.Second, func(w http.ResponseWriter, r *http.Request,
				_ delivery,
			) int {
				return drip(w, r)
			}),
		},
		{
			name: "ProviderFails", soak: true, fault: "provider returns 503 to all, 3 s", perAttempt: true,
			without: retrying,
			inject: during(3*time.Second, func(w http.ResponseWriter, _ *http.Request, _ delivery) int {
				w.WriteHeader(http.StatusServiceUnavailable)
				return http.StatusServiceUnavailable
			}),
		},
		{
			name: "ProviderDrops", fault: "provider closes every connection before it responds, 3 s", perAttempt: true,
			without: retrying,
			inject: during(3*time.Second, func(http.ResponseWriter, *http.Request,
				delivery,
			) int {
				panic(http.ErrAbortHandler)
			}),
		},
		{
			name: "ProviderThrottles", soak: true, fault: "provider returns 429 with `Retry-After: 12`, 3 s",
			holds: "no call before `Retry-After`", perAttempt: true,
			without: protection{name: "Retry-After is obeyed", mutations: "no-retry-after"},
			inject: func(d *deployment) {
				during(3*time.Second, func(w http.ResponseWriter, _ *http.Request, x delivery) int {
					promised.came(x)
					promised.until(x.key, x.arrived.Add(12*time.Second))
					w.Header().Set("Retry-After", "12")
					w.WriteHeader(http.StatusTooManyRequests)
					return http.StatusTooManyRequests
				})(d)
			},
			check: func(d *deployment, _ verdict) {
				for _, x := range d.receiver.deliveries() {
					if x.accepted {
						promised.came(x)
					}
				}
				n := promised.early
				if n > 0 {
					d.blame("%d calls came before Retry-After", n)
				}
			},
		},
		{
			name: "ProviderGone", soak: true, fault: "nobody listens at the provider's address, 3 s", perAttempt: true,
			without: retrying, prepare: behindLink,
			inject: func(d *deployment) {
				d.links["Provider"].proxy.Stop()
				d.last(3 * time.Second)
				d.links["Provider"].lead(d.links["Provider"].proxy.Upstream)
			},
		},
	}
}

// promises are the moments before which notifications are not to be sent again.
type promises struct {
	mu    sync.Mutex
	times map[string]time.Time
	early int // calls that came before
}

func (p *promises) until(key string, moment time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times == nil {
		p.times = map[string]time.Time{}
	}
	p.times[key] = moment
}

func (p *promises) came(x delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.arrived.Before(p.times[x.key]) {
		p.early++
	}
}

// behindLink has webhooks go through a link.
func behindLink(d *deployment) {
	d.links["Provider"] = d.link(d.receiver.server.Listener.Addr().String())
	d.links["Provider"].each = true
	d.target = "http://" + d.links["Provider"].addr()
}

// during has the receiver behave in a way for some time.
func during(duration time.Duration, b behaviour) func(*deployment) {
	return func(d *deployment) {
		d.receiver.behaves(b)
		d.last(duration)
		d.receiver.behaves(nil)
	}
}

// drip sends a failure that never ends.
func drip(w http.ResponseWriter, r *http.Request) int {
	w.WriteHeader(http.StatusInternalServerError)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if _, err := w.Write([]byte("x")); err != nil || http.NewResponseController(w).Flush() != nil {
			return http.StatusInternalServerError
		}
		select {
		case <-r.Context().Done():
			return http.StatusInternalServerError
		case <-ticker.C:
		}
	}
}

// nothingInFlight says that no process is busy with a delivery when all have ended.
func nothingInFlight(d *deployment, _ verdict) {
	var reply struct {
		Processes []struct {
			InFlight int `json:"in_flight"`
		}
	}
	idle := eventually(15*time.Second, func() bool {
		reply.Processes = nil
		if status, _ := call(http.MethodGet, "http://"+d.workers[0].api+"/v1/stats", nil,
			&reply); status != http.StatusOK {
			return false
		}
		for _, p := range reply.Processes {
			if p.InFlight > 0 {
				return false
			}
		}
		return true
	})
	if !idle {
		d.blame("all have ended, and the processes still are at deliveries: %+v", reply.Processes)
	}
}
