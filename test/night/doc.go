// Package night holds the night cases: what people see when something is wrong. Each case makes one trouble in a
// deployment of real processes, and then asks as somebody who was woken does: `dispatcher user`, `dispatcher explain`,
// the dashboard and the alerts. Which alerts fire stands in the cases; what the others say stands in
// testdata/said.golden, which -update corrects, and from there in the tables of docs/runbook.md.
package night
