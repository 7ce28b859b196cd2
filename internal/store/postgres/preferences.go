package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Preferences returns the preferences of a user, or the zero value when there are none.
func (r *Store) Preferences(ctx context.Context, userID string) (*notification.Preferences, error) {
	p := &notification.Preferences{}
	var limits []byte
	err := r.pool.QueryRow(ctx,
		`SELECT opt_out_categories, opt_out_channels, limits, time_zone, updated_at FROM pacer.preferences
		WHERE user_id = $1`, userID).Scan(&p.OptOutCategories, &p.OptOutChannels, &limits, &p.TimeZone, &p.UpdatedAt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return p, nil
	case err != nil:
		return nil, describe("look up a user's preferences", err)
	}
	if err := json.Unmarshal(limits, &p.Limits); err != nil {
		return nil, fmt.Errorf("read a user's own limits: %w", err)
	}
	return p, nil
}

// SetPreferences replaces the preferences of a user, and cancels waiting notifications that they opt out of.
func (r *Store) SetPreferences(ctx context.Context, userID string, p *notification.Preferences) error {
	limits := p.Limits
	if limits == nil {
		limits = map[string]json.RawMessage{}
	}
	text, err := json.Marshal(limits)
	if err != nil {
		return fmt.Errorf("write a user's own limits: %w", err)
	}
	categories, channels := append([]string{}, p.OptOutCategories...), append([]string{}, p.OptOutChannels...)
	err = r.pool.QueryRow(ctx, `
		INSERT INTO pacer.preferences (user_id, opt_out_categories, opt_out_channels, limits, time_zone)
			VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (user_id) DO UPDATE SET opt_out_categories = excluded.opt_out_categories,
			opt_out_channels = excluded.opt_out_channels, limits = excluded.limits, time_zone = excluded.time_zone,
			updated_at = clock_timestamp()
		RETURNING updated_at`, userID, categories, channels, text, p.TimeZone).Scan(&p.UpdatedAt)
	if err != nil {
		return describe("write a user's preferences", err)
	}
	if len(categories)+len(channels) == 0 {
		return nil
	}
	return r.cancelOptedOut(ctx, userID)
}

// ClearPreferences removes the preferences of a user. The emptied row stays, so that every process sees the change.
func (r *Store) ClearPreferences(ctx context.Context, userID string) error {
	_, err := r.pool.Exec(ctx,
		`UPDATE pacer.preferences SET opt_out_categories = '{}', opt_out_channels = '{}', limits = '{}',
		time_zone = '', updated_at = clock_timestamp() WHERE user_id = $1`, userID)
	if err != nil {
		return describe("remove a user's preferences", err)
	}
	return nil
}

// optOutSQL adds a category to those that a user does not want, and leaves everything else as it is.
const optOutSQL = `
INSERT INTO pacer.preferences AS p (user_id, opt_out_categories) VALUES ($1, ARRAY[$2])
ON CONFLICT (user_id) DO UPDATE SET opt_out_categories = p.opt_out_categories || excluded.opt_out_categories,
	updated_at = clock_timestamp()
WHERE NOT p.opt_out_categories @> excluded.opt_out_categories`

// OptOut adds a category to those that a user does not want, and cancels what waits of it. It may be repeated, and is
// after an error: then what the first time left waiting is cancelled.
func (r *Store) OptOut(ctx context.Context, userID, category string) error {
	if _, err := r.pool.Exec(ctx, optOutSQL, userID, category); err != nil {
		return describe("opt a user out of a category", err)
	}
	return r.cancelOptedOut(ctx, userID)
}

// OptIn removes a category from those that a user does not want.
func (r *Store) OptIn(ctx context.Context, userID, category string) error {
	_, err := r.pool.Exec(ctx, `UPDATE pacer.preferences SET updated_at = clock_timestamp(),
		opt_out_categories = array_remove(opt_out_categories, $2) WHERE user_id = $1 AND $2 = ANY (opt_out_categories)`,
		userID, category)
	if err != nil {
		return describe("take back that a user opted out of a category", err)
	}
	return nil
}

// optedOutSQL is true for a notification n whose user has opted out of its category or channel.
const optedOutSQL = `EXISTS (SELECT FROM pacer.preferences p WHERE p.user_id = ANY (ARRAY[n.user_id])
	AND (n.category = ANY (p.opt_out_categories) OR n.channel = ANY (p.opt_out_channels)))`

// waitingOptedOutSQL lists the notifications of a user that have not ended, and that the user has opted out of.
const waitingOptedOutSQL = `
SELECT n.id FROM pacer.notifications n
WHERE n.user_id = $1 AND n.status IN ('waiting', 'retrying', 'sending') AND ` + optedOutSQL

