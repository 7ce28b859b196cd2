package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// A boundedCost is a figure of pacer's that must not rise: a count, which other work on the machine does not change, or
// the CPU time of an item as a multiple of the peer's in the same rounds.
type boundedCost struct {
	// contest is one of costContests, figure one of its figures.
	Contest string `json:"contest"`
	Figure  string `json:"figure"`
	// Usual is the median of the runs from which the bound was set, Most the highest of them, and Bound what a run may
	// measure at most.
	Usual float64 `json:"usual"`
	Most  float64 `json:"most"`
	Bound float64 `json:"bound"`
}

// A costContest is a small contest, of which each round works on so many items: a third of a second and more on a core,
// since a round of 50 ms tells more of its neighbours than of itself.
type costContest struct {
	contest
	items int
}

// costContests are contests of what pacer does most, each beside a peer that uses the same servers.
var costContests = []costContest{
	{contest{name: "dispatch", peer: "asynq and a limiter call", pacer: pacerDispatch, beside: handDispatch}, 4000},
	{contest{name: "accept", peer: "asynq Enqueue", pacer: pacerAccept, beside: asynqEnqueue}, 12_000},
	{contest{name: "limiter", peer: "redis_rate", pacer: pacerLimiter, beside: redisRate}, 12_000},
	{contest{name: "durable dispatch", peer: "River", pacer: durableDispatch, beside: riverDispatch}, 3000},
	{contest{name: "durable accept", peer: "River InsertManyFast", pacer: durableAccept, beside: riverAccept}, 8000},
	{
		contest{name: "durable POST", peer: "a handler that inserts one row", pacer: durablePosts, beside: plainPosts},
		2000,
	},
}

const (
	// costRounds is how often each side of a contest works, in turn.
	costRounds = 3
	// countRoom is by how much a count may be above the highest of the runs that set its bound; roundRoom the same
	// where rounds share commands, and the busier the machine, the fewer deliveries a round has; ratioRoom that of a
	// ratio of CPU times, which differs by as much between two machines. A change that costs less is not noticed.
	countRoom = 0.05
	roundRoom = 0.12
	ratioRoom = 0.30
)

// ratioOfCPU is the figure of a contest that is no count.
const ratioOfCPU = "CPU time ÷ peer's"

// figuresOf are the figures of a contest: of each the least of the rounds, since whatever disturbs a round adds to it.
func figuresOf(ours, theirs []sample) map[string]float64 {
	least := func(value func(usage) float64) float64 { return leastOf(ours, value) }
	cpu := func(u usage) float64 { return float64(u.cpu()) }
	figures := map[string]float64{
		"allocations": least(func(u usage) float64 { return u.allocations }),
		"bytes":       least(func(u usage) float64 { return u.bytes }),
		ratioOfCPU:    least(cpu) / leastOf(theirs, cpu),
	}
	if commands := least(func(u usage) float64 { return u.commands }); commands > 0 {
		figures["commands of Redis"] = commands
	}
	if wal := least(func(u usage) float64 { return u.wal }); wal > 0 {
		figures["bytes of WAL"] = wal
	}
	return figures
}

// leastOf is the least value of the rounds of one side.
func leastOf(rounds []sample, value func(usage) float64) float64 {
	found := math.Inf(1)
	for _, s := range rounds {
		found = min(found, value(s.used))
	}
	return found
}

// measureCosts measures the figures of all of them whose names contain only.
func measureCosts(ctx context.Context, only string) (map[string]map[string]float64, error) {
	all := map[string]map[string]float64{}
	for _, c := range costContests {
		if !strings.Contains(c.name, only) {
			continue
		}
		ours, theirs, err := rounds(ctx, c.contest, options{rounds: costRounds, n: c.items})
		if err != nil {
			return nil, fmt.Errorf("%s beside %s: %w", c.name, c.peer, err)
		}
		all[c.name] = figuresOf(ours, theirs)
	}
	return all, nil
}

//go:embed costs.json
var boundsFile []byte

