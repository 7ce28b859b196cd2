// Package effective reports which settings are in effect for a user's category: those of the policy, with the user's
// own limits and quiet hours in place of the policy's, in the user's time zone, and with what operators paused.
package effective

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/preferences"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Policy is the policy in force together with what changes it: users' preferences and pauses. [New] makes one.
type Policy struct {
	// Current gives the policy in force.
	Current func() *policy.Policy
	// Own is what users want. Defaults to nothing.
	Own *preferences.Memory
	// PausedFor reports how long a notification of a category has to wait because operators paused the category; 0 when
	// the category is not paused. Defaults to never.
	PausedFor func(category string) time.Duration
	// Now is the time. Defaults to [time.Now].
	Now func() time.Time

	periods periods
	cached  atomic.Pointer[categorySettings]
	before  atomic.Pointer[policy.Policy] // the one that Replaced saw last
	earlier earlier
	since   atomic.Pointer[time.Time] // nil until the first Replaced
	removed sync.Map                  // the last plan of each category that a policy before this one had
}

// New makes a Policy, without preferences and pauses, of the one that current gives.
func New(current func() *policy.Policy) *Policy {
	p := &Policy{Current: current}
	p.before.Store(current())
	return p
}

// Under is this Policy as it would be under another one, with the same users and pauses.
func (p *Policy) Under(other *policy.Policy) *Policy {
	under := New(func() *policy.Policy { return other })
	under.Own, under.PausedFor, under.Now = p.Own, p.PausedFor, p.Now
	return under
}

func (p *Policy) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}

// categorySettings are a policy's categories in the form that the agendas take, made once per policy.
type categorySettings struct {
	policy     *policy.Policy
	categories map[string]agenda.Settings
	names      []string // of all categories, when there are not too many
	zone       *time.Location
	longest    time.Duration // window of any rule
	byClock    bool          // a rule counts by day, week or month, or digests go at times of the day
	moments    kept[timesOf, *player.Digest]
	hours      hours
	past       hours // for moments that have passed
}

// Settings returns the settings of a user's category, with the user's own limits and quiet hours where there are any.
// In doubt nothing is sent: a category that the policy does not name is held.
func (p *Policy) Settings(userID, category string) agenda.Settings {
	found := p.ofCategory(category)
	if p.PausedFor != nil {
		found.Paused = p.PausedFor(category)
	}
	wish, until := p.Own.Of(userID)
	if own, ok := wish.Limits[category]; ok {
		found.Plan, found.OwnLimits = found.Plan.WithOwnLimits(own), true
	}
	p.close(&found, userID, category, wish, until)
	p.begin(&found, wish)
	p.digest(&found, category, wish)
	return found
}

// MayRefuse reports whether the overflow ladder of a category refuses what is too much.
func (p *Policy) MayRefuse(category string) bool {
	return p.Current().Categories[category].Overflow.Refusing().Waiting > 0
}

// atMostAtOnce is how many categories a policy may have for what waits to be granted in the round that pulls it: their
// settings go with each round.
const atMostAtOnce = 32

// Categories lists those of the policy in force, unless there are too many.
func (p *Policy) Categories() []string {
	p.ofCategory(policy.DefaultCategory)
	return p.cached.Load().names
}

func (p *Policy) ofCategory(category string) agenda.Settings {
	current := p.Current()
	cached := p.cached.Load()
	if cached == nil || cached.policy != current {
		cached = &categorySettings{
			policy: current, categories: map[string]agenda.Settings{}, zone: time.UTC,
		}
		if zone, err := calendar.ParseZone(current.TimeZone); err == nil {
			cached.zone = zone
		}
		version := current.Version()
		for name, c := range current.Categories {
			cached.byClock = cached.byClock || countsByPeriod(c.Plan) || c.Digest != nil && len(c.Digest.At) > 0
			cached.longest = max(cached.longest, longestOf(c.Plan))
			cached.categories[name] = agenda.Settings{
				Plan: c.Plan, MaxDefer: c.MaxDefer, BypassFrom: current.BypassFrom(c), Digest: digestOf(c),
				Overflow: c.Overflow,
				Basis:    notification.Basis{PolicyVersion: version},
			}
		}
		if len(cached.categories) <= atMostAtOnce {
			cached.names = slices.Sorted(maps.Keys(cached.categories))
		}
		p.cached.Store(cached)
	}
	if found, ok := cached.categories[category]; ok {
		return found
	}
	byDefault := cached.categories[policy.DefaultCategory]
	lacking := agenda.Settings{Plan: byDefault.Plan, Basis: byDefault.Basis, Removed: true}
	if plan, ok := p.removed.Load(category); ok {
		lacking.Plan, _ = plan.(throttle.Plan)
	}
	return lacking
}

// Succeeds keeps the plans of the categories that only an earlier policy has: what is refunded or built again meanwhile
// finds their windows.
func (p *Policy) Succeeds(before *policy.Policy) {
	for name, c := range before.Categories {
		p.removed.Store(name, c.Plan)
	}
	for name := range p.Current().Categories {
		p.removed.Delete(name)
	}
}

