package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// readyTimeout bounds how long a connection is made ready.
const readyTimeout = 10 * time.Second

// readier makes a connection ready to accept after an accept was too late. Such an accept leaves its connection closed,
// and the next one has to connect and to prepare its statement within its time-out. With a slow Postgres it would be
// too late again, and so on. The readier does this in the background, with more time.
type readier struct {
	pool    *pgxpool.Pool
	working atomic.Bool
	work    sync.WaitGroup
	ctx     context.Context //nolint:containedctx // ends with the store, which outlives every call
	cancel  context.CancelFunc
}

func newReadier(pool *pgxpool.Pool) *readier {
	ctx, cancel := context.WithCancel(context.Background())
	return &readier{pool: pool, ctx: ctx, cancel: cancel}
}

// begin makes one connection ready, unless one is being made so. It goes on when ctx has ended.
func (r *readier) begin(ctx context.Context) {
	if !r.working.CompareAndSwap(false, true) {
		return
	}
	r.work.Go(func() {
		defer r.working.Store(false)
		ctx, cancel := limited.Bounded(ctx, readyTimeout)
		defer cancel()
		defer context.AfterFunc(r.ctx, cancel)() //nolint:contextcheck // the store may end first
		// The statements run for no notification at all: the driver prepares them for that, and the pool gives the
		// connection that was used last to whoever comes next. When this fails, the next late accept begins it again.
		var accepts pgx.Batch
		accepts.Queue(insertSQL, append(columns.GivenArgs(nil), "no")...)
		accepts.Queue(viewsSQL, []string{})
		accepts.Queue(holdersSQL, []string{})
		_ = r.pool.SendBatch(ctx, &accepts).Close()
	})
}

// close ends what is under way.
func (r *readier) close() {
	r.cancel()
	r.work.Wait()
}
