package messages_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/test/redistest"
)

// anotherPolicy differs from messagesPolicy, and nothing in it is warned of.
const anotherPolicy = `version: 1
categories:
  default: {limits: [{max: 9, per: 1m}]}
  chat: {limits: [{max: 1, per: 3s}]}
  security: {limits: [{max: 5, per: 1m}]}
`

// written returns the path of a file with a text.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "new.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// change has the dispatcher compare a policy or put it in force: its arguments are the words before the file and those
// after it.
func (d *fleet) change(text string, words ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		path := written(t, text)
		args := append([]string{"policy", words[0], path, "--ops-listen=" + d.process.OpsAddr()}, words[1:]...)
		said := runIn(t, dispatcherPath, nil, "", args...)
		return strings.NewReplacer(path, "FILE", d.policy, "POLICY").Replace(said)
	}
}

// alone is a deployment of one process on Redis, with a policy file or, without a text, the built-in policy.
func alone(t *testing.T, redisURL, text string) *fleet {
	t.Helper()
	d := &fleet{log: &processLog{}}
	if text != "" {
		d.policy = written(t, text)
	}
	d.settings = resolved(t, redisURL, d.policy)
	d.process = start(t, d.settings, d.log)
	return d
}

// applyToBuiltIn applies a policy where none is watched.
func applyToBuiltIn(t *testing.T) string {
	t.Helper()
	d := alone(t, redistest.URL(t), "")
	d.policy = "no file"
	return d.change(anotherPolicy, "apply", "--yes")(t)
}

// applyElsewhere applies a policy on a host that lacks the dispatcher's file.
func applyElsewhere(t *testing.T) string {
	t.Helper()
	d := alone(t, redistest.URL(t), messagesPolicy)
	if err := os.Remove(d.policy); err != nil {
		t.Fatal(err)
	}
	return d.change(anotherPolicy, "apply", "--yes")(t)
}

// applyToOneOfTwo applies a policy to a process beside which another one watches a file of its own.
func applyToOneOfTwo(t *testing.T) string {
	t.Helper()
	url := redistest.URL(t)
	d, other := alone(t, url, messagesPolicy), alone(t, url, messagesPolicy)
	said := d.change(anotherPolicy, "apply", "--yes", "--wait=3s")(t)
	return strings.ReplaceAll(said, other.policy, "OTHER")
}

// demoWith runs the demo under a policy file, or without one where it can't write its own.
func demoWith(t *testing.T, text string) string {
	t.Helper()
	args := []string{"demo", "--open=false"}
	environment := []string{"TMPDIR=/nowhere"}
	if text != "" {
		path := written(t, text)
		args, environment = append(args, "--policy="+path), nil
		return strings.ReplaceAll(runIn(t, dispatcherPath, environment, "", args...), path, "FILE")
	}
	return runIn(t, dispatcherPath, environment, "", args...)
}

// policyChangeRows are what is said of changes of the policy, and of the demo's.
func policyChangeRows(d *fleet) []row {
	const faulty = "version: 1\ncategories: {default: {limits: [{max: 0, per: 1s}]}}\n"
	const fault = ":2:39: categories.default.limits[0].max: must be between 1 and 1000000, is 0"
	return []row{
		{
			name: "a comparison with nothing", provoke: d.ask("policy", "diff"),
			want: "dispatcher: dispatcher policy diff needs <file>: Policy file to compare with the policy in force",
		},
		{
			name: "a comparison with a file that is not there", provoke: d.ask("policy", "diff", "/nowhere.yaml"),
			want: "dispatcher: the policy file can't be read: open /nowhere.yaml: no such file or directory",
		},
		{
			name: "a comparison with a fault", provoke: d.change(faulty, "diff"),
			want: "FILE" + fault + "\ndispatcher: the policy file has faults",
		},
		{
			name:    "a comparison with a file that is too large",
			provoke: d.change(anotherPolicy+strings.Repeat("# filler\n", 1<<17), "diff"),
			want:    "FILE:1:1: the file has more than the 1048576 bytes that a policy may have\ndispatcher: the policy file has faults",
		},
		{
			name: "a comparison that nobody makes",
			provoke: func(t *testing.T) string {
				t.Helper()
				file := written(t, anotherPolicy)
				return run(&dispatcherPath, nil, "policy", "diff", file, "--ops-listen=127.0.0.1:1")(t)
			},
			want: "dispatcher: ask the dispatcher at http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; is it running with the ops role, and is --ops-listen its address?",
		},
		{
			name:    "a comparison by HTTP",
			provoke: d.act(http.MethodPost, "/policy/diff", faulty),
			want:    "FILE" + fault,
		},
		{
			name:    "too much to compare, by HTTP",
			provoke: d.act(http.MethodPost, "/policy/diff", strings.Repeat("# filler\n", 1<<17)),
			want:    "a policy file has at most 1 MiB",
		},
		{
			name: "a change with a fault", provoke: d.change(faulty, "apply", "--yes"),
			want: "FILE" + fault + "\ndispatcher: the policy file has faults",
		},
		{
			name: "a change that nobody confirmed", provoke: d.change(anotherPolicy, "apply"),
			want: "dispatcher: not done: confirm with y, or give --yes",
		},
		{
			name: "a change of the built-in policy", provoke: applyToBuiltIn,
			want: "dispatcher: the built-in policy is in force: start the dispatcher with --policy FILE first",
		},
		{
			name: "a change on another host", provoke: applyElsewhere,
			want: "dispatcher: the policy file of the dispatcher is not on this host: lstat <any>: no such file or directory; " +
				"run this on the dispatcher's host, or change the file there as you usually do",
		},
		{
			name: "a change that not everybody has", provoke: applyToOneOfTwo,
			want: "<any> has version <any>, from OTHER\ndispatcher: not every process has the policy; put it into the files of the others, too: dispatcher policy show names them",
		},
		{
			name: "a demo with a fault", provoke: func(t *testing.T) string { t.Helper(); return demoWith(t, faulty) },
			want: "dispatcher: FILE" + fault,
		},
		{
			name: "a demo that can't write", provoke: func(t *testing.T) string { t.Helper(); return demoWith(t, "") },
			want: "dispatcher: make a folder for the demo's policy: stat /nowhere: no such file or directory; set TMPDIR to a writable folder, or name a policy file with --policy",
		},
	}
}
