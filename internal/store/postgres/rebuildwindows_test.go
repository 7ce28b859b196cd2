package postgres_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// late is a hook that holds the script with the oldest admission of a user until another one about the user has run, if
// one comes: whatever does not wait for it overtakes it. It notes the most arguments that a script had.
type late struct {
	user, oldest string
	ran          chan struct{} // gets one for each other script, as far as there is room

	mu   sync.Mutex
	most int
}

// DialHook implements [goredis.Hook].
func (l *late) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessPipelineHook implements [goredis.Hook].
func (l *late) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// ProcessHook implements [goredis.Hook].
func (l *late) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if !slices.Contains(cmd.Args(), any(l.user)) {
			return next(ctx, cmd)
		}
		l.mu.Lock()
		l.most = max(l.most, len(cmd.Args()))
		l.mu.Unlock()
		if slices.Contains(cmd.Args(), any(l.oldest)) {
			select {
			case <-l.ran:
			case <-time.After(100 * time.Millisecond): // none overtakes it
			case <-ctx.Done():
			}
			return next(ctx, cmd)
		}
		err := next(ctx, cmd)
		if err == nil {
			select {
			case l.ran <- struct{}{}:
			default:
			}
		}
		return err
	}
}

// A backlog's admissions are restored in their order, a hundred in a script. A category that counts them in
// windows or buckets would otherwise count what its limit no longer sees.
func TestRebuildRestoresAWindowInOrder(t *testing.T) {
	t.Parallel()
	for name, algorithm := range map[string]throttle.Algorithm{
		"FixedWindow": throttle.FixedWindow, "TokenBucket": throttle.TokenBucket, "Rolling": throttle.Rolling,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redistest.Client(t)
			w := newWorldWith(t, client, agenda.Config{
				MaxCrashes: 1000,
				Settings: func(string, string) agenda.Settings {
					return agenda.Settings{MaxDefer: 48 * time.Hour, Plan: throttle.Plan{
						Algorithm: algorithm, Rules: []throttle.Rule{{Max: 5, Per: 24 * time.Hour}},
					}}
				},
			})
			relay := relay.New(w.store.Stores, relay.Config{
				Check:   func(*notification.Notification) error { return nil },
				Windows: func(string) time.Duration { return 30 * 24 * time.Hour },
			})
			w.exec(t, `INSERT INTO pacer.attempts
					(notification_id, generation, attempt, user_id, category, admitted_at, outcome)
				SELECT 'n' || i, 1, 1, 'ada', 'chat', (extract(epoch FROM now() - CASE WHEN i <= 5000
					THEN interval '20 days' - i * interval '4 minutes'
					ELSE interval '1 hour' - (i - 5000) * interval '1 minute' END) * 1000000)::bigint, 'delivered'
				FROM generate_series(1, 5003) i`)
			script := &late{user: "ada", ran: make(chan struct{}, 1)}
			if err := w.pool.QueryRow(t.Context(), "SELECT min(admitted_at)::text FROM pacer.attempts").
				Scan(&script.oldest); err != nil {
				t.Fatal(err)
			}
			client.AddHook(script)
			rebuilt, err := relay.Rebuild(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if rebuilt.Windows != 1 {
				t.Errorf("the windows of %d backlogs were restored, want 1", rebuilt.Windows)
			}
			if script.most > 200 {
				t.Errorf("a script had %d arguments", script.most)
			}
			w.accept(t, "ada", "chat", 3)
			if got := w.deliverAll(t); len(got) != 2 { // five in 24 hours, and three went in the last hour
				t.Errorf("%d went after the rebuild, want 2", len(got))
			}
		})
	}
}
