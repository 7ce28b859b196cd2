//go:build faults

package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/pacer-notify/pacer/test/processtest"
)

// program is the built dispatcher, whose protections can be switched off. programs is the folder that it lies in.
var program, programs string

// migrations is how many it knows.
var migrations int

func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.Disabled) // Toxiproxy's toxics write to the library's own log
	dir, err := processtest.NewDir("faults")
	if err == nil {
		programs, program = dir.Path, filepath.Join(dir.Path, "dispatcher")
		known, _ := filepath.Glob("../../migrations/*.sql") // a constant pattern
		migrations = len(known)
		err = build(program, "../..")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the dispatcher:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = dir.Remove() // a temporary folder
	os.Exit(code)
}

// build builds the dispatcher of a checkout, with further arguments of go build.
func build(path, checkout string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "go", append(append([]string{"build", "-tags", "faults", "-o", path}, args...),
		"./cmd/dispatcher")...)
	command.Dir, command.Stderr = checkout, os.Stderr
	return command.Run()
}

// rewrite is a change to the program's source, in a file of the project or of another module. One that replaces nothing
// is a file more.
type rewrite struct{ file, says, instead string }

// in applies it to a text, which must say it once.
func (r rewrite) in(text string) (string, error) {
	if strings.Count(text, r.says) != 1 {
		return "", fmt.Errorf("the source does not say %q once", r.says)
	}
	return strings.Replace(text, r.says, r.instead, 1), nil
}

// rewritten builds the program with changes to its source; once for the same changes.
func (d *deployment) rewritten(rewrites []rewrite) string {
	name := fnv.New64a()
	_, _ = fmt.Fprint(name, rewrites) // a hash takes everything
	path := filepath.Join(programs, fmt.Sprintf("dispatcher-rewritten-%x", name.Sum64()))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := overlaid(path, rewrites...); err != nil {
		d.fail("build a rewritten program: %v", err)
	}
	return path
}

// overlaid builds the program with places of its source replaced. The source itself stays as it is.
func overlaid(path string, rewrites ...rewrite) error {
	texts := map[string]string{}
	for _, r := range rewrites {
		file := r.file
		if !filepath.IsAbs(file) {
			file = filepath.Join("../..", file)
		}
		file, err := filepath.Abs(file)
		if err != nil {
			return err
		}
		text, begun := texts[file]
		if !begun && r.says != "" {
			source, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			text = string(source)
		}
		if r.says == "" {
			texts[file] = r.instead
		} else if texts[file], err = r.in(text); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	replaced := map[string]string{}
	for file, text := range texts {
		changed := fmt.Sprintf("%s-%d%s", path, len(replaced), filepath.Ext(file))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return err
		}
		replaced[file] = changed
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".json", overlay, 0o600); err != nil {
		return err
	}
	return build(path, "../..", "-overlay", path+".json")
}

// short reports whether a tenth of the load is enough.
func short() bool { return os.Getenv("FAULTS") == "short" }

// red reports whether every scenario runs without its protection, and must fail.
func red() bool { return os.Getenv("FAULTS_RED") != "" }

// scaled is a number of users: that of a whole run, or a tenth of it.
func scaled(users int) int {
	if short() {
		return max(users/10, 20)
	}
	return users
}
