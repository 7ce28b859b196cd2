package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/outbox"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
)

// preferencesTable is the part of the store that keeps users' preferences.
type preferencesTable struct {
	stores *seam.Stores
	ends   *outbox.Ends
}

// preferencesColumns are those of a user's preferences, as scanPreferences reads them.
const preferencesColumns = `opt_out_categories, opt_out_channels, limits, time_zone, quiet_hours, quiet_until,
	updated_at, change`

// scanPreferences reads preferencesColumns, after other columns.
func scanPreferences(row pgx.CollectableRow, p *notification.Preferences, before ...any) error {
	var limits, hours []byte
	var until *time.Time
	err := row.Scan(append(before, &p.OptOutCategories, &p.OptOutChannels, &limits, &p.TimeZone, &hours, &until,
		&p.UpdatedAt, &p.Version)...)
	if err != nil {
		return err
	}
	p.QuietHours, p.QuietUntil = hours, columns.Moment(until)
	if err := json.Unmarshal(limits, &p.Limits); err != nil {
		return fmt.Errorf("read a user's own limits: %w", err)
	}
	return nil
}

// Preferences returns the preferences of a user, or the zero value when there are none.
func (t *preferencesTable) Preferences(ctx context.Context, userID string) (*notification.Preferences, error) {
	p := &notification.Preferences{}
	rows, err := t.stores.Pool.Query(ctx, "SELECT "+preferencesColumns+" FROM pacer.preferences WHERE user_id = $1", userID)
	if err == nil {
		_, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (struct{}, error) {
			return struct{}{}, scanPreferences(row, p)
		})
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, limited.Describe("look up a user's preferences", err)
	}
	return p, nil
}

// setPreferencesSQL replaces the preferences of users: those of one version, even by the same; or whatever they are.
// Then those that are the same already stay as they are: nobody has to look at them again. It returns when each was
// changed last, and whether it is now. Parameters: the preferences, the version (−1 for any, 0 for none).
const setPreferencesSQL = `
WITH wanted AS (
	SELECT * FROM jsonb_to_recordset($1) AS a(user_id text COLLATE "C", opt_out_categories text[],
		opt_out_channels text[], limits jsonb, time_zone text, quiet_hours jsonb, quiet_until timestamptz)
), written AS (
	INSERT INTO pacer.preferences AS p (user_id, opt_out_categories, opt_out_channels, limits, time_zone, quiet_hours,
		quiet_until)
	SELECT user_id, opt_out_categories, opt_out_channels, limits, time_zone, quiet_hours, quiet_until FROM wanted a
	WHERE $2::bigint <= 0 OR EXISTS (SELECT FROM pacer.preferences p WHERE p.user_id = ANY (ARRAY[a.user_id]))
	ON CONFLICT (user_id) DO UPDATE SET opt_out_categories = excluded.opt_out_categories,
		opt_out_channels = excluded.opt_out_channels, limits = excluded.limits, time_zone = excluded.time_zone,
		quiet_hours = excluded.quiet_hours, quiet_until = excluded.quiet_until, updated_at = clock_timestamp()
	WHERE p.change = $2::bigint OR $2::bigint < 0 AND
		(p.opt_out_categories, p.opt_out_channels, p.limits, p.time_zone, p.quiet_hours, p.quiet_until)
		IS DISTINCT FROM (excluded.opt_out_categories, excluded.opt_out_channels, excluded.limits, excluded.time_zone,
		excluded.quiet_hours, excluded.quiet_until)
	RETURNING p.user_id, p.updated_at, p.change
)
SELECT user_id, updated_at, change, true FROM written
UNION ALL
SELECT p.user_id, p.updated_at, p.change, false FROM wanted a JOIN pacer.preferences p ON p.user_id = ANY (ARRAY[a.user_id])
	WHERE a.user_id NOT IN (SELECT user_id FROM written)`

// wantedRow is a user's preferences as setPreferencesSQL reads them.
type wantedRow struct {
	UserID     string                     `json:"user_id"`
	Categories []string                   `json:"opt_out_categories"`
	Channels   []string                   `json:"opt_out_channels"`
	Limits     map[string]json.RawMessage `json:"limits"`
	TimeZone   string                     `json:"time_zone"`
	QuietHours json.RawMessage            `json:"quiet_hours,omitempty"`
	QuietUntil *time.Time                 `json:"quiet_until,omitempty"`
}

// wantedRowOf makes the row of a user's preferences.
func wantedRowOf(userID string, p *notification.Preferences) wantedRow {
	row := wantedRow{
		UserID: userID, Categories: append([]string{}, p.OptOutCategories...),
		Channels: append([]string{}, p.OptOutChannels...), Limits: p.Limits, TimeZone: p.TimeZone,
		QuietHours: p.QuietHours, QuietUntil: columns.Timestamp(p.QuietUntil),
	}
	if row.Limits == nil {
		row.Limits = map[string]json.RawMessage{}
	}
	return row
}

// SetPreferences replaces the preferences of a user that have still the version that was read, and cancels waiting
// notifications that they opt out of.
func (t *preferencesTable) SetPreferences(
	ctx context.Context, userID string, p *notification.Preferences, was int64,
) error {
	return t.setPreferences(ctx, map[string]*notification.Preferences{userID: p}, was)
}

