//go:build faults

package faults_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Marks in docs/measurements/faults.md between which the table stands.
const tableBegins, tableEnds = "<!-- table: begin -->\n", "<!-- table: end -->\n"

// report prints the table of a green run, and writes it into the file FAULTS_DOCS when that is set.
func report(t *testing.T, rows []row) {
	t.Helper()
	if red() {
		return
	}
	table := tableOf(rows)
	fmt.Println(table)
	path := os.Getenv("FAULTS_DOCS")
	if path == "" {
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegins)
	_, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks %q and %q", path, tableBegins, tableEnds)
	}
	if err := os.WriteFile(path, []byte(before+tableBegins+table+tableEnds+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tableOf is the table as Markdown.
func tableOf(rows []row) string {
	var b strings.Builder
	b.WriteString("| # | fault, in mid-run | store | accepted | lost | doubled (allowed) | violations | goes on after | all ended after | protection | notes |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i, r := range rows {
		store := "Postgres"
		if r.store == inRedis {
			store = "Redis"
		}
		doubled := fmt.Sprint(r.verdict.doubled)
		if r.allowed > 0 {
			doubled += fmt.Sprintf(" (%d)", r.allowed)
		}
		if r.perAttempt {
			doubled += " per attempt"
		}
		violations := fmt.Sprint(r.verdict.violations)
		besides := append([]string{}, r.notes...)
		if r.holds != "" {
			besides = append([]string{r.holds}, besides...)
		}
		if len(r.faults) > 0 {
			besides = append(besides, "**failed: "+strings.Join(r.faults, "; ")+"**")
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %d | %d | %s | %s | %.1f s | %.1f s | %s | %s |\n", i+1, r.fault, store,
			r.accepted, r.lost,
			doubled, violations, r.verdict.recovery.Seconds(), r.ended.Seconds(), r.without.name,
			strings.Join(besides, ", "))
	}
	return b.String()
}
