package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/stats"
)

// A looser policy moves up what waits: diff says so and changes nothing, apply puts it in force.
func TestPolicyDiffAndApply(t *testing.T) {
	t.Parallel()
	d := serve(t)
	for i := range 5 {
		d.post(`{"id": "n%d", "user_id": "ada", "category": "chat", "channel": "log", "to": "x"}`, i)
	}
	stricter := written(t, "stricter.yaml", "version: 1\ncategories:\n  default: {}\n  chat: {limits: [{max: 1, per: 10h}]}\n")
	d.await(1, "status=delivered")
	d.await(4, "status=deferred")
	d.want(d.command("user", "ada"), 0, "4 deferred", "")
	got := d.command("policy", "diff", stricter)
	for _, want := range []string{
		"  - limit 1/1h", "  + limit 1/10h", "chat                     4         0         2         0         2\n", "chat: n2 ",
	} {
		d.want(got, 0, want, "")
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
	d.want(d.command("policy", "apply", file), 1, "chat                     4         4         0", "--yes")
	d.want(d.command("policy", "apply", file, "--yes"), 0, "1 of 1 ", "")
	d.want(d.command("policy", "show"), 0, looser, "")
	d.want(d.command("policy", "apply", file), 0, "1 of 1 ", "")
	d.want(d.command("user", "ada"), 0, "policy  ", "")
	restoreARefusedFile(d, looser)
}

// fakeOps is a dispatcher whose comparisons are empty, and which responds otherwise with the policy that a function
// tells, or with 503 where it tells none.
func fakeOps(t *testing.T, told func() *ops.PolicyInForce) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var reply any = struct{}{}
		if r.URL.Path == "/policy" {
			in := told()
			if in == nil {
				http.Error(w, "the store takes too long to respond", http.StatusServiceUnavailable)
				return
			}
			reply = in
		}
		if err := json.NewEncoder(w).Encode(reply); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Whoever asks right after the start finds no process listed yet. That is not "everywhere".
func TestNobodyListedIsNotEverybody(t *testing.T) {
	t.Parallel()
	const text = "version: 1\ncategories:\n  default: {}\n"
	file := written(t, "policy.yaml", text)
	for _, c := range []struct {
		name   string
		listed int64 // from which look on
		wait   string
		code   int
		out    string
		err    string
	}{
		{"later", 2, "10m", 0, "1 of 1 ", ""},
		{"never", math.MaxInt64, "1s", 1, "", nobodyListed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var looks atomic.Int64
			url := fakeOps(t, func() *ops.PolicyInForce {
				in := &ops.PolicyInForce{Policy: ops.Policy{Version: policy.VersionOf(text), File: file}}
				if looks.Add(1) > c.listed {
					in.Processes = []ops.Process{{Policy: &in.Policy}}
				}
				return in
			})
			got := ask(t, "policy", "apply", file, "--yes", "--wait="+c.wait, "--ops-listen", url)
			if got.code != c.code || !strings.Contains(got.out, c.out) || !strings.Contains(got.err, c.err) {
				t.Errorf("%+v", got)
			}
		})
	}
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
			var refused atomic.Int64
			url := fakeOps(t, func() *ops.PolicyInForce {
				now, err := os.ReadFile(file)
				if err != nil {
					t.Error(err)
				}
				if string(now) != before && refused.Add(1) <= c.looks {
					return nil
				}
				in := &ops.PolicyInForce{Policy: ops.Policy{Version: policy.VersionOf(string(now)), File: file}}
				in.Processes = []ops.Process{{Policy: &in.Policy}}
				return in
			})
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

// The policy in force is put back into a file that the dispatcher refuses. Else the next restart would fail on it.
func restoreARefusedFile(d *served, inForce string) {
	in := d.inForce(func(in *ops.PolicyInForce) bool { return len(in.Processes) > 0 })
	if err := os.WriteFile(in.File, []byte("version: 1\n"), 0o600); err != nil {
		d.Fatal(err)
	}
	faulty := policy.VersionOf("version: 1\n")
	d.inForce(func(in *ops.PolicyInForce) bool {
		return in.RefusedVersion == faulty && in.Refused != "" && len(in.Processes) > 0 &&
			in.Processes[0].Policy.Refused != ""
	})
	show := d.command("policy", "show")
	d.want(show, 0, inForce, "refused")
	same := written(d.T, "same.yaml", show.out) // as the runbook says
	d.want(d.command("policy", "apply", same), 1, "\n", "--yes")
	d.want(d.command("policy", "apply", same, "--yes"), 0, "1 of 1 ", "")
	if text, err := os.ReadFile(in.File); err != nil || string(text) != inForce {
		d.Errorf("the file holds %q, %v", text, err)
	}
	after := d.inForce(func(*ops.PolicyInForce) bool { return true })
	if after.Version != in.Version || after.Refused != "" || after.RefusedVersion != "" {
		d.Errorf("after it was corrected the policy in force is %+v, was %+v", after, in)
	}
	d.inForce(func(in *ops.PolicyInForce) bool {
		return len(in.Processes) > 0 && in.Processes[0].Policy.Refused == ""
	})
}

// inForce looks until the policy in force is as wanted.
func (s *served) inForce(as func(*ops.PolicyInForce) bool) *ops.PolicyInForce {
	s.Helper()
	return until(s, "/policy", as)
}

// A file is replaced only if it is the one that the dispatcher read last, whether that was taken or refused: another
// host has its own.
func TestPolicyApplyKeepsAnotherHostsFile(t *testing.T) {
	t.Parallel()
	const here, other = "version: 1\ncategories:\n  default: {}\n", "version: 1\n"
	for _, c := range []struct {
		name string
		told ops.Policy
		err  string
	}{
		{
			name: "another is in force", told: ops.Policy{Version: policy.VersionOf(other)},
			err: policy.VersionOf(other),
		},
		{
			name: "another was refused",
			told: ops.Policy{
				Version: policy.VersionOf(here), Refused: "policy.yaml:1:1: x", RefusedVersion: policy.VersionOf(other),
			},
			err: policy.VersionOf(other),
		},
		{
			name: "none could be read",
			told: ops.Policy{Version: policy.VersionOf(here), Refused: "the policy file policy.yaml can't be read: x"},
			err:  "the policy file policy.yaml can't be read: x",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.told.File = written(t, "policy.yaml", here)
			url := fakeOps(t, func() *ops.PolicyInForce { return &ops.PolicyInForce{Policy: c.told} })
			file := written(t, "new.yaml", here+"  chat: {}\n")
			got := ask(t, "policy", "apply", file, "--yes", "--wait=0s", "--ops-listen", url)
			text, err := os.ReadFile(c.told.File)
			if err != nil || string(text) != here {
				t.Errorf("the file holds %q, %v", text, err)
			}
			if got.code != 1 || !strings.Contains(got.err, c.err) {
				t.Errorf("%+v, want %q", got, c.err)
			}
		})
	}
}