// SetManyPreferences replaces the preferences of some users, of all or of none, and cancels waiting notifications that
// they opt out of. It may be repeated.
func (t *preferencesTable) SetManyPreferences(ctx context.Context, of map[string]*notification.Preferences) error {
	return t.setPreferences(ctx, of, notification.AnyVersion)
}

func (t *preferencesTable) setPreferences(
	ctx context.Context, of map[string]*notification.Preferences, was int64,
) error {
	rows, written := make([]wantedRow, 0, len(of)), 0
	for userID, p := range of {
		rows = append(rows, wantedRowOf(userID, p))
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("write users' preferences: %w", err)
	}
	err = t.stores.Changes.Query(ctx, setPreferencesSQL, func(rows pgx.Rows) error {
		var userID string
		var at time.Time
		var version int64
		var now bool
		_, err := pgx.ForEachRow(rows, []any{&userID, &at, &version, &now}, func() error {
			if of[userID].UpdatedAt, of[userID].Version = at, version; now {
				written++
			}
			return nil
		})
		return err
	}, text, was)
	if err != nil {
		return limited.Describe("write users' preferences", err)
	}
	if was != notification.AnyVersion && written == 0 {
		return notification.ErrPreferencesChanged
	}
	for userID, p := range of {
		if len(p.OptOutCategories)+len(p.OptOutChannels) == 0 {
			continue
		}
		if err := t.cancelOptedOut(ctx, userID); err != nil {
			return err
		}
	}
	return nil
}

// ClearPreferences removes the preferences of a user. The emptied row stays, so that every process sees the change.
func (t *preferencesTable) ClearPreferences(ctx context.Context, userID string) error {
	_, err := t.stores.Changes.Exec(ctx,
		`UPDATE pacer.preferences SET opt_out_categories = '{}', opt_out_channels = '{}', limits = '{}',
		time_zone = '', quiet_hours = NULL, quiet_until = NULL, updated_at = clock_timestamp() WHERE user_id = $1`, userID)
	if err != nil {
		return limited.Describe("remove a user's preferences", err)
	}
	return nil
}

// PreferencesParts implements the source of changed preferences: the database is one part.
func (t *preferencesTable) PreferencesParts() int { return 1 }

// ChangedPreferences lists the users whose latest change has a number from `from` on, in order.
func (t *preferencesTable) ChangedPreferences(
	ctx context.Context, from []int64, limit int,
) []notification.PreferencesPage {
	changes, err := t.changedPreferences(ctx, from[0], limit)
	if err != nil {
		return []notification.PreferencesPage{{Err: limited.Describe("read the changed preferences", err)}}
	}
	return []notification.PreferencesPage{{Changes: changes}}
}

// changedPreferences is [Store.ChangedPreferences] of the only part.
func (t *preferencesTable) changedPreferences(ctx context.Context, from int64, limit int,
) ([]notification.PreferencesChange, error) {
	rows, err := t.stores.Pool.Query(ctx, "SELECT user_id, "+preferencesColumns+
		" FROM pacer.preferences WHERE change >= $1 ORDER BY change LIMIT $2", from, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c notification.PreferencesChange, err error) {
		return c, scanPreferences(row, &c.Preferences, &c.UserID)
	})
}

// optOutSQL adds a category to those that a user does not want, and leaves everything else as it is.
const optOutSQL = `
INSERT INTO pacer.preferences AS p (user_id, opt_out_categories) VALUES ($1, ARRAY[$2])
ON CONFLICT (user_id) DO UPDATE SET opt_out_categories = p.opt_out_categories || excluded.opt_out_categories,
	updated_at = clock_timestamp()
WHERE NOT p.opt_out_categories @> excluded.opt_out_categories`

// OptOut adds a category to those that a user does not want, and cancels what waits of it. It may be repeated, and is
// after an error: then what the first time left waiting is cancelled.
func (t *preferencesTable) OptOut(ctx context.Context, userID, category string) error {
	if _, err := t.stores.Changes.Exec(ctx, optOutSQL, userID, category); err != nil {
		return limited.Describe("opt a user out of a category", err)
	}
	return t.cancelOptedOut(ctx, userID)
}

// OptIn removes a category from those that a user does not want.
func (t *preferencesTable) OptIn(ctx context.Context, userID, category string) error {
	_, err := t.stores.Changes.Exec(ctx, `UPDATE pacer.preferences SET updated_at = clock_timestamp(),
		opt_out_categories = array_remove(opt_out_categories, $2) WHERE user_id = $1 AND $2 = ANY (opt_out_categories)`,
		userID, category)
	if err != nil {
		return limited.Describe("take back that a user opted out of a category", err)
	}
	return nil
}

// waitingOptedOutSQL lists the notifications of a user that have not ended, and that the user has opted out of.
const waitingOptedOutSQL = `
SELECT n.id FROM pacer.notifications n
WHERE n.user_id = $1 AND n.status IN ('waiting', 'retrying', 'sending') AND ` + columns.OptedOutSQL

// cancelOptedOut cancels the waiting notifications that the user has opted out of.
func (t *preferencesTable) cancelOptedOut(ctx context.Context, userID string) error {
	rows, err := t.stores.Pool.Query(ctx, waitingOptedOutSQL, userID)
	_, err = endListed(ctx, t.ends, rows, err, notification.ReasonOptedOut)
	return err
}