// cancelOptedOut cancels the waiting notifications that the user has opted out of.
func (r *Store) cancelOptedOut(ctx context.Context, userID string) error {
	rows, err := r.pool.Query(ctx, waitingOptedOutSQL, userID)
	if err != nil {
		return describe("look for what a user opted out of", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return describe("look for what a user opted out of", err)
	}
	for _, id := range ids {
		err := r.end(ctx, id, notification.StatusCancelled, notification.ReasonOptedOut)
		if err != nil && !errors.Is(err, notification.ErrNotWaiting) && !errors.Is(err, notification.ErrNotFound) {
			return err
		}
	}
	return nil
}

// OwnLimits are the limits that users have set for themselves, in place of a category's. They are kept in memory,
// because every decision needs them. Run keeps them up to date.
type OwnLimits struct {
	store *Store
	parse func(json.RawMessage) ([]throttle.Rule, error)
	// changed is called with each user whose limits have changed.
	changed func(ctx context.Context, userID string)

	users atomic.Pointer[map[string]map[string][]throttle.Rule] // by user and category
	upTo  time.Time
}

// NewOwnLimits makes OwnLimits that hold nothing until the first Refresh. parse reads the limits of one category.
func NewOwnLimits(store *Store, parse func(json.RawMessage) ([]throttle.Rule, error),
	changed func(ctx context.Context, userID string),
) *OwnLimits {
	o := &OwnLimits{store: store, parse: parse, changed: changed}
	o.users.Store(&map[string]map[string][]throttle.Rule{})
	return o
}

// Rules gives a user's own rules for a category.
func (o *OwnLimits) Rules(userID, category string) ([]throttle.Rule, bool) {
	rules, own := (*o.users.Load())[userID][category]
	return rules, own
}

// Has tells whether a user has limits of their own, in any category.
func (o *OwnLimits) Has(userID string) bool { return len((*o.users.Load())[userID]) > 0 }

// Longest is the longest window of any user's own rule.
func (o *OwnLimits) Longest() time.Duration {
	longest := time.Duration(0)
	for _, categories := range *o.users.Load() {
		for _, rules := range categories {
			for _, rule := range rules {
				longest = max(longest, rule.Per)
			}
		}
	}
	return longest
}

const (
	// refreshInterval is how often changes are looked for.
	refreshInterval = time.Second
	// refreshOverlap is how long before the latest known change to look, because an earlier change may have been
	// committed later.
	refreshOverlap = 10 * time.Second
)

// Run refreshes the limits until ctx ends.
func (o *OwnLimits) Run(ctx context.Context) {
	ticker := time.NewTicker(refreshInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := o.Refresh(ctx); err != nil && ctx.Err() == nil {
			o.store.cfg.Log.DebugContext(ctx, "could not refresh the users' own limits; retrying in a second", "error",
				err)
		}
	}
}

// Refresh reads the limits that have changed since the last time.
func (o *OwnLimits) Refresh(ctx context.Context) error {
	rows, err := o.store.pool.Query(ctx,
		`SELECT user_id, limits, updated_at FROM pacer.preferences WHERE updated_at > $1 ORDER BY updated_at`,
		o.upTo.Add(-refreshOverlap))
	if err != nil {
		return describe("read the users' own limits", err)
	}
	var user string
	var text []byte
	var at time.Time
	fresh := map[string]map[string][]throttle.Rule{}
	_, err = pgx.ForEachRow(rows, []any{&user, &text, &at}, func() error {
		fresh[user] = o.read(ctx, user, text)
		if at.After(o.upTo) {
			o.upTo = at
		}
		return nil
	})
	if err != nil {
		return describe("read the users' own limits", err)
	}
	o.replace(ctx, fresh)
	return nil
}

// read parses a user's limits. A limit that can't be read, because another version wrote it, does not apply: the policy
// does.
func (o *OwnLimits) read(ctx context.Context, user string, text []byte) map[string][]throttle.Rule {
	var limits map[string]json.RawMessage
	own := map[string][]throttle.Rule{}
	err := json.Unmarshal(text, &limits)
	for category, limit := range limits {
		var parseErr error
		if own[category], parseErr = o.parse(limit); parseErr != nil {
			delete(own, category)
			err = errors.Join(err, parseErr)
		}
	}
	if err != nil {
		o.store.cfg.Log.WarnContext(ctx, "could not read a user's own limits; the limits of the policy apply",
			"user_id", user,
			"error", err)
	}
	return own
}

// replace takes over the limits of users that have changed, and tells changed of each such user.
func (o *OwnLimits) replace(ctx context.Context, fresh map[string]map[string][]throttle.Rule) {
	known := *o.users.Load()
	next := maps.Clone(known)
	var changed []string
	for user, own := range fresh {
		if fmt.Sprint(own) == fmt.Sprint(known[user]) {
			continue
		}
		changed = append(changed, user)
		if len(own) == 0 {
			delete(next, user)
		} else {
			next[user] = own
		}
	}
	if len(changed) == 0 {
		return
	}
	o.users.Store(&next)
	for _, user := range changed {
		o.changed(ctx, user)
	}
}
