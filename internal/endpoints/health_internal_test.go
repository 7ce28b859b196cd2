package endpoints

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/test/transcript"
)

const day = 24 * time.Hour

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func failedAt(at time.Duration, count int) Observation {
	moment := start.Add(at)
	return Observation{
		FirstFailure: moment, LastFailure: moment, Failures: count, Failure: "transient: 503", Reply: "down",
	}
}

func succeededAt(at time.Duration) Observation { return Observation{Success: start.Add(at)} }

func goneAt(at time.Duration) Observation {
	o := failedAt(at, 1)
	o.Gone, o.Failure = start.Add(at), "target_gone: 410"
	return o
}

// seen is one observation, and when the store takes it in.
type seen struct {
	Observation
	at time.Duration
}

// at takes observations in as they come.
func at(all ...Observation) []seen {
	var list []seen
	for _, o := range all {
		moment := o.LastFailure
		if o.Success.After(moment) {
			moment = o.Success
		}
		list = append(list, seen{o, moment.Sub(start)})
	}
	return list
}

// daily fails once every so often until some time has passed.
func daily(every, until time.Duration) (all []Observation) {
	for t := time.Duration(0); t <= until; t += every {
		all = append(all, failedAt(t, 1))
	}
	return all
}

func TestWhenAnEndpointIsDisabled(t *testing.T) {
	t.Parallel()
	quarter := 6 * time.Hour
	for name, c := range map[string]struct {
		seen  []seen
		never bool
		from  time.Duration // attempts count from then
		want  string        // its state
	}{
		"five days of nothing but failures": {seen: at(daily(quarter, 5*day)...), want: StateDisabled},
		"almost five days":                  {seen: at(daily(quarter, 5*day-time.Hour)...), want: StateFailing},
		"the setting says never":            {seen: at(daily(quarter, 30*day)...), never: true, want: StateFailing},
		"one failure five days ago, and one now": {
			seen: at(failedAt(0, 1), failedAt(6*day, 1)), want: StateFailing,
		},
		"a burst five days ago, and one now": {
			seen: at(failedAt(0, 100), failedAt(6*day, 100)), want: StateFailing,
		},
		"few notifications, but on many days": {seen: at(daily(day, 9*day)...), want: StateDisabled},
		"a success in the middle": {
			seen: slices.Concat(at(daily(quarter, 3*day)...), at(succeededAt(3*day+time.Hour), failedAt(5*day, 9))),
			want: StateFailing,
		},
		"a success at the end": {
			seen: at(append(daily(quarter, 4*day), succeededAt(4*day+time.Hour))...), want: StateOK,
		},
		"410":                                  {seen: at(goneAt(0)), want: StateDisabled},
		"410, although failing never disables": {seen: at(goneAt(0)), never: true, want: StateDisabled},
		"410 before a success that is known already": {
			seen: []seen{{succeededAt(time.Minute), 1 * time.Minute}, {goneAt(0), 2 * time.Minute}}, want: StateOK,
		},
		"410 from before it was enabled": {
			seen: []seen{{goneAt(0), 2 * time.Minute}}, from: time.Minute, want: StateOK,
		},
		"a failure from before it was enabled": {
			seen: []seen{{failedAt(0, 5), 2 * time.Minute}}, from: time.Minute, want: StateOK,
		},
		"a late failure from before the success": {
			seen: []seen{{succeededAt(time.Minute), time.Minute}, {failedAt(0, 5), day}}, want: StateOK,
		},
		"a late success from before the failures": {
			seen: []seen{{failedAt(time.Minute, 5), time.Minute}, {succeededAt(0), day}}, want: StateFailing,
		},
		"a late success between the failures": {
			seen: slices.Concat(at(daily(quarter, 4*day)...), []seen{{succeededAt(2 * day), 4 * day}},
				at(failedAt(5*day, 1))),
			want: StateFailing,
		},
		"the same failures noted over and over again": {
			seen: at(append(daily(3*day, 6*day), failedAt(6*day, 9), failedAt(6*day, 9))...), want: StateFailing,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h Health
			h.CountsFrom = start.Add(c.from - time.Second)
			disableAfter := 5 * day
			if c.never {
				disableAfter = 0
			}
			var happened []events.Event
			for _, s := range c.seen {
				happened = append(happened, h.note("ep_1", s.Observation, start.Add(s.at), disableAfter)...)
			}
			if h.State() != c.want || (len(happened) == 1) != (c.want == StateDisabled) || len(happened) > 1 {
				t.Errorf("it is %s, with the events %v; want %s: %+v", h.State(), happened, c.want, h)
			}
			if h.Disabled() && (h.DisabledBecause == "" || happened[0].Reason != h.DisabledBecause) {
				t.Errorf("disabled because of %q, the event says %q", h.DisabledBecause, happened[0].Reason)
			}
		})
	}
}

func TestHealthInWords(t *testing.T) {
	t.Parallel()
	h := Health{CountsFrom: start.Add(-day)}
	transcript.Line(t, "testdata/health.txt", "new", h.Words())
	h.note("ep_1", failedAt(0, 2), start, 5*day)
	h.note("ep_1", failedAt(49*time.Hour, 1), start.Add(49*time.Hour), 5*day)
	transcript.Line(t, "testdata/health.txt", "failing", h.Words())
	if h.FailingDays() != 2 {
		t.Errorf("failing for %d days", h.FailingDays())
	}
	h.note("ep_1", goneAt(50*time.Hour), start.Add(50*time.Hour), 5*day)
	transcript.Line(t, "testdata/health.txt", "disabled", h.Words())
}

// Whatever several processes see, and in whatever order the store takes it in: an endpoint that took something less
// than the time ago is not disabled, and one whose latest attempt that anybody made was taken is well.
func TestHealthWhateverTheOrder(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		h := Health{CountsFrom: start.Add(-time.Second)}
		var all []Observation
		latest, latestGood := time.Duration(-1), time.Duration(-1)
		for process := range 3 { // each process notes its observations in order
			var at time.Duration
			for range 1 + random.IntN(12) {
				at += time.Duration(random.Int64N(int64(day)))
				o := failedAt(at, 5)
				if random.IntN(4) == 0 {
					o, latestGood = succeededAt(at), max(latestGood, at)
				}
				latest = max(latest, at)
				all = append(all, o)
			}
			_ = process
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		var happened []events.Event
		for _, o := range all {
			happened = append(happened, h.note("ep_1", o, start.Add(30*day), 5*day)...)
			if h.Disabled() && h.LastFailure.Sub(h.LastSuccess) < 5*day {
				t.Fatalf("seed %d: disabled %s after a success: %+v", seed, h.LastFailure.Sub(h.LastSuccess), h)
			}
		}
		for i, e := range happened { // they come by turns
			if want := []events.Type{events.EndpointDisabled, events.EndpointEnabled}[i%2]; e.Type != want {
				t.Fatalf("seed %d: event %d is %s, want %s", seed, i, e.Type, want)
			}
		}
		if (len(happened)%2 == 1) != h.Disabled() {
			t.Fatalf("seed %d: it is %s after %d events", seed, h.State(), len(happened))
		}
		if !h.Disabled() && (latest == latestGood) != (h.State() == StateOK) {
			t.Fatalf("seed %d: the latest attempt was at %s, the latest success at %s, and it is %s: %+v", seed, latest,
				latestGood, h.State(), h)
		}
	}
}
