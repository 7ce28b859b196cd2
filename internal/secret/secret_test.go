package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/secret"
)

func TestSecretNeverShows(t *testing.T) {
	t.Parallel()
	s := secret.New("canary")
	if s.Reveal() != "canary" || s.IsZero() || !secret.New("").IsZero() {
		t.Fatalf("a secret must be kept: %q", s.Reveal())
	}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "secret", s, "nested", map[string]any{"s": s})
	encoded, err := json.Marshal(struct{ S secret.Secret }{s})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %s %q", s, s, s, s), fmt.Sprintf("%#v", s), string(encoded), logged.String()} {
		if strings.Contains(shown, "canary") || !strings.Contains(shown, "secret") {
			t.Errorf("shown as %q", shown)
		}
	}
}
