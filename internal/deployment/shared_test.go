package deployment_test

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m))) }

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
	refused(t, deployment.AgreeOnPartitions(t.Context(), client, 16), "has 8 partitions, but --partitions is 16")
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

// An attached process goes by the policy that was published last. It keeps that one when it can't read the next, and
// while there is none.
func TestAnAttachedProcessFollowsThePolicy(t *testing.T) {
	t.Parallel()
	cfg := on(t, redistest.URL(t), 8)
	if _, err := open(t, cfg, parse(t, onePolicy)); err != nil {
		t.Fatal(err)
	}
	producer := attach(t, cfg)
	client := producer.Redis.Client
	for _, c := range []struct{ publish, want string }{
		{publish: onePolicy, want: "default news"},
		{publish: anotherPolicy, want: "default"},
		{publish: "version: 9\n", want: "default"},
		{publish: "", want: "default"},
		{publish: onePolicy, want: "default news"},
	} {
		if err := client.Set(t.Context(), "pacer:policy", c.publish, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if c.publish == "" {
			client.Del(t.Context(), "pacer:policy")
		}
		if err := producer.Published.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(producer.Rules.CategoryNames(), " "); got != c.want {
			t.Errorf("after %q the categories are %s, want %s", c.publish, got, c.want)
		}
	}
}
