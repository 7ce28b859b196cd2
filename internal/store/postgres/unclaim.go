package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/batch"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// unclaimSQL undoes claims under which nothing is sent, as a settlement does that returns a delivery. It needs no
// generation, because nobody knows the one of a claim whose reply was lost. It locks the rows first, and then looks at
// them: so it waits for a claim that is being committed, which it would not see otherwise.
const unclaimSQL = `
WITH locked AS MATERIALIZED (
	SELECT id, token, status FROM pacer.notifications WHERE id = ANY ($1) ORDER BY id FOR UPDATE
)
UPDATE pacer.notifications n SET status = 'waiting', claimed_until = NULL, attempts = n.attempts - 1,
	digest_id = CASE WHEN a.frozen THEN n.digest_id ELSE '' END
FROM locked l JOIN unnest($1::text[], $2::text[], $3::bool[]) AS a(id, token, frozen)
	ON l.id = a.id AND l.token = a.token
WHERE n.id = ANY (ARRAY[l.id]) AND l.status = 'sending'`

// unclaim undoes the claim of a grant that may have been made, although its caller has seen it fail: Postgres may have
// committed it before the connection broke, or before the statement's time-out was heeded. Otherwise nobody would send
// the notification until the lease of that claim ends, and that would count as the crash of a worker. It tries for as
// long as a statement may take.
func (d *deliveries) unclaim(ctx context.Context, g *dispatch.Grant) error {
	ctx, cancel := limited.Bounded(ctx, d.stores.StatementTimeout)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, longestPause) {
		_, err := d.unclaims.Do(ctx, g)
		if err == nil {
			return nil
		}
		if errors.Is(err, batch.ErrClosed) || !wait(ctx, pause) {
			return fmt.Errorf("undo the claim, if it was made: %w", err)
		}
	}
}

// unclaimAll runs unclaimSQL.
func (d *deliveries) unclaimAll(ctx context.Context, grants []*dispatch.Grant) ([]struct{}, error) {
	ids, tokens, frozen := make([]string, len(grants)), make([]string, len(grants)), make([]bool, len(grants))
	for i, g := range grants {
		ids[i], tokens[i], frozen[i] = g.Notification.ID, columns.Token(g), g.Frozen
	}
	if _, err := d.stores.Changes.Impatient.Exec(ctx, unclaimSQL, ids, tokens, frozen); err != nil {
		return nil, limited.Describe("undo claims", err)
	}
	return make([]struct{}, len(grants)), nil
}
