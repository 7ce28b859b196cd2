package desk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/patience"
	"github.com/pacer-notify/pacer/internal/plural"
)

// latestShown is how many of a user's latest notifications are shown.
const latestShown = 10

// User is everything that decides whether a user's notifications go out. Times are in UTC.
type User struct {
	UserID string    `json:"user_id"`
	At     time.Time `json:"at" doc:"When this was looked up."`
	// Known is false when nothing is known of a user with this id.
	Known     bool   `json:"known" doc:"False when nothing is known of a user with this id."`
	Standing  string `json:"standing" doc:"What holds the user's notifications back, or went wrong last; for people."`
	Partition int    `json:"partition"`
	// PolicyVersion names the policy by which all this was found, Zone the user's time zone where it matters.
	PolicyVersion string          `json:"policy_version" doc:"The version of the policy by which all this was found."`
	Zone          string          `json:"zone,omitempty" doc:"The user's time zone, where quiet hours or calendar days depend on it."`
	Pauses        []control.Pause `json:"pauses" nullable:"false" doc:"What operators paused that concerns the user."`
	// Preferences is nil where the store keeps none.
	Preferences *UserPreferences `json:"preferences,omitempty"`
	Categories  []UserCategory   `json:"categories" nullable:"false"`
	// Week is nil for a user without quiet hours, and while Redis can't be read.
	Week    *Week        `json:"week,omitempty" doc:"When the user is not to be disturbed; absent for a user without quiet hours."`
	Devices []UserDevice `json:"devices" nullable:"false"`
	Latest  []Brief      `json:"latest" nullable:"false" doc:"The latest notifications, newest first."`
	Notes   []string     `json:"notes" nullable:"false" doc:"What is not known, or not kept; for people."`
	Partial bool         `json:"partial,omitempty" doc:"True when Redis did not respond: what it knows is missing."`
}

// UserPreferences are what the user wants.
type UserPreferences struct {
	OptOutCategories []string                   `json:"opt_out_categories" nullable:"false"`
	OptOutChannels   []string                   `json:"opt_out_channels" nullable:"false"`
	Limits           map[string]json.RawMessage `json:"limits,omitempty" doc:"The user's own limits, by category."`
	TimeZone         string                     `json:"time_zone,omitempty"`
	QuietHours       json.RawMessage            `json:"quiet_hours,omitempty" doc:"The user's own quiet hours."`
	QuietUntil       *time.Time                 `json:"quiet_until,omitempty"`
	UpdatedAt        *time.Time                 `json:"updated_at,omitempty"`
}

// UserCategory is where a user stands in one category.
type UserCategory struct {
	Category string `json:"category"`
	State    State  `json:"state" enum:"free,limited,queued,deferred,scheduled,retrying,held,removed,paused,opted_out" doc:"What comes next, in one word."`
	Standing string `json:"standing" doc:"The same in a sentence, with its cause; for people."`
	// MaySendNow reports whether a new notification would go out at once.
	MaySendNow bool `json:"may_send_now" doc:"Whether a new notification would go out at once."`
	// NextAt is when the first of what waits goes out or, when nothing waits, when the next may; nil while only people
	// can tell.
	NextAt *time.Time `json:"next_at,omitempty" doc:"When the first of what waits goes out or, when nothing waits, when the next may. Absent under a pause or an opt-out."`
	// Queued to Held count what waits.
	Queued    int            `json:"queued" doc:"Wait for a worker."`
	Deferred  int            `json:"deferred" doc:"Wait for a slot."`
	Scheduled int            `json:"scheduled" doc:"Wait for their send_at."`
	Retrying  int            `json:"retrying" doc:"Wait for their next attempt."`
	Held      int            `json:"held" doc:"Wait for their provider, without an attempt."`
	Waiting   []WaitingItem  `json:"waiting" nullable:"false" doc:"The first of what waits."`
	Limits    CategoryLimits `json:"limits"`
	Admitted  []time.Time    `json:"admitted,omitempty" doc:"The latest deliveries that count in the limits, oldest first."`
}

// WaitingItem is a notification that waits.
type WaitingItem struct {
	ID      string              `json:"id"`
	Channel string              `json:"channel"`
	Status  notification.Status `json:"status"`
	// DeliverAt is when it is expected to go out; nil while only people can tell.
	DeliverAt *time.Time `json:"deliver_at,omitempty"`
	Ahead     int        `json:"ahead,omitempty" doc:"How many of the user's go before it."`
	WaitsFor  string     `json:"waits_for" doc:"For people."`
}

// CategoryLimits are the limits of a user's category.
type CategoryLimits struct {
	InForce string    `json:"in_force" enum:"policy,user" doc:"Whose limits hold. A user cap of the policy holds in any case."`
	Rules   []RuleUse `json:"rules" nullable:"false"`
	Policy  []string  `json:"policy" nullable:"false" doc:"The rules of the policy for this category, without caps, which hold in any case."`
	Own     []string  `json:"own,omitempty" doc:"The user's own rules, which stand in for those of the policy."`
}

