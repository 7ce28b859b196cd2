// Package stream reads what the checker, the verification and the rebuild compare or restore: the admissions of all
// users, and what has not ended, page by page, in bounded memory.
package stream

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/throttle"
)

const (
	// streamUsers is of how many users a statement reads admissions, streamFirst how many of each. Of users who have
	// more, streamMore are read at a time.
	streamUsers, streamFirst, streamMore = 100, 100, 5000

	// admittedUsersSQL returns the next $2 users after $1 who were ever admitted. It goes from one to the next in the
	// index, whatever each has.
	admittedUsersSQL = `
WITH RECURSIVE next AS (
	(SELECT user_id, 1 AS place FROM pacer.attempts WHERE user_id > $1 ORDER BY user_id LIMIT 1)
	UNION ALL
	SELECT a.user_id, next.place + 1 FROM next CROSS JOIN LATERAL (
		SELECT user_id FROM pacer.attempts WHERE user_id > next.user_id ORDER BY user_id LIMIT 1
	) a WHERE next.place < $2
)
SELECT user_id FROM next`

	// admissionsSQL returns the admissions until $3 of users, each after the moment beside the user: of each user the
	// first $4, and those of the same moment as the last. An attempt that has not ended yet has no row.
	admissionsSQL = `
SELECT a.notification_id, a.user_id, a.category, a.admitted_at, coalesce(` + columns.PlaceSQL + `, 3), n.expires_at,
	coalesce(n.channel, ''), a.policy_version, a.zone
FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS f(user_id, since, place) CROSS JOIN LATERAL (
	SELECT * FROM pacer.attempts a WHERE (a.user_id, a.admitted_at) > (f.user_id, f.since)
		AND (a.user_id, a.admitted_at) <= (f.user_id, $3) AND a.counted
	ORDER BY a.user_id, a.admitted_at FETCH FIRST $4 ROWS WITH TIES
) a LEFT JOIN pacer.notifications n ON n.id = ANY (ARRAY[a.notification_id])
ORDER BY f.place, a.admitted_at`
)

// Admission is one that a window may still hold.
type Admission struct {
	invariant.Admission
	// Grant names the grant of a delivery in flight, see [agenda.GrantName]; empty for all others.
	Grant string
}

// Page is the next of a user's admissions, oldest first. Those of one moment come together. The last of several may
// be empty.
type Page struct {
	UserID   string
	Admitted []Admission
	Cleared  Cleared
	Last     bool // no more of the user follow
}

// Stream reads the admissions that windows may still hold, user by user in order. It holds one page, however many users
// there are, and however many admissions one of them has.
type Stream struct {
	db limited.Querier
	// Users gives up to streamUsers users who follow one, in order.
	Users func(ctx context.Context, after string) ([]string, error)
	// since is the moment after which the admissions of a user count, until the last that does.
	since func(userID string) throttle.Micros
	until throttle.Micros
	// InFlight are the deliveries in flight: no more than all workers have capacity for.
	InFlight []Admission
}

// Everyone is the stream of all users, each as far back from a moment as the user's windows.
func Everyone(db limited.Querier, now time.Time, windows func(userID string) time.Duration) *Stream {
	return &Stream{
		db: db, until: 1<<63 - 1,
		Users: func(ctx context.Context, after string) ([]string, error) {
			return collectUsers(db.Query(ctx, admittedUsersSQL, after, streamUsers))
		},
		since: func(userID string) throttle.Micros { return throttle.MicrosOf(now.Add(-windows(userID))) },
	}
}

func collectUsers(rows pgx.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, limited.Describe("read who was admitted", err)
	}
	users, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, limited.Describe("read who was admitted", err)
	}
	return users, nil
}

// Each calls do with each page.
func (s *Stream) Each(ctx context.Context, do func(Page) error) error {
	slices.SortFunc(s.InFlight, func(x, y Admission) int {
		return cmp.Or(cmp.Compare(x.UserID, y.UserID), cmp.Compare(x.At, y.At))
	})
	for after, more := "", true; more; {
		users, err := s.Users(ctx, after)
		if err != nil {
			return err
		}
		if more = len(users) == streamUsers; more {
			after = users[len(users)-1]
		}
		for _, a := range s.InFlight {
			if !more || a.UserID <= after {
				users = append(users, a.UserID)
			}
		}
		slices.Sort(users)
		if err := s.eachOf(ctx, slices.Compact(users), do); err != nil {
			return err
		}
	}
	return nil
}

// eachOf calls do with each page of some users.
func (s *Stream) eachOf(ctx context.Context, users []string, do func(Page) error) error {
	since := make([]throttle.Micros, len(users))
	for i, user := range users {
		since[i] = s.since(user)
	}
	cleared, err := clearedOf(ctx, s.db, users)
	if err != nil {
		return err
	}
	all, err := s.read(ctx, users, since, streamFirst)
	if err != nil {
		return err
	}
	for i, user := range users {
		n := slices.IndexFunc(all, func(a Admission) bool { return a.UserID != user })
		if n < 0 {
			n = len(all)
		}
		first := Page{UserID: user, Admitted: all[:n:n], Cleared: cleared[user], Last: n < streamFirst}
		if err := s.eachPage(ctx, first, since[i], do); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// eachPage calls do with the first page of a user and those that follow.
func (s *Stream) eachPage(ctx context.Context, p Page, since throttle.Micros, do func(Page) error) (err error) {
	for from := since; ; {
		if n := len(p.Admitted); n > 0 {
			from = p.Admitted[n-1].At
		}
		s.addInFlight(&p, since)
		if len(p.Admitted) > 0 || from > since {
			if err := do(p); err != nil {
				return err
			}
		}
		if p.Last {
			return nil
		}
		if p.Admitted, err = s.read(ctx, []string{p.UserID}, []throttle.Micros{from}, streamMore); err != nil {
			return err
		}
		p.Last = len(p.Admitted) < streamMore
	}
}

// addInFlight adds to a page those of the user's deliveries in flight that come before its end. They are left out of
// the stream then.
func (s *Stream) addInFlight(p *Page, since throttle.Micros) {
	read := len(p.Admitted)
	for len(s.InFlight) > 0 && s.InFlight[0].UserID == p.UserID &&
		(p.Last || s.InFlight[0].At <= p.Admitted[read-1].At) {
		if s.InFlight[0].At > since {
			p.Admitted = append(p.Admitted, s.InFlight[0])
		}
		s.InFlight = s.InFlight[1:]
	}
	slices.SortStableFunc(p.Admitted, func(x, y Admission) int { return cmp.Compare(x.At, y.At) })
}

// read reads the admissions of users, of each the first n after a moment of its own.
func (s *Stream) read(ctx context.Context, users []string, since []throttle.Micros, n int) ([]Admission, error) {
	rows, err := s.db.Query(ctx, admissionsSQL, users, since, int64(s.until), n)
	if err != nil {
		return nil, limited.Describe("read the admissions", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Admission, err error) {
		var expires *time.Time
		err = row.Scan(&a.ID, &a.UserID, &a.Category, &a.At, &a.Priority, &expires, &a.Channel, &a.Version, &a.Zone)
		a.ExpiresAt = columns.Moment(expires)
		return a, err
	})
	if err != nil {
		return nil, limited.Describe("read the admissions", err)
	}
	return all, nil
}
