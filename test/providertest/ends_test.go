package providertest_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/test/providertest"
)

// TestEachEndIsUnderstood: a call that gets no whole response is one of which nobody knows, on every channel; unless
// the provider says that it did not process it. Tables of all channels are as they are, so [TestEachRowIsProvoked] has
// to wait.
//
//nolint:paralleltest,tparallel // see above
func TestEachEndIsUnderstood(t *testing.T) {
	const delivered, unknown, unsent = "delivered kept yes", "ambiguous kept perhaps host", "transient returned no host"
	for name, c := range map[string]struct {
		end         providertest.End
		want, plain string // plain is where it differs without HTTP/2
	}{
		"leaves":      {end: providertest.Leaves, want: delivered},
		"drips":       {end: providertest.Drips, want: delivered + ", dripped"},
		"aborts":      {end: providertest.Aborts, want: unknown},
		"hangs up":    {end: providertest.HangsUp, want: unknown},
		"resets":      {end: providertest.Resets, want: unknown},
		"half-closes": {end: providertest.HalfCloses, want: unknown},
		"goes away":   {end: providertest.GoesAway, want: delivered, plain: unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for described, start := range benches {
				t.Run(string(described), func(t *testing.T) {
					t.Parallel()
					b, s := start(t), script{reply: providertest.Reply{End: c.end}, first: 1}
					want := c.want
					switch {
					case described == "email":
						if c.end == providertest.Drips || c.end == providertest.GoesAway {
							return // a reply of SMTP that drips is none
						}
						s.at = providertest.Sent
					case described == "sms":
						s.reply.Status, s.reply.Body = 201, `{"status":"queued"}` // without a body, it would be waited for
					case described == notification.ChannelWebhook && c.plain != "":
						want = c.plain
					}
					if got := b.send(t, s); got != want {
						t.Errorf("the outcome is %q, want %q", got, want)
					}
				})
			}
		})
	}
	for described, start := range benches {
		t.Run("refused by "+string(described), func(t *testing.T) {
			t.Parallel()
			b := start(t)
			b.unplug()
			if got := b.send(t, script{}); got != unsent {
				t.Errorf("the outcome is %q, want %q", got, unsent)
			}
		})
	}
}
