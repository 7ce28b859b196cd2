package record_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/record"
	"github.com/pacer-notify/pacer/internal/record/recordtest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m))) }

var events = record.Log{Name: "event", Keep: 30 * 24 * time.Hour, Most: 100_000}

// put writes a document that nobody may have changed since it had a version.
func put(t *testing.T, s record.Store, key, body string, was int64) int64 {
	t.Helper()
	return putKeeping(t, s, time.Hour, key, body, was)
}

// putKeeping is put when it is known for so long that others were removed.
func putKeeping(t *testing.T, s record.Store, keep time.Duration, key, body string, was int64) int64 {
	t.Helper()
	w := record.Write{Kind: "test", Key: key, Was: was, Keep: keep}
	if body != "" {
		w.Body = []byte(body)
	}
	version, err := s.Write(t.Context(), w)
	if err != nil {
		t.Fatalf("write %s: %v", key, err)
	}
	return version
}

// shown lists records as "key body"; a removed one is "key -".
func shown(records []record.Record, err error) string {
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, r := range records {
		body := "-"
		if r.Body != nil {
			body = string(r.Body)
		}
		names = append(names, r.Key+" "+body)
	}
	return strings.Join(names, ", ")
}

func wantShown(t *testing.T, what, want string, records []record.Record, err error) {
	t.Helper()
	if got := shown(records, err); got != want {
		t.Errorf("%s: %s; want %s", what, got, want)
	}
}

// A document is written by whoever knows its version, in a form that stays as it is; it is listed by key, and its
// changes by number, removals too. Kinds know nothing of each other.
func TestDocumentsAreKept(t *testing.T) {
	t.Parallel()
	recordtest.Each(t, func(t *testing.T, s recordtest.Store) {
		ctx := t.Context()
		none, now, err := s.Get(ctx, "test", "b")
		if err != nil || none.Version != 0 || none.Body != nil || time.Since(now).Abs() > time.Minute {
			t.Fatalf("of one that never was there is %+v at %s, %v", none, now, err)
		}
		first := put(t, s, "b", `{"ü": "1"}`, 0)
		second := put(t, s, "a", `{}`, 0)
		if second <= first || time.Since(time.UnixMicro(first)).Abs() > time.Minute {
			t.Errorf("the versions are %d and %d", first, second)
		}
		for _, was := range []int64{0, first - 1, second} {
			_, err := s.Write(ctx, record.Write{Kind: "test", Key: "b", Was: was, Body: []byte("{}"), Keep: time.Hour})
			if !errors.Is(err, record.ErrChanged) {
				t.Errorf("a write over version %d that says %d: %v", first, was, err)
			}
		}
		got, _, err := s.Get(ctx, "test", "b")
		if err != nil || string(got.Body) != `{"ü": "1"}` || got.Version != first {
			t.Errorf("it is kept as %+v, %v", got, err)
		}
		other := record.Write{Kind: "other", Key: "b", Body: []byte("1"), Keep: time.Hour}
		if _, err := s.Write(ctx, other); err != nil {
			t.Fatal(err)
		}
		third := put(t, s, "b", `{"ü": "2"}`, first)
		put(t, s, "c", `3`, 0)
		all, err := s.List(ctx, "test", "", 0)
		wantShown(t, "all", `a {}, b {"ü": "2"}, c 3`, all, err)
		page, err := s.List(ctx, "test", "a", 1)
		wantShown(t, "after a", `b {"ü": "2"}`, page, err)
		removed := put(t, s, "a", "", second)
		left, err := s.List(ctx, "test", "", 0)
		wantShown(t, "without a", `b {"ü": "2"}, c 3`, left, err)
		changes, err := s.Changes(ctx, "test", 0, 10)
		wantShown(t, "the changes", `b {"ü": "2"}, c 3, a -`, changes, err)
		page, err = s.Changes(ctx, "test", third, 1)
		if err != nil || len(page) != 1 || page[0].Version != third {
			t.Errorf("the changes from the last one are %+v, %v", page, err)
		}
		if gone, _, err := s.Get(ctx, "test", "a"); err != nil || gone.Body != nil || gone.Version != removed {
			t.Errorf("of the removed one there is %+v, %v", gone, err)
		}
		put(t, s, "a", `{}`, removed)
		changes, err = s.Changes(ctx, "test", removed, 10)
		wantShown(t, "after it is back", "a {}", changes, err)
	})
}

