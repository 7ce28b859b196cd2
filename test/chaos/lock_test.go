package chaos_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// locked plays a script; before its first move it locks the notifications, as the server's own cleaning may.
type locked struct {
	script

	lock func()
}

func (l *locked) next(w *world) (move, bool) {
	if l.lock != nil {
		w.database.outside.do(l.lock)
		l.lock = nil
	}
	return l.script.next(w)
}

// A COPY that waits for a lock which nobody of the world holds ends when the lock is free, or is cut. Its driver waits
// with a mutex, so that the world stands still meanwhile.
func TestACopyWaitsForALock(t *testing.T) {
	t.Parallel()
	st, ctx := newStage(t), t.Context()
	conn, err := pgx.Connect(ctx, st.database.config.ConnString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	freed := make(chan error, 1)
	free := func() {
		for {
			var waits bool
			err := conn.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_locks WHERE NOT granted`).Scan(&waits)
			if err != nil || waits {
				<-time.After(20 * time.Millisecond) // it has been seen waiting by then
				_, unlocked := conn.Exec(ctx, "ROLLBACK")
				freed <- unlocked
				return
			}
		}
	}
	moves := &locked{lock: func() {
		if _, err := conn.Exec(ctx, "BEGIN; LOCK TABLE pacer.notifications IN SHARE MODE"); err != nil {
			freed <- err
			return
		}
		go free()
	}, script: script{[]move{
		{Do: "accept", Op: 1, Items: []item{
			{ID: "n1", User: "ben", Category: "chat", Priority: 3},
			{ID: "n2", User: "ben", Category: "chat", Priority: 3},
		}},
		{Do: "go", Op: 1, N: 1000},
	}}}
	inBubble(t, func(t *testing.T) {
		p, err := st.play(setting{Seed: 1, Durable: true, Procs: 1, Max: 3, Per: 2, Gap: 1, Cap: 6, CapPer: 2}, moves)
		if err != nil || len(p.broken) > 0 {
			t.Errorf("%v, broken: %v", err, p.broken)
		}
	})
	if err := <-freed; err != nil {
		t.Error(err)
	}
}
