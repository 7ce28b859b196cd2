package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The table puts a policy beside another one, also when their files have the same name, and says what differs.
func TestPolicySimulate(t *testing.T) {
	t.Parallel()
	arrivals := written(t, "arrivals.ndjson", strings.Repeat(`{"at": "2026-01-02T12:00:00Z", "user_id": "ada"}`+"\n", 3))
	under := written(t, "policy.yaml", "version: 1\ncategories: {default: {limits: [{max: 1, per: 1h}], max_defer: 1h}, new: {}}\n")
	against := written(t, "policy.yaml", "version: 1\ncategories: {default: {limits: [{max: 1, per: 1s}]}}\n")
	got := ask(t, "policy", "simulate", under, "--against", against, "--from", arrivals, "--fail-if", "wait_max > 30m")
	if got.code != 1 || !strings.HasSuffix(got.err, "\nwait_max > 30m: it is 1h\ndispatcher: a condition of --fail-if holds\n") {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{under, against, "difference +0 -1 -1 +0.0 % -1.008s +59m58s", "+1 expired max_defer"} {
		if !strings.Contains(strings.Join(strings.Fields(got.out), " "), want) {
			t.Errorf("%s\nlacks %q", got.out, want)
		}
	}
	file := filepath.Join(t.TempDir(), "report.html")
	got = ask(t, "policy", "simulate", under, "--from", arrivals, "--html", file)
	page, err := os.ReadFile(file)
	if got.code != 0 || got.out != "" || err != nil || !strings.Contains(string(page), "<td>1 expired max_defer</td>") {
		t.Errorf("%+v, %v: %s", got, err, page)
	}
	cases := written(t, "cases.yaml", "policy: "+under+"\ncases: [{name: late, given: [{at: 0s, user_id: ada}], then: [{id: n1, at: 1d}]}]\n")
	if got := ask(t, "policy", "test", cases); got.code != 1 || !strings.HasPrefix(got.out, "FAIL late\n     n1 is delivered at") {
		t.Errorf("%+v", got)
	}
}