// RuleUse is how far one rule in force is used.
type RuleUse struct {
	Rule      string     `json:"rule"`
	Used      int        `json:"used"`
	Remaining int        `json:"remaining"`
	FreesAt   *time.Time `json:"frees_at,omitempty"`
}

// UserDevice is one of the user's devices, without its target.
type UserDevice struct {
	ID            string        `json:"id"`
	Channel       string        `json:"channel"`
	Active        bool          `json:"active"`
	Reason        string        `json:"reason,omitempty" doc:"Why it is not active."`
	DeactivatedAt *time.Time    `json:"deactivated_at,omitempty"`
	RegisteredAt  time.Time     `json:"registered_at"`
	Last          *DeviceResult `json:"last,omitempty" doc:"What became of the latest notification on it, of those in latest."`
}

// DeviceResult is what became of a notification on a device.
type DeviceResult struct {
	NotificationID string    `json:"notification_id,omitempty"`
	Device         string    `json:"device,omitempty"`
	Attempts       int       `json:"attempts"`
	Outcome        string    `json:"outcome"`
	Reply          string    `json:"reply,omitempty" doc:"What the provider replied, secrets and content masked."`
	At             time.Time `json:"at"`
}

// Brief is a notification in a line.
type Brief struct {
	ID         string              `json:"id"`
	Category   string              `json:"category"`
	Channel    string              `json:"channel"`
	AcceptedAt time.Time           `json:"accepted_at"`
	Status     notification.Status `json:"status"`
	Reason     string              `json:"reason,omitempty"`
	Detail     string              `json:"detail,omitempty" doc:"More about the reason; for people."`
	Reply      string              `json:"reply,omitempty" doc:"What the provider replied, secrets and content masked."`
	Attempts   int                 `json:"attempts"`
}

// User looks up a user. While Redis can't be read, it reports what Postgres knows. It returns a [NotThisError] when
// nothing is known of a user with this id, and a notification has it.
func (d *Desk) User(ctx context.Context, userID string) (*User, error) {
	return patience.Ask(ctx, d.cfg.LookPatience, func(ctx context.Context) (*User, error) {
		return d.knownUser(ctx, userID)
	})
}

func (d *Desk) knownUser(ctx context.Context, userID string) (*User, error) {
	u, err := d.user(ctx, userID)
	if err != nil || u.Known {
		return u, err
	}
	if _, err := d.cfg.Store.View(ctx, userID); err == nil {
		return nil, &NotThisError{Asked: userID}
	}
	return u, nil
}

func (d *Desk) user(ctx context.Context, userID string) (*User, error) {
	s, err := d.situationNow(ctx, userID)
	if err != nil {
		return nil, err
	}
	u := &User{
		UserID: userID, At: utc(s.now), Partition: s.partition, Pauses: []control.Pause{}, Categories: []UserCategory{},
		Devices: []UserDevice{}, Latest: []Brief{}, Notes: []string{},
	}
	for _, category := range d.cfg.Policy.CategoryNames() {
		basis := d.cfg.Policy.Settings(userID, category).Basis
		u.PolicyVersion, u.Zone = basis.PolicyVersion, cmp.Or(u.Zone, basis.Zone)
	}
	known, err := d.agendaOf(ctx, s)
	u.Categories = append(u.Categories, known.categories...)
	u.Notes = append(u.Notes, known.notes...)
	s.redisAway = err != nil
	latest, note, err := d.cfg.Store.Latest(ctx, userID, latestShown, known.names)
	if err != nil {
		return nil, err
	}
	if s.redisAway {
		u.Notes = append(u.Notes, "Redis can't be read now: what waits is unknown, and so is how much of the limits is used.")
	}
	if note != "" {
		u.Notes = append(u.Notes, note)
	}
	u.Partial = s.redisAway
	for _, v := range latest {
		u.Latest = append(u.Latest, brief(&v))
		u.Partial = u.Partial || v.Partial
	}
	if err := d.fillDevices(ctx, u, latest); err != nil {
		return nil, err
	}
	u.fillPreferences(s)
	u.Week = s.week(u.Categories)
	u.Pauses = s.concerning(u)
	u.Known = len(latest)+len(u.Devices) > 0 || s.hasPreferences() ||
		slices.ContainsFunc(u.Categories, UserCategory.Used)
	u.Standing = u.standing(s)
	return u, nil
}

// inAgenda is what the agendas know of a user: each category, and the names of notifications that the user had lately.
type inAgenda struct {
	categories []UserCategory
	names      []string
	notes      []string
}

