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

// costContests are small contests of what pacer does most, each beside a peer that uses the same servers.
var costContests = []contest{
	{name: "dispatch", peer: "asynq and a limiter call", pacer: pacerDispatch, beside: handDispatch},
	{name: "accept", peer: "asynq Enqueue", pacer: pacerAccept, beside: asynqEnqueue},
	{name: "limiter", peer: "redis_rate", pacer: pacerLimiter, beside: redisRate},
	{name: "durable dispatch", peer: "River", pacer: durableDispatch, beside: riverDispatch},
	{name: "durable accept", peer: "River InsertManyFast", pacer: durableAccept, beside: riverAccept},
	{name: "durable POST", peer: "a handler that inserts one row", pacer: durablePosts, beside: plainPosts},
}

const (
	// costRounds and costItems are how often each side of a contest works, in turn, and on how many items.
	costRounds = 3
	costItems  = 1500
	// countRoom is by how much a count may be above the highest of the runs that set its bound; roundRoom the same
	// where rounds share commands, and the busier the machine, the fewer deliveries a round has; ratioRoom that of a
	// ratio of CPU times. A change that costs less is not noticed.
	countRoom = 0.05
	roundRoom = 0.12
	ratioRoom = 0.10
)

// ratioOfCPU is the figure of a contest that is no count.
const ratioOfCPU = "CPU time ÷ peer's"

// figuresOf are the figures of a contest: of each the least of pacer's rounds, since whatever disturbs a round adds to
// it; and the median ratio of CPU times.
func figuresOf(ours, theirs []sample) map[string]float64 {
	least := func(value func(usage) float64) float64 {
		found := math.Inf(1)
		for _, s := range ours {
			found = min(found, value(s.used))
		}
		return found
	}
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = float64(ours[i].used.cpu()) / float64(theirs[i].used.cpu())
	}
	slices.Sort(ratios)
	figures := map[string]float64{
		"allocations": least(func(u usage) float64 { return u.allocations }),
		"bytes":       least(func(u usage) float64 { return u.bytes }),
		ratioOfCPU:    ratios[len(ratios)/2],
	}
	if commands := least(func(u usage) float64 { return u.commands }); commands > 0 {
		figures["commands of Redis"] = commands
	}
	if wal := least(func(u usage) float64 { return u.wal }); wal > 0 {
		figures["bytes of WAL"] = wal
	}
	return figures
}

// measureCosts measures the figures of all of them whose names contain only.
func measureCosts(ctx context.Context, only string) (map[string]map[string]float64, error) {
	o := options{rounds: costRounds, n: costItems}
	all := map[string]map[string]float64{}
	for _, c := range costContests {
		if !strings.Contains(c.name, only) {
			continue
		}
		ours, theirs, err := rounds(ctx, c, o)
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
	if slow := above(bounds, measured); len(slow) > 0 {
		return fmt.Errorf("%s: costs more than it did; bench/README.md says what to do then", strings.Join(slow, ", "))
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
	case strings.Contains(contest, "dispatch"):
		return roundRoom
	}
	return countRoom
}

// rounded keeps three digits behind the point.
func rounded(value float64) float64 { return math.Round(value*1000) / 1000 }
