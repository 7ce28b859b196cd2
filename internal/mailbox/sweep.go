package mailbox

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// Sweep repairs a lane: gives notifications back whose lease has ended, ends those that expired, and replaces ticks that
// were lost. It is safe in any number of processes at once.
func (s *Store) Sweep(ctx context.Context, lane int) (dispatch.Repairs, error) {
	tasks := tasksPrefix(lane)
	reply, err := s.run(ctx, s.sweep, lane, []any{
		tasks, rand.Text()[:12], s.retention, s.grace,
		strconv.Itoa(s.cfg.MaxCrashes), strconv.Itoa(scriptLimit), micros(s.cfg.Truce),
	})
	if err != nil {
		return dispatch.Repairs{}, fmt.Errorf("sweep lane %d: %w", lane, lost(err))
	}
	r := reader{fields: reply}
	swept := dispatch.Repairs{LeasesEnded: int(r.number(0)), Expired: int(r.number(1)), Woken: int(r.number(2)), More: r.number(3) == 1}
	if len(reply)%3 != 2 {
		return dispatch.Repairs{}, fmt.Errorf("sweep lane %d: the script answered %d fields", lane, len(reply))
	}
	elsewhere := r.list(4)
	for i := 0; i+1 < len(elsewhere.fields); i += 2 {
		n, err := strconv.ParseInt(elsewhere.text(i+1), 10, 64)
		if err != nil {
			return dispatch.Repairs{}, fmt.Errorf("sweep lane %d: what other processes accepted: %w", lane, err)
		}
		swept.Accepted = append(swept.Accepted, dispatch.Accepted{Category: elsewhere.text(i), Count: n})
	}
	for i := 5; i+2 < len(reply); i += 3 {
		swept.Ticks = append(swept.Ticks, dispatch.Tick{
			ID: r.text(i), Mailbox: dispatch.Mailbox{Lane: lane, Category: r.text(i + 1), UserID: r.text(i + 2)},
		})
	}
	return swept, r.fault
}

// Clear forgets the windows of a mailbox and of its user's cap. It returns the tick to be put into the queue when
// something waits there, which may now go.
func (s *Store) Clear(ctx context.Context, box dispatch.Mailbox) (*dispatch.Tick, error) {
	return s.wake(ctx, box, true)
}

// Wake makes a mailbox ask again, because its terms may have changed. It returns the tick to be put into the queue, nil
// when nothing waits.
func (s *Store) Wake(ctx context.Context, box dispatch.Mailbox) (*dispatch.Tick, error) {
	return s.wake(ctx, box, false)
}

func (s *Store) wake(ctx context.Context, box dispatch.Mailbox, forget bool) (*dispatch.Tick, error) {
	tick, err := s.clear.Run(ctx, s.client, s.keys(box.Lane), box.Category, box.UserID, rand.Text()[:12], flag(forget), s.grace).Text()
	if err != nil {
		return nil, fmt.Errorf("wake the mailbox of category %s in lane %d: %w", box.Category, box.Lane, lost(err))
	}
	if tick == "" {
		return nil, nil //nolint:nilnil // nothing waits: no tick, no fault
	}
	return &dispatch.Tick{ID: tick, Mailbox: box}, nil
}
