// Command bench measures pacer beside what one would use instead, in one run, in turn, on Redis servers of its own, and
// prints the medians as ratios. See README.md for what is measured and what is not claimed.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// verbose has every run print what it used.
var verbose bool

// options of a run.
type options struct {
	rounds, n int
	only      string
	smoke     bool
	alone     bool // without the peers
	docs      string
}

// side is one side of a contest. It returns its rate per second and what it used.
type side func(ctx context.Context, o options) (sample, error)

// contest has pacer and a peer do the same work. Asked is the ratio that pacer has to reach.
type contest struct {
	name, peer    string
	asked         float64
	pacer, beside side
}

// pushOver is a contest with a bare library, each item of which pays for a dispatch besides.
func pushOver(channel, library string, pacer, bare side) contest {
	return contest{"push over " + channel, library + ", 50 callers, and then dispatch", 0.9, pacer, afterDispatch(bare)}
}

const (
	dispatchAdmitted = "dispatch, all admitted, log channel"
	durableAdmitted  = "durable dispatch, all admitted, log channel"
	decisions        = "limiter decisions, two rules, 50 callers"
	bulkAccept       = "bulk accept, batches of 1,000"
)

// contests are all that are measured, in the order of the report.
var contests = []contest{
	{dispatchAdmitted, "bare asynq, no-op handler, one server", 2.5, pacerDispatch, bareDispatch},
	{dispatchAdmitted, "hand-written: asynq and a limiter call", 3, pacerDispatch, handDispatch},
	{dispatchAdmitted, "BullMQ, no-op worker, 256 at once", 1.5, pacerDispatch, node("dispatch")},
	{durableAdmitted, "River, no-op worker", 0.8, durableDispatch, riverDispatch},
	{durableAdmitted, "by hand: River and a limiter call", 1.5, durableDispatch, riverByHand},
	{decisions, "redis_rate, one rule, 50 callers", 1.5, pacerLimiter, redisRate},
	{decisions, "rolling-rate-limiter, two rules, 50 callers", 6, pacerLimiter, node("limiter")},
	{bulkAccept, "asynq Enqueue one by one, 50 callers", 1.1, pacerAccept, asynqEnqueue},
	{bulkAccept, "BullMQ addBulk, batches of 1,000", 2.5, pacerAccept, node("accept")},
	{bulkAccept, "River InsertManyFast, batches of 1,000", 1, pacerAccept, riverAccept},
	{"durable " + bulkAccept, "River InsertManyFast, batches of 1,000", 0.7, durableAccept, riverAccept},
	{
		"durable accept, one in each POST, 50 callers", "a handler that inserts one row, 50 callers",
		0.8, durablePosts, plainPosts,
	},
	pushOver("APNs", "apns2", pacerAPNs, bareAPNs),
	pushOver("FCM", "OAuth 2 and net/http", pacerFCM, bareFCM),
	pushOver("Web Push", "webpush-go", pacerWebPush, bareWebPush),
	pushOver("webhook", "standard-webhooks and net/http", pacerWebhook, bareWebhook),
	pushOver("email", "go-mail", pacerEmail, bareEmail),
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each contest")
	flag.IntVar(&o.n, "n", 30_000, "notifications or decisions a round")
	flag.StringVar(&o.only, "only", "", "run only what has this in its name: dispatch, limiter, accept, durable, push")
	flag.BoolVar(&verbose, "v", false, "print what each run used of CPU, memory, Redis and Postgres")
	flag.BoolVar(&o.alone, "alone", false, "run pacer's side only, and print what it used: counts hold on a busy machine too")
	flag.BoolVar(&o.smoke, "smoke", false, "run everything once and small, to see that it works")
	flag.StringVar(&o.docs, "docs", "", "write the tables into benchmarks.md in this folder")
	costs := flag.Bool("costs", false, "run the small contests that must not become slower, and fail when one has")
	setRuns := flag.Int("costs-set", 0, "run them so often, and write the bounds that follow into costs.json")
	flag.Parse()
	if o.smoke {
		o.rounds, o.n = 1, 500
	}
	verbose = verbose || o.alone
	debug.SetGCPercent(400) // as the dispatcher does; the peers in this process collect less too
	var err error
	switch {
	case *setRuns > 0:
		err = setBounds(ctx, *setRuns)
	case *costs:
		err = checkCosts(ctx, o.only, os.Stdout)
	default:
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	roots, err := trustProviders()
	if err != nil {
		return err
	}
	defer func() { _ = roots.Remove() }() // a temporary folder
	r := report{title: fmt.Sprintf("%s, %d CPUs, %s/%s; medians of %d rounds of %d",
		runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, o.rounds, o.n)}
	for _, c := range contests {
		if !strings.Contains(c.name, o.only) && !strings.Contains(c.peer, o.only) {
			continue
		}
		ours, theirs, err := rounds(ctx, c, o)
		if err != nil {
			return fmt.Errorf("%s beside %s: %w", c.name, c.peer, err)
		}
		one := ratio{c, medians(ours), medians(theirs)}
		r.ratios = append(r.ratios, one)
		fmt.Fprintf(os.Stderr, "%s beside %s: %.2f, by CPU time %.2f\n", c.name, c.peer, one.Value(), one.byCPU())
	}
	r.print(os.Stdout)
	if o.docs == "" {
		return nil
	}
	return r.write(filepath.Join(o.docs, "benchmarks.md"))
}

// rounds has both sides work in turn, so that a machine that slows down slows both.
func rounds(ctx context.Context, c contest, o options) (ours, theirs []sample, err error) {
	for range o.rounds {
		one, err := c.pacer(ctx, o)
		if err != nil {
			return nil, nil, err
		}
		var other sample
		if !o.alone {
			if other, err = c.beside(ctx, o); err != nil {
				return nil, nil, err
			}
		}
		ours, theirs = append(ours, one), append(theirs, other)
	}
	return ours, theirs, nil
}

// medians are those of the rate and of the CPU time of an item, each by itself.
func medians(of []sample) sample {
	byCPU := slices.SortedFunc(slices.Values(of),
		func(a, b sample) int { return cmp.Compare(a.used.cpu(), b.used.cpu()) })
	byRate := slices.SortedFunc(slices.Values(of), func(a, b sample) int { return cmp.Compare(a.rate, b.rate) })
	return sample{rate: byRate[len(of)/2].rate, used: byCPU[len(of)/2].used}
}
