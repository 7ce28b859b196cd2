package preferences

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/beat"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/patience"
	"github.com/pacer-notify/pacer/internal/record"
)

// Source is a store of preferences.
type Source interface {
	// PreferencesParts is how many parts the store has.
	PreferencesParts() int
	// ChangedPreferences lists, for each part, the users whose latest change has a version from `from` on, in order, at
	// most limit of each part. A user whose preferences were removed is listed without any. A part that can't be read
	// must not keep back the others for long.
	ChangedPreferences(ctx context.Context, from []int64, limit int) []notification.PreferencesPage
}

// Agendas is what waits for users.
type Agendas interface {
	PartitionOf(userID string) int
	// WakePersonal has the agendas of some users of a partition decided again, and returns for how many of them
	// something waits.
	WakePersonal(ctx context.Context, partition int, userIDs ...string) (waiting int, err error)
}

// Marks keep up to which change of each part what waits was decided again, so that a process which starts knows what
// those before it left.
type Marks interface {
	// Woken reads them; nil when there are none.
	Woken(ctx context.Context) ([]int64, error)
	NoteWoken(ctx context.Context, marks []int64) error
}

// Config says how a [Follower] works.
type Config struct {
	// Agendas are woken after a change, with Marks. Without them, no agenda is.
	Agendas Agendas
	Marks   Marks
	// Changed is called with each user whose preferences have changed, before the new ones hold here. Defaults to
	// nothing.
	Changed func(userID string)
	Log     *slog.Logger
}

const (
	// lookEvery is how often a process looks for changes, and lookTimeout how long that may take.
	lookEvery, lookTimeout = 250 * time.Millisecond, 10 * time.Second
	// storePatience is how long it waits for a server to wake users or to keep the marks. The driver may wait for
	// minutes.
	storePatience = 3 * time.Second
	// pageSize is about how many changes are read at a time.
	pageSize = 2000
	// wakeSize is how many users a script wakes, and wakeMost how many are woken in a look.
	wakeSize, wakeMost = 100, 4000
	// wakeAgain is how long after a change those for whom something waits are woken once more. The first wake-up may
	// have been served by a process that did not know of the change yet.
	wakeAgain = 1500 * time.Millisecond
)

// Follower keeps a [Memory] in step with a store.
type Follower struct {
	*Memory
	cfg    Config
	source Source

	hurry chan struct{} // there is somebody to wake

	mu    sync.Mutex // one reads at a time
	parts []part
	queue []change // to be woken

	noted []int64 // the marks as Run noted them last
}

// part is how far a part of the store was read.
type part struct {
	record.Cursor

	round uint16 // how often it was read from the beginning
	woken int64  // changes up to this one were woken by others before this process began
}

// change is a user whose agenda has to be decided again.
type change struct {
	user   string
	part   int
	number int64
	due    time.Time
	again  bool // it was woken once
}

// NewFollower makes one that has read nothing.
func NewFollower(source Source, cfg Config) *Follower {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.Changed == nil {
		cfg.Changed = func(string) {}
	}
	return &Follower{Memory: NewMemory(), cfg: cfg, source: source, hurry: make(chan struct{}, 1)}
}

// Load reads everything, or fails. It is called once, before anything is decided.
func (f *Follower) Load(ctx context.Context) error {
	f.parts = make([]part, f.source.PreferencesParts())
	for i := range f.parts {
		f.parts[i] = part{round: 1, woken: math.MaxInt64}
	}
	if f.cfg.Marks != nil {
		marks, err := f.cfg.Marks.Woken(ctx)
		if err != nil {
			return err
		}
		for i := range min(len(marks), len(f.parts)) {
			f.parts[i].woken = marks[i]
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.read(ctx)
	for i := range f.parts {
		f.parts[i].woken = 0
	}
	return err
}

// Run looks for changes, and wakes whom they concern, until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	ticker := beat.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		f.Look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Next()
		case <-f.hurry:
		}
	}
}

// Look reads what has changed, and wakes whom it concerns, once: those who are due by now. Run calls it over and over;
// it must not run twice at once.
func (f *Follower) Look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := f.readAll(ctx); err != nil && ctx.Err() == nil {
		f.cfg.Log.DebugContext(ctx, "could not check for changed preferences; using the known ones until the next check",
			"error", err)
	}
	if f.cfg.Agendas != nil {
		f.wake(ctx)
	}
}

// Refresh reads what has changed. Run then wakes whom it concerns at once. An error is that of the parts that could
// not be read.
func (f *Follower) Refresh(ctx context.Context) error {
	_, err := patience.Ask(ctx, lookTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, f.readAll(ctx) // which waits for a look that is under way
	})
	select {
	case f.hurry <- struct{}{}:
	default:
	}
	return err
}

func (f *Follower) readAll(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read(ctx)
}

