package notification

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// Filter says which notifications to list. An empty field selects all.
type Filter struct {
	UserID string
	// Statuses are the statuses that it may have; none stands for all.
	Statuses []Status
	Category string
	Channel  Channel
	// Reason is how its reason begins: "permanent" selects "permanent: 400".
	Reason string
	// Host is the host of its target, see [HostOf].
	Host string
	// Since is the earliest moment of acceptance, Until the first moment that is too late.
	Since, Until time.Time
	// Text is a part of its title or body, in any case, or how its id begins.
	Text string
	// Limit is how many to list, at least 1.
	Limit int
	// Cursor continues where a page ended: it is that page's [Page.Next].
	Cursor string
}

// Matches reports whether a notification is one of those that the filter selects.
func (f *Filter) Matches(v *View) bool {
	text := strings.ToLower(f.Text)
	return (f.UserID == "" || v.UserID == f.UserID) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, v.Status)) &&
		(f.Category == "" || v.Category == f.Category) &&
		(f.Channel == "" || v.Channel == f.Channel) &&
		strings.HasPrefix(v.Reason, f.Reason) &&
		(f.Host == "" || HostOf(v.To) == strings.ToLower(f.Host)) &&
		(f.Since.IsZero() || !v.CreatedAt.Before(f.Since)) &&
		(f.Until.IsZero() || v.CreatedAt.Before(f.Until)) &&
		(f.Text == "" || strings.Contains(strings.ToLower(v.Title), text) ||
			strings.Contains(strings.ToLower(v.Body), text) || strings.HasPrefix(v.ID, f.Text))
}

// Decides reports whether [Filter.Matches] is right about a view. It may not be about a partial one, which lacks what
// the notification waits for.
func (f *Filter) Decides(v *View) bool {
	if !v.Partial {
		return true
	}
	anyReason, other := *f, *v
	anyReason.Reason = ""
	might, must := false, f.Reason == ""
	for _, other.Status = range []Status{v.Status, StatusScheduled, StatusQueued, StatusDeferred} {
		matches := anyReason.Matches(&other)
		might, must = might || matches, must && matches
	}
	return must || !might
}

// hostOf finds the host in a URL, also when the URL stands in the JSON of a subscription. Postgres has the same
// expression in pacer.host_of.
var hostOf = regexp.MustCompile(`://(?:[^/?#@"]*@)?(\[[^]/?#"]*\]|[^]/:?#"[]+)`)

// HostOf is the host of a target in lower case, without its port; "" when the target names none, as a device token.
func HostOf(target string) string {
	found := hostOf.FindStringSubmatch(target)
	if found == nil {
		return ""
	}
	return strings.ToLower(found[1])
}

// Page is a part of a listing. Its order is the store's: newest first, unless Note says otherwise.
type Page struct {
	Items []View
	// Next is the cursor of the next page; empty at the end. A page may hold fewer than the limit although there is a
	// next one: a store looks at a bounded number of notifications for a page.
	Next string
	// Note says, in a sentence for people, what the store does not keep or could not tell; empty when there is nothing
	// to say.
	Note string
	// Partial is true when the store did not tell all in time: what waits may look queued, or be missing from those
	// that the filter asks for.
	Partial bool
}

// Found are the ids of a [Page] of notifications that may match a filter. A store does not look whether a notification
// that waits is scheduled, queued or deferred: whoever asks has to look at those.
type Found struct {
	IDs  []string
	Next string
}

// Statuses lists all statuses, in the order of a notification's life.
func Statuses() []Status {
	return []Status{
		StatusScheduled, StatusQueued, StatusDeferred, StatusSending, StatusRetrying,
		StatusDelivered, StatusFailed, StatusExpired, StatusCancelled, StatusReplaced,
	}
}
