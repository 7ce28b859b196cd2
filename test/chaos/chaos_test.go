package chaos_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m))) }

// number reads a setting of the run from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s must be a number: %v", name, err)
	}
	return n
}

// newStage gives stores to play on.
func newStage(t *testing.T) *stage {
	t.Helper()
	o, stop := newOutside()
	t.Cleanup(stop)
	db, err := newDatabase(context.WithoutCancel(t.Context()), o, postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.admin.Close(context.WithoutCancel(t.Context())) })
	return &stage{redis: newServer(o, redistest.Client(t)), database: db}
}

// inBubble runs something in a bubble, whose end is that of all that it began.
func inBubble(t *testing.T, do func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, do)
}

// tally is what a run played.
type tally struct {
	mu             sync.Mutex
	played, steps  int
	durable, moves int
	faults         map[string]int
	found          []*played
}

func (y *tally) add(p *played) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.played++
	y.steps += p.steps
	y.moves += len(p.moves)
	if p.Durable {
		y.durable++
	}
	for kind, n := range p.faults {
		y.faults[kind] += n
	}
	if len(p.broken) > 0 {
		y.found = append(y.found, p)
	}
}

func (y *tally) String() string {
	var faults []string
	for _, kind := range slices.Sorted(maps.Keys(y.faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", kind, y.faults[kind]))
	}
	return fmt.Sprintf("%d schedules (%d with Postgres), %d moves, %d steps, faults: %s; found: %d", y.played,
		y.durable, y.moves, y.steps,
		strings.Join(faults, ", "), len(y.found))
}

// Random worlds keep their promises. CHAOS_SCHEDULES says how many, CHAOS_SEED with which the first begins,
// CHAOS_MINUTES when to end at the latest, CHAOS_WORKERS how many at once.
func TestChaos(t *testing.T) { //nolint:tparallel // the subtest ends when all its own have: what they found is told then
	t.Parallel()
	schedules, seed := number(t, "CHAOS_SCHEDULES", 40), number(t, "CHAOS_SEED", 1)
	workers := cmp.Or(number(t, "CHAOS_WORKERS", 2), 1)
	started, limit := time.Now(), time.Duration(number(t, "CHAOS_MINUTES", 10))*time.Minute
	y := &tally{faults: map[string]int{}}
	var next sync.Mutex
	n := 0
	take := func() (uint64, bool) {
		next.Lock()
		defer next.Unlock()
		if n++; n > schedules {
			return 0, false
		}
		return uint64(seed + n - 1), true
	}
	t.Run("worlds", func(t *testing.T) {
		for worker := range workers {
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				work(t, y, take, func() bool { return time.Since(started) < limit })
			})
		}
	})
	t.Log(y)
	reported := map[string]bool{}
	for _, p := range y.found {
		if kind := kindOf(p); !reported[kind] && len(reported) < number(t, "CHAOS_REPORTS", 3) {
			reported[kind] = true
			report(t, p)
			continue
		}
		t.Errorf("seed %d: %v", p.Seed, p.broken)
	}
}

// kindOf is what a schedule broke, without the names of what it broke that for.
func kindOf(p *played) string {
	promises := strings.FieldsFunc(named.ReplaceAllString(strings.Join(p.broken, "|"), ""),
		func(c rune) bool { return c == '|' })
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(promises))), "|")
}

// named matches what differs between two finds of the same fault.
var named = regexp.MustCompile(`n?\d+|\[.*\]|\b(ada|ben|cyd)\b`)

// perBubble is how many schedules one bubble plays.
const perBubble = 50

// work plays one schedule after the other.
func work(t *testing.T, y *tally, take func() (uint64, bool), inTime func() bool) {
	t.Helper()
	st := newStage(t)
	for more := true; more && inTime(); {
		inBubble(t, func(t *testing.T) {
			for range perBubble {
				seed, ok := take()
				if !ok {
					more = false
					return
				}
				r, set := newRandom(seed)
				p, err := st.play(set, r)
				if err != nil {
					t.Errorf("seed %d can't be played: %v", seed, err)
					return
				}
				y.add(p)
			}
		})
	}
}

// report tells of a schedule that broke a promise, shrunk to what is needed for that.
func report(t *testing.T, p *played) {
	t.Helper()
	small := shrink(t, p)
	t.Errorf("seed %d broke promises:\n  %s\n\nthe story of the smallest schedule found that does:\n%s\n\nthe schedule, for CHAOS_REPLAY=FILE make chaos:\n%s",
		p.Seed, strings.Join(small.broken, "\n  "), strings.Join(small.story, "\n"), small.schedule)
}

// Schedules that found something once are played again and again.
func TestSchedulesThatFoundSomething(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.schedule")
	if err != nil {
		t.Fatal(err)
	}
	if file := os.Getenv("CHAOS_REPLAY"); file != "" {
		files = []string{file}
	}
	if len(files) == 0 {
		return
	}
	st := newStage(t)
	st.mutation = os.Getenv("CHAOS_MUTATION")
	for _, file := range files {
		p := replay(t, st, file)
		if os.Getenv("CHAOS_REPLAY") != "" {
			t.Logf("the story:\n%s", strings.Join(p.story, "\n"))
		}
		if len(p.broken) > 0 {
			t.Errorf("%s broke promises:\n  %s\n\nthe story:\n%s", file, strings.Join(p.broken, "\n  "),
				strings.Join(p.story, "\n"))
		}
		if len(p.missed) > 0 {
			t.Errorf("%s: no operation came to the steps %q, at which it was to stop", file, p.missed)
		}
	}
}

func replay(t *testing.T, st *stage, file string) *played {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was read only
	s, err := readSchedule(f)
	if err != nil {
		t.Fatal(err)
	}
	return playAgain(t, st, s)
}

func playAgain(t *testing.T, st *stage, s schedule) (p *played) {
	t.Helper()
	inBubble(t, func(t *testing.T) {
		var err error
		if p, err = st.play(s.setting, &script{slices.Clone(s.moves)}); err != nil {
			t.Fatal(err)
		}
	})
	return p
}
