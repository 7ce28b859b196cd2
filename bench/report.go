package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"text/template"
)

// ratio is the result of a contest.
type ratio struct {
	contest

	ours, theirs sample
}

// Value is how many times as fast as the peer pacer is.
func (r ratio) Value() float64 { return r.ours.rate / r.theirs.rate }

// byCPU is how many times as much CPU time as pacer the peer uses for an item.
func (r ratio) byCPU() float64 { return float64(r.theirs.used.cpu()) / float64(r.ours.used.cpu()) }

// wanted is the ratio that pacer has to reach, empty when there is none.
func (r ratio) wanted() string {
	if r.asked == 0 {
		return ""
	}
	return fmt.Sprintf("≥ %.1f", r.asked)
}

// figure is a measurement without a peer.
type figure struct{ what, got, wanted string }

// report is what a run measured.
type report struct {
	title   string
	ratios  []ratio
	figures []figure
}

// rows is the table of ratios: a heading, then a row for each contest.
func (r report) rows() [][]string {
	rows := [][]string{{"what", "pacer", "beside", "its", "ratio", "asked", "by CPU time"}}
	for _, x := range r.ratios {
		rows = append(rows, []string{
			x.name, perSecond(x.ours.rate), x.peer, perSecond(x.theirs.rate), fmt.Sprintf("%.2f", x.Value()),
			x.wanted(), fmt.Sprintf("%.2f", x.byCPU()),
		})
	}
	return rows
}

func (r report) figureRows() [][]string {
	rows := [][]string{{"what", "measured", "asked"}}
	for _, f := range r.figures {
		rows = append(rows, []string{f.what, f.got, f.wanted})
	}
	return rows
}

func perSecond(rate float64) string { return fmt.Sprintf("%.1f k/s", rate/1000) }

func (r report) print(to io.Writer) {
	fmt.Fprintln(to, r.title)
	for _, rows := range [][][]string{r.rows(), r.figureRows()} {
		if len(rows) == 1 {
			continue
		}
		fmt.Fprintln(to)
		table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
		for _, row := range rows {
			fmt.Fprintln(table, strings.Join(row, "\t"))
		}
		_ = table.Flush() // to a terminal
	}
}

// Between these marks of benchmarks.md stands what the last run wrote.
const (
	beginMark = "<!-- begin of what was measured -->\n"
	endMark   = "<!-- end of what was measured -->\n"
)

// write puts the tables into benchmarks.md and draws the chart, both in the folder.
func (r report) write(folder string) error {
	chart, err := r.chart()
	return errors.Join(err,
		between(filepath.Join(folder, "benchmarks.md"),
			r.title+".\n\n"+markdown(r.rows())+"\n"+markdown(r.figureRows())),
		os.WriteFile(filepath.Join(folder, "benchmarks.svg"), []byte(chart), 0o644), //nolint:gosec // for everybody
	)
}

// between puts text between the marks of a page.
func between(page, text string) error {
	whole, err := os.ReadFile(page) //nolint:gosec // a page of our own
	if err != nil {
		return err
	}
	before, rest, begun := strings.Cut(string(whole), beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return fmt.Errorf("%s lacks the marks around its tables", page)
	}
	return os.WriteFile(page, []byte(before+beginMark+text+endMark+after), 0o644) //nolint:gosec // for everybody
}

func markdown(rows [][]string) string {
	var text strings.Builder
	for i, row := range rows {
		text.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			text.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return text.String()
}

//go:embed chart.svg.tmpl
var chartTemplate string

// bar of the chart: lengths and places in pixels.
type bar struct {
	ratio

	Y, Length, Label, Asked float64
}

// Name and Peer are what stands beside the bar.
func (b bar) Name() string { return b.name }

// Peer is what pacer is compared with.
func (b bar) Peer() string { return b.peer }

// Short reports whether pacer missed the ratio that it has to reach.
func (b bar) Short() bool { return b.Value() < b.asked }

// Wanted reports whether there is such a ratio.
func (b bar) Wanted() bool { return b.asked > 0 }

// Below is the lower edge of the bar.
func (b bar) Below() float64 { return b.Y + 22 }

const (
	chartLeft  = 420.0 // where the bars begin
	chartUnit  = 90.0  // as long as a ratio of 1
	chartMost  = 4.0   // longer bars are cut
	chartRow   = 34.0
	chartAbove = 56.0
)

// chart draws the ratios as bars beside a line at 1.
func (r report) chart() (string, error) {
	bars := make([]bar, len(r.ratios))
	for i, x := range r.ratios {
		length := chartUnit * min(x.Value(), chartMost)
		bars[i] = bar{
			ratio: x, Y: chartAbove + chartRow*float64(i), Length: length,
			Label: chartLeft + max(length, chartUnit*x.asked) + 8, Asked: chartLeft + chartUnit*x.asked,
		}
	}
	var drawn strings.Builder
	err := template.Must(template.New("chart").Parse(chartTemplate)).Execute(&drawn, map[string]any{
		"Title": r.title, "Bars": bars, "Left": chartLeft, "One": chartLeft + chartUnit,
		"Width": chartLeft + chartUnit*chartMost + 80, "Height": chartAbove + chartRow*float64(len(bars)) + 30,
		"Bottom": chartAbove + chartRow*float64(len(bars)),
	})
	return drawn.String(), err
}
