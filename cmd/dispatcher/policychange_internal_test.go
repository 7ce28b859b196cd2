package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pacer-notify/pacer/internal/ops"
)

// A looser policy moves up what waits: diff says so and changes nothing, apply puts it in force.
func TestPolicyDiffAndApply(t *testing.T) {
	t.Parallel()
	d := serve(t)
	for i := range 5 {
		d.post(`{"id": "n%d", "user_id": "ada", "category": "chat", "channel": "log", "to": "x"}`, i)
	}
	stricter := written(t, "stricter.yaml", "version: 1\ncategories:\n  default: {}\n  chat: {limits: [{max: 1, per: 10h}]}\n")
	d.want(d.command("user", "ada"), 0, "4 ", "") // one of the five has gone
	got := d.command("policy", "diff", stricter)
	d.want(got, 0, "chat\n  - limit 1/1h, max_defer 24h\n  + limit 1/10h, max_defer 24h\n", "")
	for _, want := range []string{
		"chat                     4         0         2         0         2\n", "chat: n2 would go at ",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("the comparison lacks %q:\n%s", want, got.out)
		}
	}
	d.want(d.command("policy", "diff", stricter, "--json"), 0, `"rules":`, "")
	faulty := written(t, "faulty.yaml", "version: 1\ncategories:\n  default: {limits: [{max: 0, per: 1h}], min_gap: x}\n")
	for _, command := range []string{"diff", "apply"} {
		got := d.command("policy", command, faulty)
		d.want(got, 1, "", "faulty.yaml:3:")
		if strings.Count(got.err, "faulty.yaml:3:") != 2 {
			t.Errorf("policy %s does not tell every fault: %s", command, got.err)
		}
	}

	looser := "version: 1\ncategories:\n  default: {}\n  chat: {limits: [{max: 3, per: 1h}]}\n"
	file := written(t, "looser.yaml", looser)
	d.want(d.command("policy", "apply", file), 1, "chat                     4         4         0", "not done: confirm with y, or give --yes")
	d.want(d.command("policy", "apply", file, "--yes"), 0, "is in force on 1 of 1 process\n", "")
	d.want(d.command("policy", "show"), 0, looser, "")
	d.want(d.command("policy", "apply", file), 0, "is in force on 1 of 1 process\n", "")
	d.want(d.command("user", "ada"), 0, "policy  ", "")
}

// Whoever asks right after the start finds no process listed yet. That is not "everywhere".
func TestNobodyListedIsNotEverybody(t *testing.T) {
	t.Parallel()
	file := written(t, "policy.yaml", "version: 1\ncategories:\n  default: {}\n")
	p, err := readPolicy(file, streams{io.Discard, io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		listed int64 // from which look on
		code   int
		out    string
		err    string
	}{
		{"later", 2, 0, "version " + p.Version() + " is in force on 1 of 1 process\n", ""},
		{"never", math.MaxInt64, 1, "", "no process is listed yet, so it is unknown which policy they have"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var looks atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				in := ops.PolicyInForce{Policy: ops.Policy{Version: p.Version(), File: file}}
				if looks.Add(1) > c.listed {
					in.Processes = []ops.Process{{Policy: &in.Policy}}
				}
				if err := json.NewEncoder(w).Encode(in); err != nil {
					t.Error(err)
				}
			}))
			t.Cleanup(server.Close)
			got := ask(t, "policy", "apply", file, "--yes", "--wait=1s", "--ops-listen", server.URL)
			if got.code != c.code || got.out != c.out || !strings.Contains(got.err, c.err) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAFileIsReplacedWhole(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(target, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := writeWhole(target, "new", 0o640); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(target)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(target)
	if err != nil || string(text) != "new" || info.Mode().Perm() != 0o640 {
		t.Errorf("%q, %s, %v", text, info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(target))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %s", fmt.Sprint(left))
	}
}
