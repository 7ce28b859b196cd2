package postgres

import "context"

// hurrySQL lets retries be claimed at once.
const hurrySQL = `UPDATE pacer.notifications SET not_before = admitted_at
	WHERE id = ANY ($1) AND status = 'retrying' AND not_before > admitted_at`

// Hurry lets notifications be tried again at once that wait for their next try. The agendas learn of it later, and
// until then grant none of them.
func (s *Store) Hurry(ctx context.Context, ids []string) error {
	if _, err := s.changes.Exec(ctx, hurrySQL, ids); err != nil {
		return describe("let notifications be tried again at once", err)
	}
	return nil
}