// CheckCategory refuses a category that the policy does not name, with a [notification.FieldError] that says which it
// names.
func (p *Policy) CheckCategory(name string) error {
	if fault := p.categoryFault(name); fault != "" {
		return &notification.FieldError{Field: "category", Message: fault}
	}
	return nil
}

// categoryFault says that the policy does not name the category; it is empty when the policy does.
func (p *Policy) categoryFault(name string) string {
	if _, ok := p.Current().Category(name); ok {
		return ""
	}
	names := p.CategoryNames()
	return fmt.Sprintf("%s is not named in the policy; it names %s%s", nearest.Quote(name), nearest.List(names),
		nearest.Hint(name, names))
}

// MaxDefer is how long a notification of a category may wait for its limits; 0 for one that the policy does not name:
// nobody knows.
func (p *Policy) MaxDefer(category string) time.Duration { return p.Settings("", category).MaxDefer }

// longestRetryAfter is the longest wait that a provider may ask for.
const longestRetryAfter = time.Hour

// Life is how long a notification of a category over a channel with these settings of its own takes that waits for
// max_defer once and is retried to the end.
func (p *Policy) Life(category string, channel notification.Channel, own notification.DeliverySettings) time.Duration {
	return p.MaxDefer(category) + p.Deliveries(category, channel, own).Retry.Longest()
}

// MaxLife is how long a notification of a category over a channel with these settings of its own may take, from the
// moment at which it may go until it has ended: max_defer before each attempt, and after each a wait.
func (p *Policy) MaxLife(category string, channel notification.Channel, own notification.DeliverySettings,
) time.Duration {
	retry := p.Deliveries(category, channel, own).Retry
	return retry.Longest() + time.Duration(retry.MaxAttempts)*(p.MaxDefer(category)+longestRetryAfter)
}

// CategoryNames lists the categories of the policy in force, in order.
func (p *Policy) CategoryNames() []string { return slices.Sorted(maps.Keys(p.Current().Categories)) }

// ShortestMaxDefer is that of the category whose notifications may wait least.
func (p *Policy) ShortestMaxDefer() time.Duration {
	shortest := time.Duration(0)
	for _, category := range p.Current().Categories {
		if shortest == 0 || category.MaxDefer < shortest {
			shortest = category.MaxDefer
		}
	}
	return shortest
}

// LongestWindow is the longest of any rule in effect for a user. Without one, it is that of whoever has no limits of
// their own.
func (p *Policy) LongestWindow(userID string) time.Duration {
	p.ofCategory(policy.DefaultCategory)
	longest := p.cached.Load().longest
	p.removed.Range(func(_, plan any) bool {
		of, _ := plan.(throttle.Plan)
		longest = max(longest, longestOf(of))
		return true
	})
	wish, _ := p.Own.Of(userID)
	for category, own := range wish.Limits {
		longest = max(longest, longestOf(p.ofCategory(category).Plan.WithOwnLimits(own)))
	}
	return longest
}

func longestOf(plan throttle.Plan) time.Duration {
	longest := time.Duration(0)
	for _, rule := range plan.Rules {
		longest = max(longest, rule.Per)
	}
	if !plan.Algorithm.KeepsLog() {
		longest *= 2 // a counter's window may have begun a window before the admission that it still counts
	}
	return longest
}

// Deliveries returns what holds for the deliveries of a category over a channel that has these settings of its own. A
// category that the policy no longer names is delivered as the default category.
func (p *Policy) Deliveries(category string, channel notification.Channel, own notification.DeliverySettings,
) dispatch.Settings {
	current := p.Current()
	if _, ok := current.Categories[category]; !ok {
		category = policy.DefaultCategory
	}
	return dispatch.Settings{
		DeliverySettings:    current.Delivery(category, channel, own),
		CategoryConcurrency: current.Deliveries[category].Concurrency,
	}
}

// MinGap is the shortest time between a notification and the one before it of its user's category; 0 for none.
func (p *Policy) MinGap(n *notification.Notification) time.Duration {
	settings := p.Settings(n.UserID, n.Category)
	if n.Priority.AtLeast(settings.BypassFrom) {
		return 0
	}
	for _, rule := range settings.Plan.Rules {
		if rule.Kind == throttle.KindGap {
			return rule.Per
		}
	}
	return 0
}

// Shown says how many of a digest of a category a message shows, and whether these are the oldest.
func (p *Policy) Shown(category string) (items int, oldest bool) {
	c, _ := p.Current().Category(category)
	of := cmp.Or(c.Digest, policy.DefaultDigest())
	return of.Shown, of.Oldest
}

// EndsAt reports whether a notification of a category ends as failed when a webhook responds with a status.
func (p *Policy) EndsAt(category string, channel notification.Channel, status int) bool {
	current := p.Current()
	if _, ok := current.Categories[category]; !ok {
		category = policy.DefaultCategory
	}
	return current.EndsAt(category, channel, status)
}
