//go:build faults && soak

package faults_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// soakPolicy has everything that a policy may say of a notification's time.
const soakPolicy = `
version: 1
categories:
  default:
    limits: [{max: 5, per: 2s}, {max: 15, per: 6s}]
    min_gap: 20ms
  security: {bypass: true}
bypass_priority: critical
retry: {max_attempts: 10, min_backoff: 200ms, max_backoff: 2s}
`

// soakFor is how long the soak goes on: SOAK, an hour unless it says otherwise.
func soakFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SOAK")
	if text == "" {
		return time.Hour
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// soakSeed is SOAK_SEED, or a new one.
func soakSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SOAK_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano())
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// TestSoak runs a deployment of two processes for a long time, with traffic of every kind and faults at random. At the
// end every promise is checked over all that was accepted, and that nothing grew meanwhile.
func TestSoak(t *testing.T) {
	duration, seed := soakFor(t), soakSeed(t)
	report := newSoakReport(t)
	report.say("soak of %s, seed %d (SOAK_SEED repeats the order of traffic and faults)", duration, seed)
	random := rand.New(rand.NewPCG(seed, 1))
	var d *deployment
	defer func() {
		if p := recover(); p != nil {
			end, ok := p.(broken)
			if !ok {
				panic(p)
			}
			report.blame("%s", end.why)
		}
		report.write(d)
	}()
	d = deploy(t, soakScenario())
	traffic := newTraffic(d, rand.New(rand.NewPCG(seed, 2)))
	traffic.begin()
	samples := d.sample()
	faults := soakFaults()
	end := time.Now().Add(duration)
	// In a short soak faults come closer together: six of them at least.
	pause := min(20*time.Second, duration/12)
	for warm := time.After(pause); ; warm = time.After(pause + rand.N(pause)) {
		<-warm
		if time.Until(end) < pause || len(faults) == 0 {
			break
		}
		fault := faults[random.IntN(len(faults))]
		report.fault(fault.name)
		d.meet(fault)
		report.recovered(d, fault.name)
	}
	<-time.After(time.Until(end))
	traffic.stop()
	report.samples = samples()
	d.await("all has ended", 3*time.Minute, func() bool { return d.open() == 0 })
	report.check(d, traffic)
}

// soakScenario sets up the servers of a soak: all that the faults may want to do to them.
func soakScenario() *scenario {
	return &scenario{name: "Soak", users: 40, slow: 20 * time.Millisecond, prepare: func(d *deployment) {
		d.redis = redistest.Start(d.t)
		d.postgres = postgrestest.Start(d.t)
		for _, p := range pairs() {
			if p.prepare != nil {
				d.keep(p)
			}
		}
		if err := os.WriteFile(d.policy, []byte(soakPolicy), 0o600); err != nil {
			d.fail("write the policy: %v", err)
		}
	}}
}

// keep puts a link of a pair before the servers that there are.
func (d *deployment) keep(p pair) {
	switch p.name {
	case "Redis":
		d.links[p.name] = d.link(d.redis.Addr())
		d.redisURL = "redis://" + d.links[p.name].addr() + "/0"
	case "Postgres":
		d.links[p.name] = d.link(d.postgres.Addr())
		d.databaseURL = "postgres://pacer@" + d.links[p.name].addr() + "/postgres?sslmode=disable"
	default:
		p.prepare(d)
	}
}

// soakFaults are the scenarios whose faults may come at any time, but for those that SOAK_ONLY leaves out.
func soakFaults() []*scenario {
	return slices.DeleteFunc(allScenarios(), func(s *scenario) bool {
		return !s.soak || !only("SOAK_ONLY").MatchString(s.name)
	})
}

// meet plays one fault. What it may double is counted on top of what the others may.
func (d *deployment) meet(s *scenario) {
	before := d.inFlight
	d.scenario.perAttempt = s.perAttempt
	met := d.sending()
	s.inject(d)
	d.inFlight = before + max(met, d.inFlight-before) + 64 // those that began between the count and the fault
}

// reading is what was measured of the whole deployment at one moment.
type reading struct {
	at time.Time
	// by what is measured.
	values map[string]float64
}

// metric asks a process for one of its own figures.
func (w *worker) metrics() (map[string]float64, bool) {
	response, err := caller.Get("http://" + w.ops + "/metrics")
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, false
	}
	defer response.Body.Close()
	figures, err := figuresOf(response.Body)
	return figures, err == nil
}

// sample measures every three seconds until the function is called that it returns.
func (d *deployment) sample() (readings func() []reading) {
	stop, done := make(chan struct{}), make(chan []reading)
	client := d.redis.Client(d.t)
	go func() {
		var all []reading
		ticker := time.NewTicker(3 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				done <- all
				return
			case <-ticker.C:
				if r, ok := d.measure(client); ok {
					all = append(all, r)
				}
			}
		}
	}()
	return func() []reading { close(stop); return <-done }
}

// String tells the figures in a fixed order.
func (r reading) String() string {
	text := ""
	for _, name := range measured {
		text += fmt.Sprintf("%s %.0f ", name, r.values[name])
	}
	return text
}
