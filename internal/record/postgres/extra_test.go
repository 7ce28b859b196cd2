package postgres_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/redistest"
)

// A grant whose claim is declined or fails is not used, but the mailbox counts on the extra tick that came with it.
func TestExtraTickOfAGrantThatIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil string
		fails bool
	}{
		"Declined": {"UPDATE pacer.notifications SET status = 'cancelled', ended_at = now() WHERE id = 'ada-free-0'", false},
		"Failed":   {"ALTER TABLE pacer.preferences RENAME TO away", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Client(t))
			ticks := w.accept(t, "ada", "free", 2)
			// The tick of the second was lost: the line needs another.
			if n, err := w.redis.ZRem(t.Context(), w.prefix()+"t:free:ada", ticks[1].ID).Result(); err != nil || n != 1 {
				t.Fatalf("%d ticks, %v", n, err)
			}
			w.exec(t, c.spoil)
			answer, err := w.record.Take(t.Context(), dispatch.Question{Tick: ticks[0], Nonce: "a", Pulled: true})
			if answer.Grant != nil || (err != nil) != c.fails {
				t.Fatalf("answered %+v, %v", answer, err)
			}
			if answer.Extra == nil || answer.Extra.Tick.Mailbox != ticks[0].Mailbox {
				t.Errorf("the extra tick is %+v", answer.Extra)
			}
		})
	}
}
