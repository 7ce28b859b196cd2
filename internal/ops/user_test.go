package ops_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pacer-notify/pacer/internal/ops"
)

// A look-up that fails says which store is at fault, and how.
func TestALookUpThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	late := fmt.Errorf("no reply within 5s: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		fault error
		ready ops.Readiness
		want  string
	}{
		"away": {
			fault: late, ready: ops.Readiness{Away: []string{"Redis", "Postgres"}},
			want: "Redis and Postgres do not respond: nothing is delivered until they do\n",
		},
		"slow": {
			fault: late, ready: ops.Readiness{Slow: []string{"Postgres is slow: a reply takes 1.6 s"}},
			want: "Postgres is slow: a reply takes 1.6 s\n",
		},
		"late":  {fault: late, want: "the store takes too long to respond: see the dashboard for what is slow or locked\n"},
		"other": {fault: errAway, want: "the store can't be read now: this process's log says why\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config()
			cfg.Desk = &lookups{fault: c.fault}
			cfg.Ready = func(context.Context) ops.Readiness { return c.ready }
			for _, path := range []string{"/user/ada", "/explain/n1", "/lookup/n1"} {
				if got := ask(t, cfg, "GET", path); got.Status != 503 || got.Body != c.want {
					t.Errorf("%s: %d %s; want %s", path, got.Status, got.Body, c.want)
				}
			}
		})
	}
}
