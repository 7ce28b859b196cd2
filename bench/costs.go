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

// A boundedCost is a figure of pacer's that must not rise: a count, which other work on the machine does not change.
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

// costContests are what pacer does most, and how many items a round works on.
var costContests = []struct {
	name  string
	work  side
	items int
}{
	{"dispatch", pacerDispatch, 4000},
	{"accept", pacerAccept, 12_000},
	{"limiter", pacerLimiter, 12_000},
	{"durable dispatch", durableDispatch, 3000},
	{"durable accept", durableAccept, 8000},
	{"durable POST", durablePosts, 2000},
}

const (
	// costRounds is how often each is measured.
	costRounds = 3
	// countRoom is by how much a count may be above the highest of the runs that set its bound; roundRoom the same
	// where rounds share commands, and the busier the machine, the fewer deliveries a round has. A change that costs
	// less is not noticed.
	countRoom = 0.05
	roundRoom = 0.12
)

// figuresOf are the figures of a contest: of each the least of the rounds, since whatever disturbs a round adds to it.
func figuresOf(rounds []sample) map[string]float64 {
	least := func(value func(usage) float64) float64 {
		found := math.Inf(1)
		for _, s := range rounds {
			found = min(found, value(s.used))
		}
		return found
	}
	figures := map[string]float64{
		"allocations": least(func(u usage) float64 { return u.allocations }),
		"bytes":       least(func(u usage) float64 { return u.bytes }),
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
	all := map[string]map[string]float64{}
	for _, c := range costContests {
		if !strings.Contains(c.name, only) {
			continue
		}
		rounds := make([]sample, costRounds)
		for i := range rounds {
			var err error
			if rounds[i], err = c.work(ctx, options{n: c.items}); err != nil {
				return nil, fmt.Errorf("measure %s: %w", c.name, err)
			}
		}
		all[c.name] = figuresOf(rounds)
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
			of[0], of[1], rounded(values[len(values)/2]), rounded(most), rounded(most * (1 + roomOf(of[0]))),
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

// roomOf is by how much a count of a contest may be above the highest of the runs that set its bound.
func roomOf(contest string) float64 {
	if strings.Contains(contest, "dispatch") || strings.Contains(contest, "POST") {
		return roundRoom
	}
	return countRoom
}

// rounded keeps three digits behind the point.
func rounded(value float64) float64 { return math.Round(value*1000) / 1000 }
