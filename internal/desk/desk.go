// Package desk is the use case of everybody who asks what a running deployment is doing: why a user gets nothing, what
// has become of a notification. Its types are the one JSON shape that the API, the ops pages and the command line
// share. They serve it and print it; none of them computes anything of its own.
//
// Whatever it looks at is bounded: a user with a million waiting notifications costs as much as one with a hundred.
// What a store does not keep, the result says in words.
package desk

import (
	"cmp"
	"context"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/notification"
)

// Config is what a [Desk] asks. Users is nil where the store keeps no preferences.
type Config struct {
	Store   Store
	Agendas Agendas
	Users   Users
	Policy  Policy
	// Pauses lists everything that is paused.
	Pauses func(context.Context) ([]control.Pause, error)
	// Fleet reports what the processes of the deployment report. Defaults to a worker that is alive and has room.
	Fleet func(context.Context) (Fleet, error)
	// CancelledBy reports which operator cancelled a notification; "" when none did. Defaults to nobody.
	CancelledBy func(ctx context.Context, id string) (string, error)
	// Endpoint says how the webhook endpoint that is registered for a URL does; "" when it does well, or there is none.
	// Defaults to none.
	Endpoint func(url string) string
	// Now is the time. Defaults to [time.Now].
	Now func() time.Time
	// RedisPatience is how long Redis may take to tell what waits; Postgres can tell something without it. Defaults to
	// 1.5 s. LookPatience is how long all of a look-up may take: less than a command waits for it. Defaults to 5 s.
	RedisPatience, LookPatience time.Duration
}

// Store knows notifications and devices.
type Store interface {
	// View returns a notification, or [notification.ErrNotFound].
	View(ctx context.Context, id string) (*notification.View, error)
	// Known returns those of a user's notifications that have one of the ids, in no order.
	Known(ctx context.Context, userID string, ids []string) ([]notification.View, error)
	// Latest returns up to n of a user's notifications, newest first; ids are some that the user had lately, for a
	// store that keeps no list. The note says what the store does not know; it is empty when these are the latest.
	Latest(ctx context.Context, userID string, n int, ids []string) (latest []notification.View, note string, err error)
	// Devices lists the devices of a user, Deliveries what became of a notification on them.
	Devices(ctx context.Context, userID string) ([]notification.Device, error)
	Deliveries(ctx context.Context, n *notification.Notification) ([]notification.Delivery, error)
}

// Agendas know what waits for a user.
type Agendas interface {
	// UserAgenda returns what waits for a user.
	UserAgenda(ctx context.Context, userID string) (*outlook.UserAgenda, error)
	// UserWindows returns how far the limits of a user's category are used, and by which notifications.
	UserWindows(ctx context.Context, userID, category string) (outlook.UserWindows, error)
	PartitionOf(userID string) int
}

// Users know what users want.
type Users interface {
	Preferences(ctx context.Context, userID string) (*notification.Preferences, error)
}

// Policy knows the categories and what limits them.
type Policy interface {
	// CategoryNames lists the categories of the policy in force, in order.
	CategoryNames() []string
	// Settings are those in force for a user's category; those of the policy alone for the user "".
	Settings(userID, category string) agenda.Settings
}

// Desk looks at a running deployment. It changes nothing.
type Desk struct{ cfg Config }

// New makes a Desk.
func New(cfg Config) *Desk {
	cfg.RedisPatience = cmp.Or(cfg.RedisPatience, 1500*time.Millisecond)
	cfg.LookPatience = cmp.Or(cfg.LookPatience, 5*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Fleet == nil {
		cfg.Fleet = func(context.Context) (Fleet, error) { return Fleet{Workers: 1}, nil }
	}
	if cfg.CancelledBy == nil {
		cfg.CancelledBy = func(context.Context, string) (string, error) { return "", nil }
	}
	if cfg.Endpoint == nil {
		cfg.Endpoint = func(string) string { return "" }
	}
	return &Desk{cfg}
}
