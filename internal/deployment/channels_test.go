package deployment_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestChannelsAsPublished(t *testing.T) {
	t.Parallel()
	const private = "https://10.1.2.3/hook"
	for _, c := range []struct {
		name      string
		published string // empty before the first dispatcher
		want      []string
		// allowed reports whether webhooks may go to a private address.
		allowed bool
	}{
		{name: "BeforeTheFirstDispatcher", want: []string{"log", "webhook"}, allowed: true},
		{
			name:      "NoPrivateTargets",
			published: `{"channels": ["webhook"], "targets_allow": []}`, want: []string{"webhook"},
		},
		{
			name:      "PrivateTargets",
			published: `{"channels": ["webhook"], "targets_allow": ["10.0.0.0/8"]}`, want: []string{"webhook"}, allowed: true,
		},
		{
			name:      "LaterVersionWithAChannelThatThisOneDoesNotKnow",
			published: `{"channels": ["pigeon", "webhook"], "targets_allow": []}`, want: []string{"webhook"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := redistest.Client(t)
			if c.published != "" {
				client.Set(t.Context(), "pacer:channels", c.published, 0)
			}
			channels, err := deployment.Channels(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			if got := channels.Names(); !slices.Equal(got, c.want) {
				t.Errorf("channels %v, want %v", got, c.want)
			}
			if err := channels["webhook"].CheckTarget(private); (err == nil) != c.allowed {
				t.Errorf("target %s: %v, want it allowed: %t", private, err, c.allowed)
			}
		})
	}
}

func TestLoopbackIsAllowedWhereEverythingIsEmbedded(t *testing.T) {
	t.Parallel()
	own := netip.MustParsePrefix("10.0.0.0/8")
	for _, c := range []struct {
		name     string
		setup    settings.Setup
		loopback bool
	}{
		{name: "Embedded", setup: settings.SetupEmbedded, loopback: true},
		{name: "Redis", setup: settings.SetupRedis},
		{name: "Durable", setup: settings.SetupDurable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			allow := deployment.TargetsAllow(&settings.Resolved{Setup: c.setup, WebhookAllow: []netip.Prefix{own}})
			loopback := slices.ContainsFunc(allow, func(p netip.Prefix) bool {
				return p.Contains(netip.MustParseAddr("127.0.0.1"))
			})
			if !slices.Contains(allow, own) || loopback != c.loopback {
				t.Errorf("allowed %v, want %s and loopback: %t", allow, own, c.loopback)
			}
		})
	}
}
