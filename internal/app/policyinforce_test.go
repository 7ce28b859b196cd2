package app_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/test/processtest"
)

// Every process reports which policy it has in force. One that refuses its file is named with the fault, and so are
// processes that differ.
func TestThePolicyInForceIsTold(t *testing.T) {
	t.Parallel()
	const good = crowdPolicy + patientWebhooks
	d := newDeployment(t, onRedis, good, 1)
	own := d.settings()
	own.Policy = filepath.Join(t.TempDir(), "own.yaml")
	write := func(text string) {
		t.Helper()
		if err := processtest.ReplaceFile(own.Policy, text); err != nil {
			t.Fatal(err)
		}
	}
	write(good)
	second := d.startWith(own)
	told := func() (in ops.PolicyInForce) {
		t.Helper()
		if err := json.Unmarshal([]byte(d.opsPage(second, "/policy")), &in); err != nil {
			t.Fatal(err)
		}
		return in
	}
	before := told()
	if before.Text != good || before.File != own.Policy || len(before.Version) != 16 ||
		before.LoadedAt.IsZero() || before.Refused != "" {
		t.Errorf("the policy in force is %+v", before)
	}

	const faulty = "version: 1\ncategories: {}\n"
	write(faulty)
	if err := second.ReloadPolicy(); err == nil {
		t.Fatal("a policy without the default category is taken")
	}
	refused := told()
	if refused.Version != before.Version || !strings.Contains(refused.Refused, "own.yaml:2:") ||
		refused.RefusedAt.IsZero() || refused.RefusedVersion != policy.VersionOf(faulty) || refused.Text != good {
		t.Errorf("after a refusal the policy in force is %+v", refused)
	}
	d.awaitPage(second, "/metrics", "pacer_policy_differs 0")
	metrics := d.opsPage(second, "/metrics")
	for _, want := range []string{
		`pacer_policy_info{version="` + before.Version + `"} 1`, "pacer_policy_refused 1",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}

	write("version: 1\ncategories:\n  default: {min_gap: 1s}\n")
	if err := second.ReloadPolicy(); err != nil {
		t.Fatal(err)
	}
	if after := told(); after.Version == before.Version || after.Refused != "" {
		t.Errorf("after it was mended the policy in force is %+v", after)
	}
	d.awaitProblem(second, "Processes have different policies in force: version")
	d.awaitPage(d.apps[0], "/metrics", "pacer_policy_differs 1")
}

// awaitProblem waits until a process's dashboard says so, and names what else it says when it never does.
func (d *fleet) awaitProblem(process *app.App, says string) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		s := d.snapshot(process)
		if slices.ContainsFunc(s.Problems, func(p string) bool { return strings.HasPrefix(p, says) }) {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("it never says %q, but %q", says, s.Problems)
		}
	}
}
