package feedback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// Store knows notifications and the devices that they went to.
type Store interface {
	// View returns a notification, or [notification.ErrNotFound].
	View(ctx context.Context, id string) (*notification.View, error)
	Devices(ctx context.Context, userID string) ([]notification.Device, error)
	// Deactivate notes that a device's target is gone, unless the device was registered again after since.
	Deactivate(ctx context.Context, d *notification.Device, since time.Time, reason string) error
	// Deliveries lists what became of a notification on each device, and NoteDelivery replaces it for one of them.
	Deliveries(ctx context.Context, n *notification.Notification) ([]notification.Delivery, error)
	NoteDelivery(ctx context.Context, n *notification.Notification, d notification.Delivery) error
}

// Users keep what users want.
type Users interface {
	Preferences(ctx context.Context, userID string) (*notification.Preferences, error)
	// OptOut adds a category to those that a user does not want, and cancels what waits of it; OptIn removes it. Both
	// leave everything else as it is, and may be repeated.
	OptOut(ctx context.Context, userID, category string) error
	OptIn(ctx context.Context, userID, category string) error
}

// Config of an [Inbox].
type Config struct {
	// Keys check what comes back.
	Keys *Keys
	// Channel is the kind of channels whose devices have e-mail addresses.
	Channel notification.Channel
	// Gone reports whether a status such as 5.1.1, and what the server said, mean that an address does not exist any
	// more. The address is empty as long as it is not known.
	Gone func(status, diagnostic, address string) bool
	// Address returns the address of a device's target as mails carry it.
	Address func(target string) (string, error)
	Store   Store
	// Users is nil where nobody keeps what users want. Then nobody can unsubscribe.
	Users Users
	// Now is the time. Defaults to [time.Now].
	Now func() time.Time
}

// Inbox takes what comes back.
type Inbox struct{ cfg Config }

// NewInbox makes an Inbox.
func NewInbox(cfg Config) *Inbox {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Inbox{cfg}
}

// ErrNoLink means that a link was not made by this deployment, or with a key that no longer holds.
var ErrNoLink = errNoLink

// OptedOut reports what a link is for, and whether the user has opted out of it.
func (i *Inbox) OptedOut(ctx context.Context, token string) (link Link, out bool, err error) {
	if link, err = i.read(token); err != nil {
		return link, false, err
	}
	p, err := i.cfg.Users.Preferences(ctx, link.UserID)
	if err != nil {
		return link, false, err
	}
	for _, category := range p.OptOutCategories {
		out = out || category == link.Category
	}
	return link, out, nil
}

// OptOut opts out by a link, and OptIn takes it back.
func (i *Inbox) OptOut(ctx context.Context, token string) (Link, error) {
	link, err := i.read(token)
	if err != nil {
		return link, err
	}
	return link, i.cfg.Users.OptOut(ctx, link.UserID, link.Category)
}

// OptIn takes back an opting out, by the same link.
func (i *Inbox) OptIn(ctx context.Context, token string) (Link, error) {
	link, err := i.read(token)
	if err != nil {
		return link, err
	}
	return link, i.cfg.Users.OptIn(ctx, link.UserID, link.Category)
}

func (i *Inbox) read(token string) (Link, error) {
	if i.cfg.Users == nil {
		return Link{}, ErrNoLink
	}
	return i.cfg.Keys.ReadLink(token)
}

// Kind says what a message was that came back.
type Kind string

// The kinds of messages.
const (
	// KindGone: the mail was given up since its address does not exist any more. The device with it is not active now.
	KindGone Kind = "gone"
	// KindRefused: the mail was given up for another reason, such as a user who has no room for it. Nothing
	// changes.
	KindRefused Kind = "refused"
	// KindDelayed: the mail is still being tried, or something else became of it. Nothing changes.
	KindDelayed Kind = "delayed"
	// KindComplaint: the user called the mail unwanted, and is opted out of its category.
	KindComplaint Kind = "complaint"
	// KindUnknown: a report without a token that this deployment signed, or of a notification that it forgot.
	KindUnknown Kind = "unknown"
	// KindNoReport: something else, such as an automatic reply.
	KindNoReport Kind = "no_report"
)

// Kinds are all kinds of messages.
func Kinds() []Kind {
	return []Kind{KindGone, KindRefused, KindDelayed, KindComplaint, KindUnknown, KindNoReport}
}

// Result is what a message was, and what it changed.
type Result struct {
	Kind Kind
	// NotificationID is the notification that it was about.
	NotificationID string
	// Status is why the mail was given up, such as 5.1.1.
	Status string
	// UserID is whose device was deactivated or who was opted out, Devices are the devices, Category the category.
	UserID   string
	Devices  []string
	Category string
}

