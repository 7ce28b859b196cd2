//go:build accept

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// The demo's first night ends within a minute and a half, and what it held goes out then.
func TestDemoShowsANightThatEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	seen := &watched{until: "s after the night's end", times: 8, found: cancel}
	var errs bytes.Buffer
	args := []string{"demo", "--open=false", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"}
	if code := run(ctx, args, streams{out: seen, err: &errs}); code != 0 {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	text := seen.String()
	if strings.Count(text, seen.until) < seen.times {
		t.Fatalf("what the night held did not come:\n%s", text)
	}
	night, morning, found := strings.Cut(text, "it is morning")
	if !found || strings.Contains(night, seen.until) || !strings.Contains(night, "8 held until morning") {
		t.Errorf("it says\n%s\nit is morning%s", night, morning)
	}
}
