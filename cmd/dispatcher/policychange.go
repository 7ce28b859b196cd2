package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/settings"
)

type policyDiffCommand struct {
	operator
	File string `arg:"" help:"Policy file to compare with the policy in force." type:"path"`
	JSON bool   `name:"json" env:"-" help:"Print JSON, for programs."`
}

// Run shows what a policy would change. It changes nothing.
func (c *policyDiffCommand) Run(ctx context.Context, to streams) error {
	p, err := readPolicy(c.File, to)
	if err != nil {
		return err
	}
	diff, body, err := c.diff(ctx, p)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err = to.out.Write(body)
		return err
	}
	_, err = fmt.Fprint(to.out, diff)
	return err
}

// diff asks what a policy would change.
func (o *operator) diff(ctx context.Context, p *policy.Policy) (*desk.PolicyDiff, []byte, error) {
	status, body, err := o.post(ctx, "/policy/diff", []byte(p.Text))
	if err != nil {
		return nil, nil, err
	}
	if status != http.StatusOK {
		return nil, nil, refused("compare the policy with the one in force", status, body)
	}
	var diff desk.PolicyDiff
	if err := json.Unmarshal(body, &diff); err != nil {
		return nil, nil, fmt.Errorf("read the comparison of the policies: %w", err)
	}
	return &diff, body, nil
}

type policyApplyCommand struct {
	operator
	File  string        `arg:"" help:"Policy file to put in force." type:"path"`
	Force bool          `name:"force" env:"-" help:"Also drop categories for which something waits: pacer holds it until its category is back, or until its expires_at."`
	Wait  time.Duration `name:"wait" env:"-" default:"30s" placeholder:"DURATION" help:"How long to wait until every process has the policy. Default: ${default}."`
}

// applyPoll is how often the processes are asked which policy they have.
const applyPoll = 300 * time.Millisecond

// errNotEverywhere is the short end of a longer output.
var errNotEverywhere = errors.New("not every process has the policy; put it into the files of the others, too: dispatcher policy show names them")

// Run puts a policy into the file that the processes watch, and waits until all of them have it.
func (c *policyApplyCommand) Run(ctx context.Context, to streams) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	p, err := readPolicy(c.File, to)
	if err != nil {
		return err
	}
	in, err := c.inForce(ctx)
	if err != nil {
		return err
	}
	if in.Version != p.Version() || in.Refused != "" { // in force or not, a refused file would fail the next start
		if err := c.replace(ctx, to, in, p); err != nil {
			return err
		}
	}
	return c.await(ctx, to, p.Version())
}

// replace shows what a policy would change, and puts it into the file once the operator is sure.
func (c *policyApplyCommand) replace(ctx context.Context, to streams, in *ops.PolicyInForce, p *policy.Policy) error {
	diff, _, err := c.diff(ctx, p)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(to.out, "%s\n", diff); err != nil {
		return err
	}
	if diff.Refused != "" && !c.Force {
		return errors.New("the policy was not changed: " + diff.Refused)
	}
	if !c.Yes && !sure(to, "Put version "+p.Version()+" into "+in.File+"?") {
		return errNotSure
	}
	if c.Force {
		status, body, err := c.post(ctx, "/policy/force", []byte(p.Version()))
		if err != nil {
			return err
		}
		if status != http.StatusOK {
			return refused("force the policy", status, body)
		}
	}
	return replaceWatched(in, p.Text)
}

// inForce asks which policy is in force, and where.
func (o *operator) inForce(ctx context.Context) (*ops.PolicyInForce, error) {
	status, body, err := o.get(ctx, "/policy")
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, refused("read the policy in force", status, body)
	}
	var in ops.PolicyInForce
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("read the policy in force: %w", err)
	}
	return &in, nil
}

// replaceWatched replaces the policy file that a process watches, in one step: whoever reads it meanwhile reads the old
// text or the new one. It refuses to when the file on this host does not hold what the process read last, because it is
// the file of another host then.
func replaceWatched(in *ops.PolicyInForce, text string) error {
	if in.File == policy.BuiltIn {
		return &settings.UsageError{Message: "the built-in policy is in force: start the dispatcher with --policy FILE first"}
	}
	holds, why := in.Version, "is in force"
	if in.Refused != "" {
		holds, why = in.RefusedVersion, "was refused"
	}
	target, err := filepath.EvalSymlinks(in.File)
	if err != nil {
		return fmt.Errorf("the policy file of the dispatcher is not on this host: %w; run this on the dispatcher's host, or change the file there as you usually do", err)
	}
	if holds == "" {
		return fmt.Errorf("%s; correct that first (for example, the file's permissions): only a dispatcher that can read its policy file shows that the file on this host is the same one",
			in.Refused)
	}
	known, err := policy.ReadFile(target)
	if err != nil {
		return fmt.Errorf("read the policy file of the dispatcher: %w", err)
	}
	if there := policy.VersionOf(string(known)); there != holds {
		return fmt.Errorf("%s on this host holds version %s, and version %s %s: run this on the dispatcher's host",
			in.File, there, holds, why)
	}
	info, err := os.Stat(target)
	if err != nil {
		return fmt.Errorf("read the policy file of the dispatcher: %w", err)
	}
	return writeWhole(target, text, info, (*os.File).Chown)
}

