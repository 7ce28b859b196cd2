package deployment

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/feedback"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/preferences"
	"github.com/pacer-notify/pacer/internal/settings"
)

// followPreferences reads what users want, and has the rules know it. Processes with workers have agendas decided again
// after a change.
func (d *Deployment) followPreferences(ctx context.Context, source preferences.Source) error {
	cfg := preferences.Config{Changed: d.cfg.PreferencesChanged, Log: d.cfg.Log}
	if !d.attached && d.cfg.Settings.HasRole(settings.RoleWorker) {
		cfg.Agendas, cfg.Marks = d.Agendas, wokenMarks{d.Redis.Client}
	}
	d.Preferences = preferences.NewFollower(source, cfg)
	d.Rules.Own = d.Preferences.Memory
	return d.Preferences.Load(ctx)
}

// wokenKey holds up to which change of each part what waits was decided again.
const wokenKey = "pacer:preferences:woken"

// wokenMarks keeps them on Redis, as a hash by part.
type wokenMarks struct{ client redis.UniversalClient }

// Woken implements [preferences.Marks].
func (w wokenMarks) Woken(ctx context.Context) ([]int64, error) {
	all, err := w.client.HGetAll(ctx, wokenKey).Result()
	if err != nil {
		return nil, fmt.Errorf("read which preference changes have been applied: %w", err)
	}
	marks := make([]int64, len(all))
	for part, mark := range all {
		if i, err := strconv.Atoi(part); err == nil && i < len(marks) {
			marks[i], _ = strconv.ParseInt(mark, 10, 64) // NoteWoken writes nothing else
		}
	}
	return marks, nil
}

// NoteWoken implements [preferences.Marks].
func (w wokenMarks) NoteWoken(ctx context.Context, marks []int64) error {
	fields := make([]any, 0, 2*len(marks))
	for part, mark := range marks {
		fields = append(fields, strconv.Itoa(part), strconv.FormatInt(mark, 10))
	}
	if err := w.client.HSet(ctx, wokenKey, fields...).Err(); err != nil {
		return fmt.Errorf("note which preference changes have been applied: %w", err)
	}
	return nil
}

// Users keeps what users want, once the rules allow it. This process knows of a change before it says so.
type Users struct {
	UserStore

	deployment *Deployment
}

// UserStore keeps what users want.
type UserStore interface {
	feedback.Users
	SetPreferences(ctx context.Context, userID string, p *notification.Preferences, was int64) error
	SetManyPreferences(ctx context.Context, of map[string]*notification.Preferences) error
	ClearPreferences(ctx context.Context, userID string) error
}

// CheckPreferences refuses preferences that name a category, a channel or a window that the deployment does not have.
func (u Users) CheckPreferences(p *notification.Preferences) error {
	return u.deployment.Rules.CheckPreferences(p, u.deployment.Rules.Set.Fault)
}

// SetManyPreferences keeps the preferences of some users, which were checked.
func (u Users) SetManyPreferences(ctx context.Context, of map[string]*notification.Preferences) error {
	if err := u.UserStore.SetManyPreferences(ctx, of); err != nil {
		return err
	}
	u.follow(ctx)
	return nil
}

// SetPreferences keeps a user's preferences, once they are checked, in place of the version that was read.
func (u Users) SetPreferences(ctx context.Context, userID string, p *notification.Preferences, was int64) error {
	if err := u.CheckPreferences(p); err != nil {
		return err
	}
	if err := u.UserStore.SetPreferences(ctx, userID, p, was); err != nil {
		return err
	}
	u.follow(ctx)
	return nil
}

// ClearPreferences removes a user's preferences.
func (u Users) ClearPreferences(ctx context.Context, userID string) error {
	if err := u.UserStore.ClearPreferences(ctx, userID); err != nil {
		return err
	}
	u.follow(ctx)
	return nil
}

// follow has this process know of a change at once. If that fails, it knows at the next look.
func (u Users) follow(ctx context.Context) {
	if err := u.deployment.Preferences.Refresh(ctx); err != nil {
		u.deployment.cfg.Log.DebugContext(ctx, "could not check for changed preferences; using the known ones until the next check",
			"error", err)
	}
}
