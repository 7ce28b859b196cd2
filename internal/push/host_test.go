package push_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

// Why a host is not called: a proxy in between is told apart from the provider.
func TestTroubleNamesTheProxy(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct{ name, outcome, want string }{
		{
			name: "it refuses", outcome: "credentials_refused: proxy.407",
			want: "the provider is not called for another 1m (its proxy responds with 407)",
		},
		{
			name: "it hangs", outcome: "transient: proxy.timeout",
			want: "the provider is not called for another 1m (its proxy does not respond)",
		},
		{
			name: "it is away", outcome: "transient: proxy",
			want: "the provider is not called for another 1m (its proxy cannot be reached)",
		},
		{
			name: "the provider refuses", outcome: "credentials_refused: 401",
			want: "the provider is not called for another 1m (it refuses the credentials: 401)",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := push.Host{Breaker: push.BreakerClosed, PausedUntil: now.Add(time.Minute), Outcome: c.outcome}
			if got := h.Trouble(now); got != c.want {
				t.Errorf("says %s, want %s", got, c.want)
			}
		})
	}
}
