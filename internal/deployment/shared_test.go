package deployment_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func refused(t *testing.T, err error, says string) {
	t.Helper()
	if _, is := errors.AsType[*refusal.Error](err); !is || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want a refusal that says %q", err, says)
	}
}

func TestTheFirstProcessDecidesHowManyPartitionsThereAre(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	if n, err := deployment.Partitions(t.Context(), client); n != 0 || err != nil {
		t.Errorf("before the first process: %d, %v", n, err)
	}
	for range 2 {
		if err := deployment.AgreeOnPartitions(t.Context(), client, 8); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, deployment.AgreeOnPartitions(t.Context(), client, 16), "has 8 partitions, --partitions says 16")
	if n, err := deployment.Partitions(t.Context(), client); n != 8 || err != nil {
		t.Errorf("after the refusal: %d, %v, want 8", n, err)
	}
	client.Set(t.Context(), "pacer:partitions", "many", 0)
	if _, err := deployment.Partitions(t.Context(), client); err == nil {
		t.Error("a number that is none: want an error")
	}
}

func TestThePolicyInForceIsPublishedAsText(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	if p, err := deployment.Policy(t.Context(), client); p != nil || err != nil {
		t.Errorf("before the first dispatcher: %v, %v", p, err)
	}
	if err := deployment.PublishPolicy(t.Context(), client, policy.Default()); err != nil {
		t.Fatal(err)
	}
	p, err := deployment.Policy(t.Context(), client)
	if err != nil || p.Text != policy.Default().Text {
		t.Errorf("another policy came back, %v", err)
	}
	client.Set(t.Context(), "pacer:policy", "version: 99", 0)
	if _, err := deployment.Policy(t.Context(), client); err == nil {
		t.Error("a policy of a later version: want an error")
	}
}
