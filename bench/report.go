package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
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

// report is what a run measured.
type report struct {
	title  string
	ratios []ratio
}

// rows is the table of ratios: a heading, then a row for each contest.
func (r report) rows() [][]string {
	rows := [][]string{{"contest", "pacer", "compared with", "its rate", "ratio", "goal", "ratio by CPU time"}}
	for _, x := range r.ratios {
		rows = append(rows, []string{
			x.name, perSecond(x.ours.rate), x.peer, perSecond(x.theirs.rate), fmt.Sprintf("%.2f", x.Value()),
			fmt.Sprintf("≥ %.1f", x.asked), fmt.Sprintf("%.2f", x.byCPU()),
		})
	}
	return rows
}

func perSecond(rate float64) string { return fmt.Sprintf("%.1f k/s", rate/1000) }

func (r report) print(to io.Writer) {
	fmt.Fprintf(to, "%s\n\n", r.title)
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, row := range r.rows() {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // to a terminal
}

// Between these marks of a page stands what the last run wrote.
const (
	beginMark = "<!-- begin of what was measured -->\n"
	endMark   = "<!-- end of what was measured -->\n"
)

// write puts the table into the page.
func (r report) write(page string) error {
	return between(page, r.title+".\n\n"+markdown(r.rows()))
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
