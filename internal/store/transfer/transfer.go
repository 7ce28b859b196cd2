// Package transfer has the types in which the store on Redis hands everything over to the one in Postgres, when a
// deployment gets a database.
package transfer

import (
	"context"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Notification is a notification with everything that happened to it. One that is being sent is handed over as
// retrying, because nobody knows yet what becomes of it.
type Notification struct {
	notification.Notification
	// Status is that of Postgres: waiting, retrying, or an end.
	Status, Reason, Detail                  string
	Generation, Attempts, Failures, Crashes int
	Deferrals                               int
	History                                 string
	NotBefore, EndedAt                      time.Time
	AdmittedAt                              int64 // µs, of the last admission; 0 if never
}

// Admission is an admission that a window still holds.
type Admission struct {
	UserID string
	// Category is empty in the log of a cap, which Cap names; the user cap has no name.
	Category   string
	Cap        string
	ID         string
	Generation int
	At         int64 // µs
}

// Delivery is what became of a notification on one of its user's devices.
type Delivery struct {
	NotificationID string
	notification.Delivery
}

// Batch is a part of the data, of bounded size.
type Batch struct {
	Notifications []Notification
	Admissions    []Admission
	Devices       []notification.Device
	Deliveries    []Delivery
	Preferences   []notification.PreferencesChange
}

// Count is how much was handed over.
type Count struct {
	// Waiting of the Notifications have not ended.
	Notifications, Waiting, Admissions, Keys, Devices int
}

// Add counts a batch.
func (c *Count) Add(b *Batch) {
	c.Notifications += len(b.Notifications)
	c.Admissions += len(b.Admissions)
	c.Devices += len(b.Devices)
	for _, n := range b.Notifications {
		if n.EndedAt.IsZero() {
			c.Waiting++
		}
		if n.IdempotencyKey != "" {
			c.Keys++
		}
	}
}

// Source hands over everything that it keeps, notifications before admissions. It may hand something over twice.
type Source interface {
	Export(ctx context.Context, give func(*Batch) error) error
}
