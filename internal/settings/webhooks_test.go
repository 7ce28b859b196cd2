package settings_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/signing"
)

// What signs events is read again from its file: that of events, or where there is none that of webhooks. A wrong one
// leaves the keys in force.
func TestTheKeysOfEventsAreRenewedFromTheirFile(t *testing.T) {
	t.Parallel()
	keys := [2]string{signing.Generate(signing.HMAC).Reveal(), signing.Generate(signing.HMAC).Reveal()}
	for _, variable := range []string{"PACER_EVENTS_SECRET", "PACER_WEBHOOK_SECRET"} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "key")
			write := func(text string) {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(keys[0])
			p, err := parse(t, []string{
				"PACER_EVENTS_ENDPOINTS=https://events.example.com/", variable + "=file:" + path,
			}, "serve")
			if err != nil {
				t.Fatal(err)
			}
			resolved, err := p.Serve.Resolve()
			if err != nil {
				t.Fatal(err)
			}
			signs := func() string {
				signature, err := resolved.Events.Keys.Keys().Sign("e1", time.Unix(1_800_000_000, 0), []byte("{}"))
				if err != nil {
					t.Fatal(err)
				}
				return signature
			}
			source, first := resolved.Renewed.EventsSecret.Source(resolved.Events.Keys.Renew), signs()
			write("whsec_short")
			if err := source.Renew(t.Context()); err == nil || signs() != first {
				t.Errorf("a wrong key is taken: %v", err)
			}
			write(keys[0] + "," + keys[1])
			if err := source.Renew(t.Context()); err != nil || signs() == first {
				t.Errorf("the keys are those of before: %v", err)
			}
		})
	}
}
