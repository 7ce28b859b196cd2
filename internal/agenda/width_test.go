package agenda_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// wideLimit is more commands than any round runs: those for what it grants and looks at, and two for each category.
func wideLimit(categories int) int { return scriptLimit*commandsPerEntry + 2*categories }

// However many categories a user has, with however many rules, under whatever caps: a round does a bounded work, and
// what goes, when and in which order is the same as if one round did it all.
func TestARoundIsBoundedForAnyUser(t *testing.T) {
	t.Parallel()
	boundless := func(source string) string {
		return strings.Replace(source, "local BUDGET, LOOKS = 100, 400\n", "local BUDGET, LOOKS = 100, 1e9\n", 1)
	}
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			seed := seed + rand.Uint64()>>8
			granted, most, categories := playWide(t, seed, sound)
			if limit := wideLimit(categories); most > limit {
				t.Errorf("seed %d: a round of %d categories ran %d commands, more than %d", seed, categories, most, limit)
			}
			t.Logf("%d categories, at most %d commands in a round, %d granted", categories, most, len(granted))
			want, _, _ := playWide(t, seed, boundless)
			if diff := cmp.Diff(want, granted); diff != "" || len(want) == 0 {
				t.Errorf("seed %d: %d are granted, in another order than in rounds without a bound:\n%s", seed, len(want), diff)
			}
		})
	}
}

// playWide plays ten seconds of one who has many categories, and returns what was granted, when, and the most commands
// that a round ran.
func playWide(t *testing.T, seed uint64, change func(string) string) (granted []string, most, categories int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, t, redistest.Start(t).Client(t), agenda.Settings{})
	if err := w.store.UseClockKeyWith(change); err != nil {
		t.Fatal(err)
	}
	categories = 1 + r.IntN(400)
	caps := []throttle.Rule{
		{Max: 1 + r.IntN(900), Per: time.Hour, Kind: throttle.KindCap},
		{Max: 1 + r.IntN(300), Per: time.Minute, Kind: throttle.KindNamed, Cap: "some", Channels: "fcm"},
	}[:r.IntN(3)]
	var entries []agenda.Entry
	for n := range categories {
		var rules []throttle.Rule
		for range 1 + r.IntN(8) {
			per := time.Duration(1+r.IntN(90_000)) * time.Millisecond
			rules = append(rules, throttle.Rule{Max: 1 + r.IntN(2), Per: per})
		}
		category := fmt.Sprint("c", n)
		plan := throttle.Plan{Rules: append(rules, caps...)}
		w.settings[category] = agenda.Settings{MaxDefer: 24 * time.Hour, Plan: plan}
		for i := range 1 + r.IntN(3) {
			entries = append(entries, agenda.Entry{
				ID: fmt.Sprint(category, ".", i), UserID: "ada", Category: category,
				Priority: notification.Priority(1 + r.IntN(4)), Payload: agenda.OnChannel(programChannels[r.IntN(4)]),
			})
		}
	}
	for i := range 200 { // what has no limits of its own goes beside them
		entries = append(entries, agenda.Entry{
			ID: fmt.Sprint("free.", i), UserID: "ada", Category: "free", Priority: notification.PriorityLow,
			Payload: agenda.OnChannel("email"),
		})
	}
	r.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	w.acceptAll(entries)
	for at, queues, found := w.next(); found && at.Before(start.Add(10*time.Second)); at, queues, found = w.next() {
		if at.After(w.now) {
			queues = w.advance(at.Sub(w.now))
		}
		for partition, q := range queues {
			if w.asks(partition, q) {
				most = max(most, w.workOf("take", func() { w.round(partition, 32) }).commands)
			}
		}
		for len(w.grants) > 0 {
			g := w.grants[0]
			granted = append(granted, fmt.Sprint(g.Notification.ID, " at ", g.AdmittedAt.UnixMicro()))
			w.settle(delivered)
		}
	}
	return granted, most, categories
}