// read reads what has changed, page by page. A part that can't be read keeps what is known of it, and the others are
// read all the same.
func (f *Follower) read(ctx context.Context) error {
	limit := max(20, pageSize/len(f.parts))
	var failed []error
	for more := true; more; {
		from := make([]int64, len(f.parts))
		for i := range f.parts {
			from[i] = f.parts[i].From
		}
		more, failed = false, nil
		for i, page := range f.source.ChangedPreferences(ctx, from, limit) {
			if page.Err != nil {
				failed = append(failed, page.Err)
				continue
			}
			if f.take(ctx, i, page.Changes, len(page.Changes) >= limit) {
				more = true
			}
		}
		if len(failed) > 0 { // the next look reads on: each page of the others would wait for those that failed
			break
		}
	}
	return errors.Join(failed...)
}

// take takes in a page, and reports whether there is more to read. Once a part was read from the beginning, whoever is
// not in it is forgotten.
func (f *Follower) take(ctx context.Context, number int, page []notification.PreferencesChange, full bool) (more bool) {
	p := &f.parts[number]
	fresh, step := record.Next(&p.Cursor, page, full, func(c *notification.PreferencesChange) (string, int64) {
		return c.UserID, c.Version
	})
	for i := range fresh {
		c := &fresh[i]
		f.cfg.Changed(c.UserID)
		if err := f.set(c.UserID, &c.Preferences, uint16(number), p.round); err != nil {
			f.cfg.Log.WarnContext(ctx, "could not read some of a user's preferences; applying the policy in their place",
				"user_id", c.UserID, "error", err)
		}
		if f.cfg.Agendas != nil && c.Version > p.woken {
			f.queue = append(f.queue, change{user: c.UserID, part: number, number: c.Version})
		}
	}
	switch step {
	case record.Again:
		p.round++
	case record.Complete:
		f.forget(uint16(number), p.round)
	case record.More, record.Read:
	}
	return step == record.More || step == record.Again
}

// wake has what waits for changed users decided again, for some thousand of them.
func (f *Follower) wake(ctx context.Context) {
	f.mu.Lock()
	queue, marks := f.queue, make([]int64, len(f.parts))
	f.queue = nil
	for i := range f.parts {
		marks[i] = f.parts[i].From
	}
	f.mu.Unlock()
	byPartition, taken := map[int][]change{}, 0
	var left []change
	for _, c := range queue {
		if taken == wakeMost || time.Now().Before(c.due) {
			left = append(left, c)
			continue
		}
		taken++
		partition := f.cfg.Agendas.PartitionOf(c.user)
		byPartition[partition] = append(byPartition[partition], c)
	}
	left = append(left, f.wakeEach(ctx, byPartition)...)
	for _, c := range left {
		marks[c.part] = min(marks[c.part], c.number-1)
	}
	f.mu.Lock()
	f.queue = append(left, f.queue...)
	f.mu.Unlock()
	f.noteWoken(ctx, marks)
}

// wakeEach wakes users, all partitions at once, and returns those who have to be woken once more. It waits for no
// partition whose server does not respond longer than storePatience.
func (f *Follower) wakeEach(ctx context.Context, byPartition map[int][]change) []change {
	again := make(chan []change)
	for partition, changes := range byPartition {
		go func() {
			var left []change
			for some := range slices.Chunk(changes, wakeSize) {
				left = append(left, f.wakeSome(ctx, partition, some)...)
			}
			again <- left
		}()
	}
	var left []change
	for range byPartition {
		left = append(left, <-again...)
	}
	return left
}

// wakeSome wakes users of one partition, and returns those who have to be woken once more.
func (f *Follower) wakeSome(ctx context.Context, partition int, changes []change) []change {
	users := make([]string, len(changes))
	for i, c := range changes {
		users[i] = c.user
	}
	waiting, err := patience.Ask(ctx, storePatience, func(ctx context.Context) (int, error) {
		return f.cfg.Agendas.WakePersonal(ctx, partition, users...)
	})
	if err != nil {
		f.cfg.Log.DebugContext(ctx, "could not reschedule notifications under changed preferences; retrying at the next check",
			"users", len(users), "error", err)
		return changes
	}
	if waiting == 0 {
		return nil
	}
	again := slices.DeleteFunc(changes, func(c change) bool { return c.again })
	for i := range again {
		again[i].due, again[i].again = time.Now().Add(wakeAgain), true
	}
	return again
}

// noteWoken notes up to where everybody was woken.
func (f *Follower) noteWoken(ctx context.Context, marks []int64) {
	if slices.Equal(marks, f.noted) {
		return
	}
	if _, err := patience.Ask(ctx, storePatience, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, f.cfg.Marks.NoteWoken(ctx, marks)
	}); err != nil {
		f.cfg.Log.DebugContext(ctx, "could not note whose notifications were rescheduled; the next process to start reschedules them again",
			"error", err)
		return
	}
	f.noted = marks
}
