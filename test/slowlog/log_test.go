package slowlog_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/slowlog"
)

const ms = time.Millisecond

func TestOver(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	span := func(number int, stalled time.Duration, took ...time.Duration) slowlog.Span {
		s := slowlog.Span{
			From: start.Add(time.Duration(number) * 50 * ms),
			To:   start.Add(time.Duration(number+1) * 50 * ms), Stalled: stalled,
		}
		for _, d := range took {
			s.Steps = append(s.Steps, slowlog.Step{Took: d})
		}
		return s
	}
	pressure := func(s slowlog.Span, d time.Duration) slowlog.Span {
		s.Pressure = d
		return s
	}
	away := func(s slowlog.Span) slowlog.Span {
		s.Away = true
		return s
	}
	for name, test := range map[string]struct {
		spans []slowlog.Span
		over  []time.Duration
	}{
		"nothing":                  {},
		"within the limit":         {spans: []slowlog.Span{span(0, 0, 10*ms, 3*ms)}},
		"over it":                  {spans: []slowlog.Span{span(0, 0, 11*ms, 3*ms)}, over: []time.Duration{11 * ms}},
		"explained by the machine": {spans: []slowlog.Span{span(0, ms, 11*ms)}},
		"explained in part":        {spans: []slowlog.Span{span(0, 9*ms, 30*ms)}, over: []time.Duration{30 * ms}},
		"two explained together":   {spans: []slowlog.Span{span(0, 5*ms, 14*ms, 11*ms)}},
		"one of two explained": {
			spans: []slowlog.Span{span(0, 5*ms, 16*ms, 14*ms)}, over: []time.Duration{16 * ms},
		},
		"the machine stalled long before": {
			spans: []slowlog.Span{span(0, 50*ms), span(1, 0), span(2, 0, 40*ms)}, over: []time.Duration{40 * ms},
		},
		"it stalled while the step ran": {spans: []slowlog.Span{span(0, 50*ms), span(1, 0, 40*ms)}},
		"frozen while the step ran":     {spans: []slowlog.Span{away(span(0, 0)), span(1, 0, 40*ms)}},
		"frozen before": {
			spans: []slowlog.Span{away(span(0, 0)), span(1, 0), span(2, 0, 40*ms)}, over: []time.Duration{40 * ms},
		},
		"every script is slow and waits": {
			spans: []slowlog.Span{span(0, 20*ms, 30*ms, 30*ms), span(5, 20*ms, 50*ms)},
			over:  []time.Duration{50 * ms, 30 * ms},
		},
		"disks, told later": {spans: []slowlog.Span{span(0, 0, 40*ms), pressure(span(20, 0), 30*ms)}},
		"disks, much later": {
			spans: []slowlog.Span{span(0, 0, 40*ms), pressure(span(60, 0), 30*ms)}, over: []time.Duration{40 * ms},
		},
		"a stall after the step": {
			spans: []slowlog.Span{span(0, 0, 40*ms), span(1, 50*ms)}, over: []time.Duration{40 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log slowlog.Log
			for _, s := range test.spans {
				log.Add(s)
			}
			var over []time.Duration
			for _, step := range log.Over(10 * ms) {
				over = append(over, step.Took)
			}
			if !slices.Equal(over, test.over) {
				t.Errorf("over the limit are %v, want %v", over, test.over)
			}
		})
	}
}

func TestExcused(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	var log slowlog.Log
	for i := range 10 {
		from := start.Add(time.Duration(i) * 50 * ms)
		log.Add(slowlog.Span{
			From: from, To: from.Add(50 * ms),
			Steps: []slowlog.Step{{Took: time.Duration(20+i) * ms}},
		})
	}
	log.Excuse(start.Add(100*ms), start.Add(350*ms))
	// The 3rd to 7th ran then, and the 8th had begun.
	if over := log.Over(10 * ms); len(over) != 4 || over[0].Took != 29*ms || log.Slowest().Took != 29*ms {
		t.Errorf("over the limit are %v, the slowest is %v", over, log.Slowest())
	}
}
