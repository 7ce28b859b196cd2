package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// searchBatch is how many notifications are compared at a time.
const searchBatch = 5000

// Difference is one way in which Redis is not what the database says.
type Difference struct {
	// What is "missing": waits in the database and Redis does not know it; "surplus": stands in line in Redis and has ended;
	// "window": Redis does not count an admission that it should.
	What string
	// ID of the notification, or the mailbox of the window as category:user.
	ID string
	// Detail says more, for people.
	Detail string
}

// Verify compares Redis with the database, and gives every difference. While the deployment works, what changes meanwhile
// may show as one: a difference counts when it stays.
func (l *Relay) Verify(ctx context.Context) ([]Difference, error) {
	missing, err := l.missing(ctx)
	if err != nil {
		return nil, err
	}
	surplus, err := l.surplus(ctx)
	if err != nil {
		return nil, err
	}
	windows, err := l.uncounted(ctx)
	return slices.Concat(missing, surplus, windows), err
}

// missing finds what waits in the database and is unknown to Redis.
func (l *Relay) missing(ctx context.Context) ([]Difference, error) {
	rows, err := l.record.pool.Query(ctx, "SELECT id, user_id, status FROM pacer.notifications WHERE ended_at IS NULL")
	if err != nil {
		return nil, describe("read what waits", err)
	}
	var ids, users, statuses []string
	var id, user, status string
	if _, err := pgx.ForEachRow(rows, []any{&id, &user, &status}, func() error {
		ids, users, statuses = append(ids, id), append(users, user), append(statuses, status)
		return nil
	}); err != nil {
		return nil, describe("read what waits", err)
	}
	var found []Difference
	for from := 0; from < len(ids); from += searchBatch {
		to := min(from+searchBatch, len(ids))
		known, err := l.record.boxes.Knows(ctx, users[from:to], ids[from:to])
		if err != nil {
			return nil, err
		}
		for i, ok := range known {
			if !ok {
				found = append(found, Difference{"missing", ids[from+i], "is " + statuses[from+i] + " in Postgres, unknown to Redis"})
			}
		}
	}
	return found, nil
}

// surplus finds what stands in line in Redis and has ended, or never was.
func (l *Relay) surplus(ctx context.Context) ([]Difference, error) {
	var found []Difference
	err := l.record.boxes.EachWaiting(ctx, searchBatch, func(ids []string) error {
		rows, err := l.record.pool.Query(ctx, `SELECT w.id, coalesce(n.status, 'unknown') FROM unnest($1::text[]) AS w(id)
			LEFT JOIN pacer.notifications n USING (id) WHERE n.id IS NULL OR n.ended_at IS NOT NULL`, ids)
		if err != nil {
			return describe("look up what stands in line", err)
		}
		var id, status string
		_, err = pgx.ForEachRow(rows, []any{&id, &status}, func() error {
			found = append(found, Difference{"surplus", id, "waits in Redis, is " + status + " in Postgres"})
			return nil
		})
		return err
	})
	return found, err
}

// uncounted finds admissions that a log should hold and does not. Counters hold no moments and are not compared.
func (l *Relay) uncounted(ctx context.Context) ([]Difference, error) {
	now, err := l.record.boxes.Now(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := l.record.pool.Query(ctx, windowsSQL, now.Add(-l.cfg.Windows()).UnixMicro())
	if err != nil {
		return nil, describe("read the admissions", err)
	}
	admitted := map[dispatch.Mailbox][]throttle.Micros{}
	var user, category string
	var at int64
	if _, err := pgx.ForEachRow(rows, []any{&user, &category, &at}, func() error {
		box := dispatch.MailboxOf(user, category, l.record.boxes.Lanes())
		admitted[box] = append(admitted[box], throttle.Micros(at))
		return nil
	}); err != nil {
		return nil, describe("read the admissions", err)
	}
	var found []Difference
	for box, moments := range admitted {
		difference, err := l.compareWindow(ctx, box, moments, throttle.MicrosOf(now))
		if err != nil {
			return nil, err
		}
		if difference != nil {
			found = append(found, *difference)
		}
	}
	return found, nil
}

func (l *Relay) compareWindow(ctx context.Context, box dispatch.Mailbox, moments []throttle.Micros, now throttle.Micros) (*Difference, error) {
	plan := l.record.boxes.PlanOf(box.UserID, box.Category)
	if plan.Algorithm != throttle.Rolling || len(plan.Rules) == 0 {
		return nil, nil //nolint:nilnil // nothing to compare, no fault
	}
	in, err := l.record.boxes.Inspect(ctx, box, 0)
	if err != nil {
		return nil, err
	}
	missing := 0
	for _, rule := range plan.Rules {
		newest := moments[max(0, len(moments)-rule.Max):]
		lacks := 0
		for _, at := range newest {
			if now.Sub(at) < rule.Per && !slices.Contains(in.Admitted, at) {
				lacks++
			}
		}
		missing = max(missing, lacks)
	}
	if missing == 0 {
		return nil, nil //nolint:nilnil // the same, no fault
	}
	return &Difference{"window", box.Category + ":" + box.UserID, fmt.Sprintf("%d admissions are not counted in Redis", missing)}, nil
}
