// Package policy reads the policy file: which categories of notifications exist, how each is throttled, the cap over
// all of a user's categories, which priorities bypass the limits, and how failed deliveries are retried.
//
// [Parse] is strict. It finds every fault of a file at once, each with its line and column. [Watcher] holds the policy
// in force and replaces it when its file changes. A faulty file never replaces a good policy.
package policy

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// DefaultCategory is the category of a notification that names none. Every policy has it.
const DefaultCategory = "default"

// BuiltIn takes the place of the file name when the built-in policy is in force.
const BuiltIn = "built-in"

// The bounds of a policy file, besides those of [throttle.Rule].
const (
	// MaxFileBytes is how long a policy file may be.
	MaxFileBytes = 1 << 20
	// MaxValues is how many values it may have, with all that aliases repeat.
	MaxValues = 1 << 18
	// MaxLimits is how many limits one list may hold.
	MaxLimits = 32
	// MaxCategoryNameBytes is how long a category's name may be.
	MaxCategoryNameBytes = 64
	// MaxWait bounds max_defer and max_backoff. No notification is planned further ahead than this.
	MaxWait = 90 * 24 * time.Hour
	// MaxRetryAttempts bounds max_attempts.
	MaxRetryAttempts = 100
	// MinTimeout and MaxTimeout bound a time-out. A host's breaker counts the calls of the last [MaxTimeout] and more.
	MinTimeout, MaxTimeout = 100 * time.Millisecond, time.Minute
	// MaxConcurrency bounds concurrency.
	MaxConcurrency = 1_000_000
)

// DefaultMaxDefer is the max_defer of a category that has none of its own.
const DefaultMaxDefer = 24 * time.Hour

// longDefaultMaxDefer is that of a category that a night holds, or a day, a week or a month.
const longDefaultMaxDefer = 2 * DefaultMaxDefer

// Policy is a whole policy file, checked. It is never changed after [Parse] and may be shared.
type Policy struct {
	// Categories by name. It always holds [DefaultCategory].
	Categories map[string]Category
	// UserCap are the rules over all categories of one user; every category's plan holds them too. Nil means no cap.
	UserCap []throttle.Rule
	// Caps are those over some categories; the plans of these hold their rules too.
	Caps []Cap
	// BypassPriority is the least urgent priority that is delivered at once. Zero means that none is.
	BypassPriority notification.Priority
	// Retry is how failed deliveries are retried where neither their category nor their channel says it; zero when the
	// file has none.
	Retry notification.Retry
	// Channels and Deliveries are what the file says of the deliveries over channels, and of those of categories;
	// [Policy.Delivery] puts them together.
	Channels   map[notification.Channel]Delivery
	Deliveries map[string]Delivery
	// TimeZone is that of users of whom none is known. Defaults to UTC.
	TimeZone string
	// Windows are the hours that the file names.
	Windows map[string]calendar.Window
	// QuietHours are when users are not to be disturbed; nil means never.
	QuietHours *QuietHours
	// Text is the YAML that the policy was read from.
	Text string
}

// versionBytes is how much of the hash of its text names a policy.
const versionBytes = 8

// Version names the policy: [VersionOf] its text.
func (p *Policy) Version() string { return VersionOf(p.Text) }

// VersionOf names the text of a policy: the first 16 hex digits of its SHA-256. The same text has the same version in
// every process, and `sha256sum` finds the file that a version belongs to.
func VersionOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:versionBytes])
}

// Category is how one category's notifications are throttled.
type Category struct {
	// Name is the category's name: 1 to 64 of A-Z a-z 0-9 . _ -
	Name string
	// Plan are the rules for one user in the category: the limits in the order of the file, then the minimum gap, then
	// the user cap, then the named caps. Of limits over the same window it holds the smallest. A plan without rules
	// throttles nothing.
	Plan throttle.Plan
	// MaxDefer is how long a notification may wait for its slot before it ends as expired. Defaults to 24 hours,
	// and to 48 where quiet hours or a calendar limit hold it.
	MaxDefer time.Duration
	// Bypass is true when the category's notifications are delivered at once. They still count in the user's windows.
	Bypass bool
	// Digest is how what waits in it goes as one message; nil for not.
	Digest *Digest
	// Quiet is what becomes of its notifications in quiet hours. Defaults to [Hold].
	Quiet Then
	// Overflow is what becomes of more than its limits let go; nil keeps everything.
	Overflow notification.Ladder
}

// Category looks a category up by its name.
func (p *Policy) Category(name string) (Category, bool) {
	c, ok := p.Categories[name]
	return c, ok
}

// BypassFrom is the least urgent priority that is delivered at once in a category, see [notification.Priority.AtLeast]:
// the lowest when the whole category bypasses, else the policy's bypass priority. Zero means that none is.
func (p *Policy) BypassFrom(c Category) notification.Priority {
	if c.Bypass {
		return notification.PriorityLow
	}
	return p.BypassPriority
}

//go:embed default.yaml
var defaultText string

// Default is the built-in policy, which is in force when no policy file is set.
func Default() *Policy {
	p, err := Parse(BuiltIn, []byte(defaultText))
	if err != nil {
		// The text is part of the program and has a test, so this is a fault of the build.
		panic(fmt.Sprintf("built-in policy: %v", err))
	}
	return p
}
