package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/push/webpush"
)

// What is printed is a pair, in each form; the public key of a private one can be had again.
func TestVAPID(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "vapid.key")
	kept := ask(t, "vapid", "generate", "--out", file)
	private, err := os.ReadFile(file)
	if err != nil || kept.code != 0 || strings.Contains(kept.out, strings.TrimSpace(string(private))) {
		t.Fatalf("code %d, printed %q, said %q, file %v", kept.code, kept.out, kept.err, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the private key: %v, %v", info.Mode(), err)
	}
	public := ask(t, "vapid", "public", "--webpush-key", "file:"+file)
	if public.code != 0 || !strings.HasSuffix(kept.out, "\n"+public.out) {
		t.Errorf("code %d, the public key is %q, and was %q: %s", public.code, public.out, kept.out, public.err)
	}
	if again := ask(t, "vapid", "generate", "--out", file); again.code != 1 || !strings.Contains(again.err, "was not changed") {
		t.Errorf("a second time: code %d, said %q", again.code, again.err)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(private) {
		t.Errorf("the key was replaced: %v", err)
	}

	var pair webpush.KeyPair
	if err := json.Unmarshal([]byte(ask(t, "vapid", "generate", "--json").out), &pair); err != nil {
		t.Fatal(err)
	}
	if public, err := webpush.PublicKey(pair.Private); err != nil || public != pair.Public {
		t.Errorf("the pair does not belong together: %v", err)
	}
	text := ask(t, "vapid", "generate").out
	_, rest, _ := strings.Cut(text, "PACER_WEBPUSH_KEY=")
	key, _, _ := strings.Cut(rest, "\n")
	if public, err := webpush.PublicKey(key); err != nil || !strings.HasSuffix(text, "\n"+public+"\n") {
		t.Errorf("%v of %q", err, text)
	}
}