// agendaOf asks the agendas of a user, unless Redis has just not responded.
func (d *Desk) agendaOf(ctx context.Context, s *situation) (inAgenda, error) {
	if s.redisAway {
		return inAgenda{}, errRedisAway
	}
	asked := *s // who asks may go on after the caller, which changes the situation
	return patience.Ask(ctx, d.cfg.RedisPatience, func(ctx context.Context) (inAgenda, error) {
		return d.askAgendas(ctx, &asked)
	})
}

// errRedisAway says that Redis was not asked.
var errRedisAway = errors.New("redis did not respond")

// askAgendas looks at each category of the policy, and at those in which something waits although the policy does not
// name them any more.
func (d *Desk) askAgendas(ctx context.Context, s *situation) (known inAgenda, err error) {
	all, err := d.cfg.Agendas.UserAgenda(ctx, s.userID)
	if err != nil {
		return known, err
	}
	if all.Unread > 0 {
		known.notes = []string{plural.Of(all.Unread, "more is scheduled or retrying and is not counted here.",
			"more are scheduled or retrying and are not counted here.")}
	}
	waiting := map[string]outlook.UserWaiting{}
	categories := d.cfg.Policy.CategoryNames()
	for _, w := range all.Waiting {
		waiting[w.Category] = w
		known.names = append(known.names, w.IDs...)
		if !slices.Contains(categories, w.Category) {
			categories = append(categories, w.Category)
		}
	}
	views, err := d.cfg.Store.Known(ctx, s.userID, known.names)
	if err != nil {
		return inAgenda{}, err
	}
	for _, name := range categories {
		windows, err := d.cfg.Agendas.UserWindows(ctx, s.userID, name)
		if err != nil {
			return inAgenda{}, err
		}
		known.names = append(known.names, windows.Names...)
		w := waiting[name]
		w.Category = name
		known.categories = append(known.categories, s.category(w, &windows, ordered(w.IDs, views)))
	}
	slices.Sort(known.names)
	known.names = slices.Compact(known.names)
	return known, nil
}

// ordered returns the views with these ids, in the order of the ids.
func ordered(ids []string, views []notification.View) []*notification.View {
	var found []*notification.View
	for _, id := range ids {
		for i := range views {
			if views[i].ID == id {
				found = append(found, &views[i])
			}
		}
	}
	return found
}

// fillDevices lists the devices with what became of the latest notifications on them.
func (d *Desk) fillDevices(ctx context.Context, u *User, latest []notification.View) error {
	devices, err := d.cfg.Store.Devices(ctx, u.UserID)
	if err != nil || len(devices) == 0 {
		return err
	}
	last := map[string]*DeviceResult{}
	for i := range latest {
		if latest[i].To != "" {
			continue
		}
		deliveries, err := d.cfg.Store.Deliveries(ctx, &latest[i].Notification)
		if err != nil {
			return err
		}
		for _, of := range deliveries {
			if known := last[of.DeviceID]; known == nil || of.At.After(known.At) {
				last[of.DeviceID] = result(of)
				last[of.DeviceID].NotificationID, last[of.DeviceID].Device = latest[i].ID, ""
			}
		}
	}
	for _, device := range devices {
		u.Devices = append(u.Devices, UserDevice{
			ID: device.ID, Channel: string(device.Channel), Active: device.Active, Reason: device.Reason,
			DeactivatedAt: optional(device.DeactivatedAt), RegisteredAt: utc(device.UpdatedAt), Last: last[device.ID],
		})
	}
	return nil
}

func result(d notification.Delivery) *DeviceResult {
	return &DeviceResult{Device: d.DeviceID, Attempts: d.Attempts, Outcome: d.Outcome, Reply: d.Reply, At: utc(d.At)}
}

// fillPreferences shows the preferences, where the store keeps any.
func (u *User) fillPreferences(s *situation) {
	p := s.preferences
	if p == nil {
		return
	}
	u.Preferences = &UserPreferences{
		OptOutCategories: append([]string{}, p.OptOutCategories...),
		OptOutChannels:   append([]string{}, p.OptOutChannels...),
		Limits:           p.Limits, TimeZone: p.TimeZone, UpdatedAt: optional(p.UpdatedAt),
		QuietHours: p.QuietHours, QuietUntil: optional(p.QuietUntil),
	}
}

func brief(v *notification.View) Brief {
	detail, reply := detailOf(v)
	return Brief{
		ID: v.ID, Category: v.Category, Channel: string(v.Channel), AcceptedAt: utc(v.CreatedAt), Status: v.Status,
		Reason: v.Reason, Detail: detail, Reply: reply, Attempts: v.Attempts,
	}
}

// Used reports whether anything is known of the user in the category.
func (c UserCategory) Used() bool {
	return c.Waits() > 0 || len(c.Admitted) > 0 ||
		slices.ContainsFunc(c.Limits.Rules, func(r RuleUse) bool { return r.Used > 0 })
}

// Waits is how many wait in the category.
func (c UserCategory) Waits() int { return c.Queued + c.Deferred + c.Scheduled + c.Retrying + c.Held }

func utc(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = utc(t)
	return &t
}
