package postgres

import (
	"context"

	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// hurrySQL lets retries be claimed at once.
const hurrySQL = `UPDATE pacer.notifications SET not_before = admitted_at
	WHERE id = ANY ($1) AND status = 'retrying' AND not_before > admitted_at`

// Hurry lets notifications be tried again at once that wait for their next try. The agendas learn of it later, and
// until then grant none of them.
func (d *deliveries) Hurry(ctx context.Context, ids []string) error {
	if _, err := d.stores.Changes.Exec(ctx, hurrySQL, ids); err != nil {
		return limited.Describe("let notifications be tried again at once", err)
	}
	return nil
}