// checkCosts measures the costs, prints them, and fails when one is above its bound. One that is above is
// measured once more with its contest: what is slow twice is no accident.
func checkCosts(ctx context.Context, only string, to io.Writer) error {
	var bounds []boundedCost
	if err := json.Unmarshal(boundsFile, &bounds); err != nil {
		return fmt.Errorf("read costs.json: %w", err)
	}
	measured, err := measureCosts(ctx, only)
	if err != nil {
		return err
	}
	for _, name := range above(bounds, measured) {
		fmt.Fprintf(to, "%s is above a bound; it is measured again\n", name)
		again, err := measureCosts(ctx, name)
		if err != nil {
			return err
		}
		for figure, value := range again[name] {
			measured[name][figure] = min(value, measured[name][figure])
		}
	}
	printCosts(to, bounds, measured)
	if len(above(bounds, measured)) > 0 {
		return fmt.Errorf("%s: an item costs more than it did; bench/README.md says what to do then",
			strings.Join(exceeded(bounds, measured), "; "))
	}
	return nil
}

// above names the contests of which a figure is above its bound.
func above(bounds []boundedCost, measured map[string]map[string]float64) []string {
	var names []string
	for _, b := range bounds {
		if measured[b.Contest][b.Figure] > b.Bound && !slices.Contains(names, b.Contest) {
			names = append(names, b.Contest)
		}
	}
	return names
}

// exceeded says of each figure above its bound what it is and what it may be.
func exceeded(bounds []boundedCost, measured map[string]map[string]float64) []string {
	var said []string
	for _, b := range bounds {
		if value := measured[b.Contest][b.Figure]; value > b.Bound {
			said = append(said, fmt.Sprintf("%s, %s: %.2f, at most %.2f", b.Contest, b.Figure, value, b.Bound))
		}
	}
	return said
}

func printCosts(to io.Writer, bounds []boundedCost, measured map[string]map[string]float64) {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "contest\tfigure of one item\tmeasured\tusual\tat most\t")
	for _, b := range bounds {
		value, found := measured[b.Contest][b.Figure]
		if !found {
			continue
		}
		verdict := ""
		if value > b.Bound {
			verdict = "ABOVE"
		}
		fmt.Fprintf(table, "%s\t%s\t%.2f\t%.2f\t%.2f\t%s\n", b.Contest, b.Figure, value, b.Usual, b.Bound, verdict)
	}
	_ = table.Flush() // to a terminal
}

// setBounds measures all of them as often as told, and writes the bounds that follow into costs.json.
func setBounds(ctx context.Context, runs int) error {
	found := map[[2]string][]float64{}
	for i := range runs {
		measured, err := measureCosts(ctx, "")
		if err != nil {
			return err
		}
		for contest, figures := range measured {
			for figure, value := range figures {
				of := [2]string{contest, figure}
				found[of] = append(found[of], value)
			}
		}
		if err := writeBounds(found); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "run %d of %d\n", i+1, runs)
	}
	return nil
}

// writeBounds writes what runs may measure from now on, after some that measured values of contests' figures.
func writeBounds(found map[[2]string][]float64) error {
	var bounds []boundedCost
	for of, values := range found {
		values = slices.Sorted(slices.Values(values))
		most := values[len(values)-1]
		bounds = append(bounds, boundedCost{
			of[0], of[1], rounded(values[len(values)/2]), rounded(most), rounded(most * (1 + roomOf(of[0], of[1]))),
		})
	}
	slices.SortFunc(bounds, func(a, b boundedCost) int {
		return cmp.Or(strings.Compare(a.Contest, b.Contest), strings.Compare(a.Figure, b.Figure))
	})
	text, err := json.MarshalIndent(bounds, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile("costs.json", append(text, '\n'), 0o644) //nolint:gosec // for everybody
}

// roomOf is by how much a figure of a contest may be above the highest of the runs that set its bound.
func roomOf(contest, figure string) float64 {
	switch {
	case figure == ratioOfCPU:
		return ratioRoom
	case strings.Contains(contest, "dispatch"), strings.Contains(contest, "POST"):
		return roundRoom
	}
	return countRoom
}

// rounded keeps three digits behind the point.
func rounded(value float64) float64 { return math.Round(value*1000) / 1000 }