// An alias is one document's, and free again once it is removed or has another; there are no more than there may be.
func TestAliasesAndBounds(t *testing.T) {
	t.Parallel()
	recordtest.Each(t, func(t *testing.T, s recordtest.Store) {
		write := func(key, alias, wasAlias string, was int64) (int64, error) {
			return s.Write(t.Context(), record.Write{
				Kind: "test", Key: key, Was: was, Body: []byte("{}"), Alias: alias, WasAlias: wasAlias, Most: 2,
				Keep: time.Hour,
			})
		}
		a, err := write("a", "x", "", 0)
		b, errB := write("b", "y", "", 0)
		if err := errors.Join(err, errB); err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"a new one": second(write("c", "x", "", 0)), "a change": second(write("b", "x", "y", b)),
		} {
			if taken, ok := errors.AsType[*record.TakenError](err); !ok && !errors.Is(err, record.ErrTooMany) ||
				ok && taken.Key != "a" {
				t.Errorf("%s with an alias of another: %v", name, err)
			}
		}
		if _, err := write("c", "z", "", 0); !errors.Is(err, record.ErrTooMany) {
			t.Errorf("one too many: %v", err)
		}
		if _, err = write("a", "z", "x", a); err != nil {
			t.Error(err)
		}
		if b, err = write("b", "x", "y", b); err != nil {
			t.Errorf("an alias that is free: %v", err)
		}
		put(t, s, "b", "", b) // its alias too
	})
}

func second[T any](_ T, err error) error { return err }

// Long after a document was removed it is forgotten when another is written, and whoever has not read that it was
// removed reads that something was forgotten. Its key is free before.
func TestRemovedOnesAreForgotten(t *testing.T) {
	t.Parallel()
	recordtest.Each(t, func(t *testing.T, s recordtest.Store) {
		for i := range record.ForgetAtOnce + 5 {
			key := fmt.Sprint("old", i)
			put(t, s, key, "", put(t, s, key, "{}", 0))
		}
		put(t, s, "kept", "{}", 0)
		count := func() (n int, forgotten bool) {
			changes, err := s.Changes(t.Context(), "test", 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				forgotten = forgotten || c.Key == ""
			}
			return len(changes), forgotten
		}
		last := fmt.Sprint("old", record.ForgetAtOnce+4)
		if _, err := s.Write(t.Context(), record.Write{Kind: "test", Key: last, Body: []byte("{}"), Keep: time.Hour}); !errors.Is(err, record.ErrChanged) {
			t.Errorf("a key of one that was just removed: %v", err)
		}
		put(t, s, "more", "{}", 0)
		if n, forgotten := count(); n != record.ForgetAtOnce+7 || forgotten {
			t.Errorf("within the hour %d are known, forgotten some: %t", n, forgotten)
		}
		putKeeping(t, s, 0, last, "{}", 0) // its key is free
		if n, forgotten := count(); n > 9 || !forgotten {
			t.Errorf("then %d are known, forgotten some: %t", n, forgotten)
		}
		putKeeping(t, s, 0, "last", "{}", 0)
		if n, _ := count(); n != 5 { // kept, more, old, last, and the mark
			t.Errorf("in the end %d are known, want 5", n)
		}
	})
}

// doc is a document with a counter.
type doc struct{ N int }

