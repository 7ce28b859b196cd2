package gate_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/gate"
)

// A failure that knows which setting is wrong says so in the log, whether it refuses or asks to wait.
func TestThePauseSaysWhy(t *testing.T) {
	t.Parallel()
	const why = "the proxy of --apns-proxy (PACER_APNS_PROXY) responds with 407"
	for _, class := range []push.Class{push.CredentialsRefused, push.Throttled} {
		t.Run(class.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				p := &provider{}
				p.failure.Store(&push.Error{
					Class: class, Code: "proxy.407", Concerns: push.ConcernsEverybody, Unsent: true, Err: errors.New(why),
				})
				g := newGate(p, func(c *gate.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
				if got := push.Classify(g.Send(t.Context(), to("bad"))); got.Class != class || got.Counts() {
					t.Errorf("got %v, want %s without a slot", got, class)
				}
				if !strings.Contains(log.String(), `error="`+why) {
					t.Errorf("logs %s, want %s in it", &log, why)
				}
				if got := push.Classify(g.Send(t.Context(), to("bad"))); got == nil || p.called("bad") != 1 {
					t.Errorf("the next delivery ends with %v after %d calls, want none after 1", got, p.called("bad"))
				}
				sleep(2 * time.Minute)
				p.failure.Store(nil)
				if got := code(g.Send(t.Context(), to("bad"))); got != "" {
					t.Errorf("after the pause: %s", got)
				}
			})
		})
	}
}
