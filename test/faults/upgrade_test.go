//go:build faults

package faults_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// upgradeScenarios are two versions of the program in one deployment.
func upgradeScenarios() []*scenario {
	half := 500 * time.Millisecond
	draining := protection{name: "drain", prepare: func(d *deployment) {
		d.env = append(d.env, "PACER_DRAIN_TIMEOUT=10ms")
	}}
	return []*scenario{
		{
			name:  "VersionsSideBySide",
			fault: "half of the workers replaced by the next version, after its `migrate up`; both work for 5 s",
			slow:  half, without: draining,
			prepare: fromPrevious, inject: sideBySide, goesOn: true,
		},
		{
			name:  "VersionsSideBySideRedis",
			fault: "half of the workers replaced by the next version; both work for 5 s", store: inRedis, slow: half,
			without: draining,
			prepare: fromPrevious, inject: sideBySide, goesOn: true,
		},
		{
			name: "Upgraded", fault: "upgrade under load: `migrate up`, then one worker after the other", slow: half,
			without: draining,
			prepare: fromPrevious, inject: func(d *deployment) { d.become(program); replaceBoth(d) },
		},
		{
			name: "UpgradedRedis", fault: "upgrade under load: one worker after the other", store: inRedis, slow: half,
			without: draining,
			prepare: fromPrevious, inject: func(d *deployment) { d.become(program); replaceBoth(d) },
		},
		{
			name:  "RolledBack",
			fault: "roll-back under load: all stopped, `migrate down`, the previous version started", slow: half,
			without: draining,
			prepare: toPrevious, inject: rollBack,
		},
		{
			name: "RolledBackRedis", fault: "roll-back under load: one worker after the other", store: inRedis,
			slow: half, without: draining,
			prepare: toPrevious, inject: rollBack,
		},
	}
}

// earlier is the program's previous version.
type earlier struct {
	program string
	// says is how the table names it, migrations how many it knows.
	says       string
	migrations int
}

// defaultPrevious is the commit whose program counts as the previous version, unless FAULTS_PREVIOUS names another.
const defaultPrevious = "8b7100b0"

// previous builds it, from the repository's history. A checkout without history is its own previous version.
var previous = sync.OnceValues(func() (earlier, error) {
	commit := cmp.Or(os.Getenv("FAULTS_PREVIOUS"), defaultPrevious)
	p := earlier{program: filepath.Join(programs, "dispatcher-previous"), says: "previous: commit " + commit}
	checkout := filepath.Join(programs, "previous")
	if archive, err := exec.Command("git", "-C", "../..", "archive", commit).Output(); err != nil {
		p.says, checkout = "previous: this version too, as the history lacks commit "+commit, "../.."
	} else {
		if exec.Command("git", "diff", "--quiet", "--diff-filter=M", commit, "--", ":/migrations/*.sql").Run() != nil {
			return p, errors.New("a migration has changed since commit " + commit + ": name a newer one")
		}
		if err := os.Mkdir(checkout, 0o700); err != nil {
			return p, err
		}
		unpack := exec.Command("tar", "-x", "-C", checkout)
		unpack.Stdin, unpack.Stderr = bytes.NewReader(archive), os.Stderr
		if err := unpack.Run(); err != nil {
			return p, err
		}
	}
	files, err := filepath.Glob(filepath.Join(checkout, "migrations", "*.sql"))
	if err != nil {
		return p, err
	}
	p.migrations = len(files)
	return p, build(p.program, checkout, "-ldflags",
		"-X github.com/pacer-notify/pacer/internal/version.version=v0.0.0-previous")
})

// before returns the previous version.
func (d *deployment) before() earlier {
	p, err := previous()
	if err != nil {
		d.fail("build the previous version: %v", err)
	}
	return p
}

// fromPrevious has the deployment begin with the previous version.
func fromPrevious(d *deployment) {
	p := d.before()
	d.program, d.migrator = p.program, p.program
	d.note("%s", p.says)
}

// toPrevious has the previous version at hand for a roll-back. Built only when the fault comes, it would be ready when
// all has ended: building takes longer than the load.
func toPrevious(d *deployment) { d.note("%s", d.before().says) }

// migrate brings the schema up to that of a program, or a step down.
func (d *deployment) migrate(with, direction string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a lock that nobody gives up
	defer cancel()
	command := exec.CommandContext(ctx, with, "migrate", direction, "--database-url", d.databaseURL)
	if out, err := command.CombinedOutput(); err != nil {
		d.fail("migrate %s: %v\n%s", direction, err, out)
	}
}

// become has the processes that are started from now on be another version, whose schema is there first.
func (d *deployment) become(program string) {
	if d.postgres != nil {
		d.migrate(program, "up")
	}
	d.program = program
}

func sideBySide(d *deployment) {
	d.become(program)
	next := d.start()
	d.workers[0].terminate()
	d.put(0, next)
	d.last(5 * time.Second)
}

func rollBack(d *deployment) {
	p := d.before()
	if d.postgres == nil {
		d.program = p.program
		replaceBoth(d)
		return
	}
	for _, w := range d.workers {
		w.terminate()
	}
	for range migrations - p.migrations {
		d.migrate(program, "down")
	}
	d.program = p.program
	for i := range d.workers {
		d.put(i, d.start())
	}
}
