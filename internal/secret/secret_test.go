package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/secret"
)

// holder keeps a secret where package fmt may not call its methods.
type holder struct {
	Name   string
	hidden secret.Secret
}

// shows is every way in which a value may come to light.
func shows(t interface{ Fatal(args ...any) }, s secret.Secret) map[string]string {
	encoded, err := json.Marshal(map[string]any{"secret": s, "nested": []secret.Secret{s}, "at": &s})
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var lines, objects bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&lines, nil), slog.NewJSONHandler(&objects, nil)} {
		slog.New(handler).Info("x", "secret", s, "nested", map[string]any{"s": s}, "held", holder{"h", s})
	}
	ways := map[string]string{
		"String": s.String(), "GoString": s.GoString(), "MarshalText": string(text), "JSON": string(encoded),
		"slog text": lines.String(), "slog JSON": objects.String(),
		"error":  fmt.Errorf("open %s: %w", s, fmt.Errorf("%v", s)).Error(),
		"Sprint": fmt.Sprint(s, &s), "LogValue": s.LogValue().String(),
	}
	for _, verb := range "vsqxXdobeEfFgGtTcU" {
		for _, flags := range []string{"", "+", "#", " ", "10.3"} {
			format := "%" + flags + string(verb)
			ways[format] = fmt.Sprintf(format, s)
			ways["in a struct "+format] = fmt.Sprintf(format, holder{"h", s})
			ways["in a list "+format] = fmt.Sprintf(format, []any{s, &s, holder{"h", s}})
		}
	}
	return ways
}

func TestSecretNeverShows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// Long enough, and of such letters, that it is not in an output by chance.
		text := "canary" + rapid.StringMatching(`[A-Za-z0-9+/=_-]{0,40}`).Draw(t, "text")
		s := secret.New(text)
		if s.Reveal() != text || s.IsZero() {
			t.Fatalf("the secret is not kept: %q", s.Reveal())
		}
		for way, shown := range shows(t, s) {
			if strings.Contains(shown, "canary") ||
				strings.Contains(strings.ToLower(shown), fmt.Sprintf("%x", "canary")) {
				t.Errorf("%s shows %q", way, shown)
			}
		}
	})
}

func TestSecretShowsThatItIsOne(t *testing.T) {
	t.Parallel()
	s := secret.New("canary")
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		if got := fmt.Sprintf(format, s); got != "<secret>" {
			t.Errorf("%s gives %q, want <secret>", format, got)
		}
	}
	encoded, err := json.Marshal(s)
	var decoded string
	if err != nil || json.Unmarshal(encoded, &decoded) != nil || decoded != "<secret>" {
		t.Errorf("JSON gives %s (%v), want <secret>", encoded, err)
	}
}

func TestTheZeroSecretIsEmpty(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]secret.Secret{"zero": {}, "empty": secret.New("")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !s.IsZero() || s.Reveal() != "" || s.String() != "" || fmt.Sprint(s) != "" {
				t.Errorf("%s: %q, want none", name, s.Reveal())
			}
		})
	}
}
