package chaos_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/preferences"
)

// homes is the store of where the users live: here or elsewhere. It is always there and answers at once; what processes
// do about a change may fail as all else.
type homes struct {
	mu    sync.Mutex
	moves []moved // all of them, by number
	woken []int64
}

// moved is a move, and who lives elsewhere from then on.
type moved struct {
	notification.PreferencesChange

	at   time.Time
	away map[string]bool
}

// PreferencesParts implements [preferences.Source].
func (h *homes) PreferencesParts() int { return 1 }

// ChangedPreferences implements [preferences.Source]: it lists each user by the latest move.
func (h *homes) ChangedPreferences(_ context.Context, from []int64, limit int) []notification.PreferencesPage {
	h.mu.Lock()
	defer h.mu.Unlock()
	latest := map[string]int64{}
	for _, m := range h.moves {
		latest[m.UserID] = m.Version
	}
	var page []notification.PreferencesChange
	for _, m := range h.moves {
		if m.Version >= from[0] && latest[m.UserID] == m.Version && len(page) < limit {
			page = append(page, m.PreferencesChange)
		}
	}
	return []notification.PreferencesPage{{Changes: page}}
}

// Woken implements [preferences.Marks].
func (h *homes) Woken(context.Context) ([]int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.woken), nil
}

// NoteWoken implements [preferences.Marks].
func (h *homes) NoteWoken(_ context.Context, marks []int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.woken = slices.Clone(marks)
	return nil
}

// write writes down where a user lives.
func (h *homes) write(user string, away bool) {
	before := h.at(time.Now())
	if before[user] == away {
		return
	}
	after := maps.Clone(before)
	after[user] = away
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moves = append(h.moves, moved{
		notification.PreferencesChange{
			UserID: user, Preferences: notification.Preferences{Version: int64(len(h.moves) + 1)},
		}, time.Now(), after,
	})
}

// at tells who lived elsewhere at a moment.
func (h *homes) at(moment time.Time) map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range slices.Backward(h.moves) {
		if !m.at.After(moment) {
			return m.away
		}
	}
	return map[string]bool{}
}

// followed reports whether somebody has looked at everybody again who moved.
func (h *homes) followed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.moves) == 0 || len(h.woken) > 0 && h.woken[0] >= int64(len(h.moves))
}

// knowsWithin is how soon a process knows that somebody has moved. Each looks every 250 ms, and whoever looks at the
// user again does so once more 1.5 s later, for what one decided meanwhile that did not know and died.
const knowsWithin = time.Second

// followHomes has a process that starts know where the users live. It looks at those again whom those before it left.
func (p *process) followHomes() error {
	p.homes = preferences.NewFollower(&p.w.homes, preferences.Config{
		Agendas: p.agendas, Marks: &p.w.homes, Log: slog.New(slog.DiscardHandler),
	})
	return p.homes.Load(p.ctx)
}

// readHomes has the process know where the users lived some time ago, if it does not know what is newer.
func (p *process) readHomes(ago time.Duration) {
	moment := time.Now().Add(-ago)
	away := p.w.homes.at(moment)
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	known := p.knowledge()
	if moment.After(known.read) && !maps.Equal(known.away, away) {
		p.learns(knowledge{version: known.version, away: away, read: moment})
	}
}

// move has a user live elsewhere, or at home again. The process that writes it down knows it at once.
func (p *process) move(ctx context.Context, user string, away bool) {
	p.w.homes.write(user, away)
	p.followUsers(ctx)
}

// followUsers has the process know where the users live, and look at those again who moved.
func (p *process) followUsers(ctx context.Context) {
	p.readHomes(0)
	if p.w.mutation == "who moves is not looked at again" {
		return
	}
	p.alone("follow users", func(ctx context.Context, _ *operation) { p.homes.Look(ctx) })(ctx, nil)
}