// Take reads a message that came back, and does what follows from it. It may be repeated: after an error it must be.
func (i *Inbox) Take(ctx context.Context, message []byte) (Result, error) {
	r := parse(message)
	switch {
	case r == nil:
		return Result{Kind: KindNoReport}, nil
	case r.complaint:
		return i.complained(ctx, r)
	}
	for _, token := range find(addressTokens, r.addresses) {
		m, ok := i.cfg.Keys.readAddress(token)
		if !ok {
			continue
		}
		id, ok := m.of(r.ids[:min(len(r.ids), maxTried)])
		if !ok {
			continue
		}
		to := r.about(func(name string) bool {
			address, err := i.cfg.Address(name)
			return err == nil && hashOf(address) == m.address
		})
		switch {
		case !to.failed:
			return Result{Kind: KindDelayed, NotificationID: id}, nil
		case !i.cfg.Gone(to.status, to.diagnostic, ""):
			return Result{Kind: KindRefused, NotificationID: id, Status: to.status}, nil
		}
		return i.gone(ctx, &to, id, m)
	}
	return Result{Kind: KindUnknown}, nil
}

// complained opts the user out of the category of the mail that a complaint is about. The link in that mail says which.
func (i *Inbox) complained(ctx context.Context, r *report) (Result, error) {
	for _, token := range find(linkTokens, r.links) {
		link, err := i.OptOut(ctx, token)
		switch {
		case errors.Is(err, ErrNoLink):
			continue
		case err != nil:
			return Result{}, fmt.Errorf("opt a user out after a complaint: %w", err)
		}
		return Result{Kind: KindComplaint, UserID: link.UserID, Category: link.Category}, nil
	}
	return Result{Kind: KindUnknown}, nil
}

// gone deactivates the devices with the address that a mail went to.
func (i *Inbox) gone(ctx context.Context, r *recipient, id string, m mailing) (Result, error) {
	view, err := i.cfg.Store.View(ctx, id)
	if errors.Is(err, notification.ErrNotFound) {
		return Result{Kind: KindUnknown, NotificationID: id, Status: r.status}, nil
	}
	if err != nil {
		return Result{}, err
	}
	result := Result{Kind: KindGone, NotificationID: id, Status: r.status, UserID: view.UserID}
	devices, err := i.cfg.Store.Devices(ctx, view.UserID)
	if err != nil {
		return Result{}, err
	}
	since := i.since(r.at, view.CreatedAt)
	for _, d := range devices {
		address, err := i.cfg.Address(d.Target)
		if err != nil || d.Channel.Kind() != i.cfg.Channel || !d.Active || hashOf(address) != m.address ||
			d.UpdatedAt.After(since) {
			continue
		}
		if !i.cfg.Gone(r.status, r.diagnostic, address) {
			return Result{Kind: KindRefused, NotificationID: id, Status: r.status}, nil
		}
		if err := i.note(ctx, view, &d, r); err != nil {
			return Result{}, err
		}
		if err := i.cfg.Store.Deactivate(ctx, &d, since, outcome(r)); err != nil {
			return Result{}, err
		}
		result.Devices = append(result.Devices, d.ID)
	}
	return result, nil
}

// since is when the address was found to be gone: after the notification was made, and not in the future, whatever the
// clock of a mail server says.
func (i *Inbox) since(said, created time.Time) time.Time {
	now := i.cfg.Now()
	switch {
	case said.IsZero() || said.After(now):
		return now
	case said.Before(created):
		return created
	}
	return said
}

// outcome is the delivery's, and why the device is not active.
func outcome(r *recipient) string { return "bounced: " + r.status }

// ErrUnderWay means that a mail came back before it was noted that it went out. The message must be taken later.
var ErrUnderWay = errors.New("the notification is still being sent")

// note writes among the notification's deliveries that the mail came back, if it was sent to the user's devices.
func (i *Inbox) note(ctx context.Context, view *notification.View, d *notification.Device, r *recipient) error {
	n := &view.Notification
	if n.To != "" {
		return nil
	}
	deliveries, err := i.cfg.Store.Deliveries(ctx, n)
	if err != nil {
		return err
	}
	for _, delivery := range deliveries {
		if delivery.DeviceID != d.ID {
			continue
		}
		delivery.Outcome, delivery.Ended = outcome(r), true
		delivery.Reply = push.Reply([]byte(r.diagnostic), n, d.Target)
		return i.cfg.Store.NoteDelivery(ctx, n, delivery)
	}
	if !view.Status.Ended() {
		return ErrUnderWay
	}
	return nil
}

// Links make the links by which users unsubscribe.
type Links struct {
	Keys *Keys
	// Base is where users' browsers and mail providers reach the API: https://notify.example.com.
	Base string
	// Required reports whether a category is not offered to be unsubscribed from.
	Required func(category string) bool
}

// Of returns the link of a user's category; empty where there is none.
func (l Links) Of(userID, category string) string {
	if l.Base == "" || l.Keys.None() || l.Required(category) {
		return ""
	}
	return l.Base + Path + l.Keys.LinkToken(Link{UserID: userID, Category: category})
}

// Path is where the API serves the links.
const Path = "/v1/unsubscribe/"