// writeWhole replaces a file in one step. What takes its place has its mode, its owner and its group.
func writeWhole(target, text string, info os.FileInfo, chown func(file *os.File, uid, gid int) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(target), ".policy-*")
	if err != nil {
		return fmt.Errorf("replace %s: %w", target, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("replace %s: %w", target, errors.Join(err, os.Remove(file.Name())))
		}
	}()
	_, err = file.WriteString(text)
	err = errors.Join(err, giveBack(file, info, chown), file.Chmod(info.Mode().Perm()), file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), target)
}

// giveBack gives a file to the owner and the group of the one that it replaces: the dispatcher may run as another user
// than whoever replaces its file. Where that is not permitted, it is an error unless everybody may read the file.
func giveBack(file *os.File, replaced os.FileInfo, chown func(file *os.File, uid, gid int) error) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	own, known := info.Sys().(*syscall.Stat_t)
	owner, alsoKnown := replaced.Sys().(*syscall.Stat_t)
	if !known || !alsoKnown || own.Uid == owner.Uid && own.Gid == owner.Gid {
		return nil
	}
	err = chown(file, int(owner.Uid), int(owner.Gid))
	if err == nil || replaced.Mode()&readableByAll != 0 {
		return nil
	}
	return fmt.Errorf("the file belongs to user %d and group %d, and others may not read it; run this command as root or as that user: %w",
		owner.Uid, owner.Gid, err)
}

// readableByAll is the bit of a file's mode that lets everybody read it.
const readableByAll = 0o004

// await waits until every process has a version and none refuses its file, and says how far it is. The file is replaced
// already, so a look that fails, as while a store is slow for a moment, is repeated.
func (c *policyApplyCommand) await(ctx context.Context, to streams, version string) error {
	until, told := time.Now().Add(c.Wait), -1
	for {
		in, err := c.inForce(ctx)
		if err == nil {
			have, all := holders(in, version), len(in.Processes)
			if all > 0 && have != told { // none is listed until the first has announced itself
				told = have
				if _, err := fmt.Fprintf(to.out, "version %s is in force on %d of %s\n", version, have,
					plural.Of(all, "process", "processes")); err != nil {
					return err
				}
			}
			if all > 0 && have == all && in.Version == version && in.Refused == "" {
				return nil
			}
		}
		over := time.Now().After(until)
		if !over {
			select {
			case <-ctx.Done():
				over = true
			case <-time.After(applyPoll):
			}
		}
		switch {
		case over && err != nil:
			return fmt.Errorf("the policy file now holds version %s, but pacer could not ask which processes have loaded it; dispatcher policy show names them: %w",
				version, err)
		case over:
			return c.missing(to, in, version)
		}
	}
}

// holders is how many processes hold a version.
func holders(in *ops.PolicyInForce, version string) int {
	have := 0
	for _, p := range in.Processes {
		if holds(p, version) {
			have++
		}
	}
	return have
}

// holds reports whether a process has a version in force, and does not refuse its file.
func holds(p ops.Process, version string) bool {
	return p.Policy != nil && p.Policy.Version == version && p.Policy.Refused == ""
}

// missing names the processes that have another version, or refuse their file.
func (*policyApplyCommand) missing(to streams, in *ops.PolicyInForce, version string) error {
	if len(in.Processes) == 0 {
		_, _ = fmt.Fprintln(to.err, nobodyListed)
	}
	for _, p := range in.Processes {
		switch {
		case p.Policy == nil:
			_, _ = fmt.Fprintf(to.err, "%s does not report its policy\n", p.ID) // nowhere else to tell
		case p.Policy.Refused != "":
			fault, _, _ := strings.Cut(p.Policy.Refused, "\n")
			_, _ = fmt.Fprintf(to.err, "%s has version %s and refuses its file: %s\n", p.ID, p.Policy.Version, fault) // likewise
		case p.Policy.Version != version:
			_, _ = fmt.Fprintf(to.err, "%s has version %s, from %s\n", p.ID, p.Policy.Version, p.Policy.File) // likewise
		}
	}
	return errNotEverywhere
}