// Of many changes at once none is lost, and each is told once; a change that fails leaves everything as it is.
func TestChangesComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	recordtest.Each(t, func(t *testing.T, s recordtest.Store) {
		kind := &record.Kind[doc]{Store: s, Name: "test", Log: events}
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				for range 5 {
					if _, err := kind.Change(t.Context(), "a", func(d *record.Draft[doc]) error {
						d.Doc.N++
						d.Tell = append(d.Tell, d.Doc.N)
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		refused := errors.New("refused")
		if _, err := kind.Change(t.Context(), "a", func(d *record.Draft[doc]) error {
			d.Doc.N, d.Tell = 0, []any{0}
			return refused
		}); !errors.Is(err, refused) {
			t.Errorf("a change that fails: %v", err)
		}
		got, found, err := kind.Get(t.Context(), "a")
		if err != nil || !found || got.N != 30 {
			t.Errorf("after 30 changes it is %+v, %t, %v", got, found, err)
		}
		lines, err := s.After(t.Context(), events, 0, 100)
		if err != nil || len(lines) != 30 {
			t.Fatalf("%d lines, %v; want 30", len(lines), err)
		}
		for i, line := range lines {
			var n int
			if err := json.Unmarshal(line.Text, &n); err != nil || n != i+1 || line.Number != int64(n) {
				t.Errorf("line %d is %s, %v; want what was changed in order", line.Number, line.Text, err)
			}
		}
		for _, want := range []bool{true, false} {
			if was, err := kind.Remove(t.Context(), "a"); err != nil || was != want {
				t.Errorf("it was there to be removed: %t, %v", was, err)
			}
		}
	})
}

func texts(t *testing.T, lines []record.Line, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, l := range lines {
		if time.Since(l.At).Abs() > time.Minute {
			t.Errorf("line %d is of %s", l.Number, l.At)
		}
		list = append(list, fmt.Sprintf("%d %s", l.Number, l.Text))
	}
	return strings.Join(list, ", ")
}

func appendAll(t *testing.T, s record.Store, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if err := s.Append(t.Context(), events, []byte(line)); err != nil {
			t.Error(err)
		}
	}
}

// Lines are numbered without gaps in the order in which they are read, whoever writes at the same time.
func TestLinesAreInOrder(t *testing.T) {
	t.Parallel()
	recordtest.Each(t, func(t *testing.T, s recordtest.Store) {
		ctx := t.Context()
		appendAll(t, s, "7", "8", "9")
		for after, want := range []string{"1 7, 2 8", "2 8, 3 9", "3 9", ""} {
			lines, err := s.After(ctx, events, int64(after), 2)
			if got := texts(t, lines, err); got != want {
				t.Errorf("after %d come %q, want %q", after, got, want)
			}
		}
		if lines, err := s.After(ctx, events, math.MaxInt64, 2); err != nil || len(lines) > 0 {
			t.Errorf("after the greatest number come %v, %v", lines, err)
		}
		lines, err := s.Newest(ctx, events, 2)
		if got := texts(t, lines, err); got != "3 9, 2 8" {
			t.Errorf("the newest are %s", got)
		}
		var writing sync.WaitGroup
		for range 4 {
			writing.Go(func() { appendAll(t, s, "1", "2", "3", "4", "5") })
		}
		last := int64(3)
		for last < 23 { // a reader that goes on where it stopped misses none
			lines, err := s.After(ctx, events, last, 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range lines {
				if l.Number != last+1 {
					t.Fatalf("after %d comes %d", last, l.Number)
				}
				last = l.Number
			}
		}
		writing.Wait()
		if latest, err := s.Latest(ctx, events); err != nil || latest != 23 {
			t.Errorf("the latest is %d, %v", latest, err)
		}
	})
}

// Old lines are forgotten, a bounded number at a time, and their numbers are not given again.
func TestOldLinesAreForgotten(t *testing.T) {
	t.Parallel()
	recordtest.Each(t, func(t *testing.T, s recordtest.Store) {
		left := func() string {
			lines, err := s.After(t.Context(), events, 0, 9)
			more, forgetErr := s.Forget(t.Context(), events)
			if more || forgetErr != nil {
				t.Errorf("there is more to forget: %t, %v", more, forgetErr)
			}
			return texts(t, lines, err)
		}
		appendAll(t, s, "1", "2")
		if left(); left() != "1 1, 2 2" {
			t.Errorf("young ones are forgotten: %s", left())
		}
		if s.Age == nil {
			return // test/faults turns the clock of a whole server
		}
		s.Age(t, 31*24*time.Hour)
		appendAll(t, s, "3")
		if _, err := s.Forget(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		if got := left(); got != "3 3" {
			t.Errorf("left are %s", got)
		}
	})
}

// A replica that is promoted without the latest lines gives none of their numbers again: whoever has read them, and
// asks for what comes after, misses nothing.
func TestNoNumberIsGivenTwice(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(master.Addr())
	s := recordtest.OnRedis(master.Client(t))
	appendAll(t, s, "1", "2")
	replica := redistest.Start(t, "--replicaof", host+" "+port) // its first one: the master takes another master_replid
	master.AwaitReplica()
	if err := replica.Client(t).Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	appendAll(t, s, `"lost"`, `"lost too"`)
	read, err := s.After(t.Context(), events, 2, 10)
	if err != nil || len(read) != 2 {
		t.Fatalf("read %v, %v", read, err)
	}
	promoted := recordtest.OnRedis(replica.Client(t))
	appendAll(t, promoted, "3", "4", "5")
	next, err := promoted.After(t.Context(), events, read[1].Number, 10)
	if err != nil || len(next) != 3 || string(next[0].Text) != "3" || next[2].Number != next[0].Number+2 {
		t.Errorf("after %d come %v, %v; want 3, 4 and 5 in a row", read[1].Number, next, err)
	}
}
