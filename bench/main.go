// Command bench measures pacer beside what one would use instead, in one run, in turn, on Redis servers of its own, and
// prints the medians as ratios. See README.md for what is measured and what is not claimed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"
)

// verbose has dispatches tell what they cost Redis.
var verbose bool

// options of a run.
type options struct {
	rounds, n int
	only      string
	smoke     bool
}

// contest is pacer and a peer doing the same work; each gives its rate per second.
type contest struct {
	name, peer    string
	pacer, beside func(ctx context.Context, o options) (float64, error)
}

var contests = []contest{
	{"dispatch, all admitted, log channel", "bare asynq, no-op handler, one server", pacerDispatch, bareDispatch},
	{"dispatch, all admitted, log channel", "hand-written: asynq and a limiter call", pacerDispatch, handDispatch},
	{"limiter decisions, two rules, 50 callers", "redis_rate, one rule, 50 callers", pacerLimiter, redisRate},
	{"bulk accept, batches of 1,000", "asynq Enqueue one by one, 50 callers", pacerAccept, asynqEnqueue},
	{"bulk accept, batches of 1,000", "River InsertManyFast, batches of 1,000", pacerAccept, riverAccept},
	{"durable bulk accept, batches of 1,000", "River InsertManyFast, batches of 1,000", durableAccept, riverAccept},
	{"push over APNs, all admitted", "the bare library apns2, 50 callers", pacerAPNs, bareAPNs},
	{"push over Web Push, all admitted", "the bare library webpush-go, 50 callers", pacerWebPush, bareWebPush},
	{"durable dispatch, all admitted, log channel", "River, no-op worker", durableDispatch, riverDispatch},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each contest")
	flag.IntVar(&o.n, "n", 30_000, "notifications or decisions a round")
	flag.StringVar(&o.only, "only", "", "run only what holds this in its name: dispatch, limiter, accept, durable, push, crowd")
	profile := flag.String("cpuprofile", "", "write a CPU profile of this process, peers included, to this file")
	flag.BoolVar(&verbose, "v", false, "tell what Redis's CPU was used for")
	flag.BoolVar(&o.smoke, "smoke", false, "run everything once and small, to see that it works")
	flag.Parse()
	if o.smoke {
		o.rounds, o.n = 1, 500
	}
	if err := profiled(*profile, func() error { return run(ctx, o) }); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// profiled does what it is given and writes its profile to the file; none when that is empty.
func profiled(path string, do func() error) error {
	if path == "" {
		return do()
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return do()
}

func run(ctx context.Context, o options) error {
	if err := trustProviders(); err != nil {
		return err
	}
	fmt.Printf("%s, %d CPUs, %s/%s; medians of %d rounds of %d\n\n", runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, o.rounds, o.n)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tpacer /s\tbeside\tits /s\tratio")
	for _, c := range contests {
		if !strings.Contains(c.name, o.only) {
			continue
		}
		pacer, beside, err := compete(ctx, c, o)
		if err != nil {
			return fmt.Errorf("%s beside %s: %w", c.name, c.peer, err)
		}
		fmt.Fprintf(table, "%s\t%.0f\t%s\t%.0f\t%.2f\n", c.name, pacer, c.peer, beside, pacer/beside)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if !strings.Contains("crowd", o.only) {
		return nil
	}
	return crowds(ctx, o)
}

// compete lets both do their work in turn, so that a machine that slows down slows both.
func compete(ctx context.Context, c contest, o options) (pacer, beside float64, err error) {
	var ours, theirs []float64
	for range o.rounds {
		for _, side := range []struct {
			do    func(context.Context, options) (float64, error)
			rates *[]float64
		}{{c.pacer, &ours}, {c.beside, &theirs}} {
			rate, err := side.do(ctx, o)
			if err != nil {
				return 0, 0, err
			}
			*side.rates = append(*side.rates, rate)
		}
	}
	return median(ours), median(theirs), nil
}

func median(rates []float64) float64 {
	slices.Sort(rates)
	return rates[len(rates)/2]
}
