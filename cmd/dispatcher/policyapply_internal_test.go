package main

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/policy"
)

// slowAfterwards is a dispatcher that responds with 503 to so many looks once its file holds another text.
func slowAfterwards(t *testing.T, file, text string, looks int64) (url string) {
	t.Helper()
	var refused atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var reply any = struct{}{} // of a comparison
		if r.URL.Path == "/policy" {
			now, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			if string(now) != text && refused.Add(1) <= looks {
				http.Error(w, "the store takes too long to respond", http.StatusServiceUnavailable)
				return
			}
			in := ops.PolicyInForce{Policy: ops.Policy{Version: policy.VersionOf(string(now)), File: file}}
			in.Processes = []ops.Process{{Policy: &in.Policy}}
			reply = in
		}
		if err := json.NewEncoder(w).Encode(reply); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Once the file is replaced, a store that is slow for a moment does not end the command. One that stays slow does, and
// then it says that the file was replaced and how to learn who has it.
func TestPolicyApplyAsksAgain(t *testing.T) {
	t.Parallel()
	const before, after = "version: 1\ncategories:\n  default: {}\n", "version: 1\ncategories:\n  default: {}\n  chat: {}\n"
	version := policy.VersionOf(after)
	for _, c := range []struct {
		name     string
		looks    int64
		wait     string
		code     int
		out, err string
	}{
		{name: "a moment", looks: 3, wait: "10m", out: "version " + version + " is in force on 1 of 1 process\n"},
		{
			name: "to the end", looks: math.MaxInt64, wait: "1s", code: 1,
			err: "dispatcher: the policy file now holds version " + version + ", but pacer could not ask which processes " +
				"have loaded it; dispatcher policy show names them: ",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file, changed := written(t, "policy.yaml", before), written(t, "changed.yaml", after)
			url := slowAfterwards(t, file, before, c.looks)
			got := ask(t, "policy", "apply", changed, "--yes", "--wait="+c.wait, "--ops-listen", url)
			if got.code != c.code || !strings.HasSuffix(got.out, c.out) || !strings.Contains(got.err, c.err) {
				t.Errorf("%+v, want %+v", got, c)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != after {
				t.Errorf("the file holds %q, %v", text, err)
			}
		})
	}
}
