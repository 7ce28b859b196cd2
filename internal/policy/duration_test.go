package policy_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/policy"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	tests := map[string]time.Duration{
		"1d":         day,
		"1d12h":      36 * time.Hour,
		"0.5d":       12 * time.Hour,
		".5d":        12 * time.Hour,
		"1.d":        day,
		"0.1d":       2*time.Hour + 24*time.Minute,
		"1h1d":       25 * time.Hour,
		"1d1d":       2 * day,
		"-1d1h":      -25 * time.Hour,
		"+2d":        2 * day,
		"0d":         0,
		"0":          0,
		"3s":         3 * time.Second,
		"1.5h":       90 * time.Minute,
		"250µs":      250 * time.Microsecond,
		"1d2h3m4.5s": day + 2*time.Hour + 3*time.Minute + 4500*time.Millisecond,
		"106751d":    106751 * day,
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			got, err := policy.ParseDuration(text)
			if err != nil || got != want {
				t.Errorf("got %v, %v; want %v", got, err, want)
			}
		})
	}
}

func TestParseDurationRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "-", "+", "d", ".d", "1", "1.5", "one day", "1 d", " 1d", "1d ", "1D", "1dd", "1w", "d1", "1d-1h", "--1d",
		"+-1d", "1..5d", "1d5", "106752d", "106751d24h", "999999999999999999999d", "1e3d", "0x1d", "1md", "infd", "1d0",
		"0d0ns0", "0ns0", "1d+1h",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			got, err := policy.ParseDuration(text)
			if err == nil {
				t.Fatalf("read as %v", got)
			}
			if !strings.Contains(err.Error(), "such as 500ms, 3s, 1m, 24h or 1d") {
				t.Errorf("the error shows no example: %v", err)
			}
		})
	}
}

// Without days it is the standard library's syntax, whatever the text.
func TestParseDurationAgreesWithTheStandardLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[-+]?([0-9]{0,3}\.?[0-9]{0,3}(ns|us|µs|ms|s|m|h|x)?){0,3}`).Draw(t, "text")
		want, wantErr := time.ParseDuration(text)
		got, err := policy.ParseDuration(text)
		if got != want || (err == nil) != (wantErr == nil) {
			t.Fatalf("%q is %v, %v; the standard library says %v, %v", text, got, err, want, wantErr)
		}
	})
}

func TestParseDurationAddsDays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		days := rapid.Int64Range(0, 106_000).Draw(t, "days")
		rest := time.Duration(rapid.Int64Range(0, math.MaxInt64-106_000*int64(24*time.Hour)).Draw(t, "rest"))
		text := fmt.Sprintf("%dd%s", days, rest)
		want := time.Duration(days)*24*time.Hour + rest
		if got, err := policy.ParseDuration(text); err != nil || got != want {
			t.Fatalf("%q is %v, %v; want %v", text, got, err, want)
		}
	})
}