// Where there is no such file, the command is on another host, whether or not the dispatcher can read its own.
func TestPolicyApplyWithoutTheFile(t *testing.T) {
	t.Parallel()
	const text = "version: 1\ncategories:\n  default: {}\n"
	for _, fault := range []string{"", "the policy file policy.yaml can't be read: x"} {
		in := &ops.PolicyInForce{Policy: ops.Policy{
			Version: policy.VersionOf(text), File: filepath.Join(t.TempDir(), "policy.yaml"), Refused: fault,
		}}
		if err := replaceWatched(in, text); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("with the fault %q: %v", fault, err)
		}
	}
}

// A process that refuses its file is named, though it has the version.
func TestPolicyApplyWaitsForWhoRefusesTheirFile(t *testing.T) {
	t.Parallel()
	const text = "version: 1\ncategories:\n  default: {}\n"
	file, version := written(t, "policy.yaml", text), policy.VersionOf(text)
	url := fakeOps(t, func() *ops.PolicyInForce {
		in := &ops.PolicyInForce{Policy: ops.Policy{Version: version, File: file}}
		other := ops.Policy{Version: version, File: "own.yaml", Refused: "own.yaml:3:5: is missing\nown.yaml:9:1: more"}
		in.Processes = []ops.Process{{Policy: &in.Policy}, {Process: stats.Process{ID: "b-1"}, Policy: &other}}
		return in
	})
	got := ask(t, "policy", "apply", file, "--wait=0s", "--ops-listen", url)
	if got.code != 1 || !strings.Contains(got.out, "1 of 2 ") ||
		!strings.Contains(got.err, "b-1 ") || !strings.Contains(got.err, "own.yaml:3:5: is missing\n") {
		t.Errorf("%+v", got)
	}
}

func TestAFileIsReplacedWhole(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "policy.yaml")
	if err := errors.Join(os.WriteFile(target, []byte("old"), 0o600), os.Chmod(target, 0o640)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(target)
	if err != nil {
		t.Fatal(err)
	}
	nobodyElses := func(*os.File, int, int) error { t.Error("given to its own owner"); return nil }
	if err := writeWhole(target, "new", info, nobodyElses); err != nil {
		t.Fatal(err)
	}
	wantAlone(t, target, "new", 0o640)
}

// wantAlone checks that a file holds a text under a mode, and that nothing lies beside it.
func wantAlone(t *testing.T, target, text string, mode os.FileMode) {
	t.Helper()
	info, err := os.Stat(target)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(target)
	if err != nil || string(got) != text || info.Mode().Perm() != mode {
		t.Errorf("%q, %s, %v; want %q, %s", got, info.Mode(), err, text, mode)
	}
	left, err := os.ReadDir(filepath.Dir(target))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %s", fmt.Sprint(left))
	}
}

// anothers is the file of another user and another group.
type anothers struct {
	os.FileInfo
	uid, gid uint32
}

// Sys implements [os.FileInfo].
func (a anothers) Sys() any { return &syscall.Stat_t{Uid: a.uid, Gid: a.gid} }

// Who runs the command does not take the file away from its owner, or from those who read it as members of its group.
func TestAReplacedFileKeepsItsOwner(t *testing.T) {
	t.Parallel()
	uid, gid := os.Getuid()+1, os.Getgid()+1
	for _, c := range []struct {
		name  string
		mode  os.FileMode
		chown error
		err   string
	}{
		{name: "given back", mode: 0o640},
		{name: "not permitted", mode: 0o640, chown: os.ErrPermission, err: strconv.Itoa(uid)},
		{name: "not permitted, and not needed", mode: 0o644, chown: os.ErrPermission},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target := filepath.Join(t.TempDir(), "policy.yaml")
			if err := errors.Join(os.WriteFile(target, []byte("old"), 0o600), os.Chmod(target, c.mode)); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(target)
			if err != nil {
				t.Fatal(err)
			}
			given := ""
			err = writeWhole(target, "new", anothers{info, uint32(uid), uint32(gid)}, func(_ *os.File, uid, gid int) error {
				given = fmt.Sprint(uid, gid)
				return c.chown
			})
			if want := fmt.Sprint(uid, gid); given != want {
				t.Errorf("given to %s, want %s", given, want)
			}
			if c.err == "" && err == nil {
				wantAlone(t, target, "new", c.mode)
				return
			}
			wantAlone(t, target, "old", c.mode)
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
		})
	}
}
