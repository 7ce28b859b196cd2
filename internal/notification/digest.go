package notification

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Digest is what goes as one message.
type Digest struct {
	// ID is that of its carrier, the notification that is sent for all of them.
	ID string
	// Count is how many there are in all, Omitted how many of them are not among the Items.
	Count, Omitted int
	// OldestAt and NewestAt are when the first and the last of them were accepted.
	OldestAt, NewestAt time.Time
	// Items are those that the message shows, in the order in which they came.
	Items []*Notification
}

// digestBytes is how much text and data the items of a digest may have together.
const digestBytes = 1 << 20

// NewDigest makes the notification that is sent for some, of which carrier is one. It shows the newest of them, or the
// oldest, at most so many, and has the title and the body of the newest. The same ones always make the same.
func NewDigest(carrier *Notification, all []*Notification, shown int, oldest bool) *Notification {
	all = slices.SortedFunc(slices.Values(all), func(a, b *Notification) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.ID, b.ID))
	})
	newest := all[len(all)-1]
	d := &Digest{
		ID: carrier.ID, Count: len(all), OldestAt: all[0].CreatedAt, NewestAt: newest.CreatedAt,
		Items: shownOf(all, shown, oldest),
	}
	d.Omitted = d.Count - len(d.Items)
	n := *carrier
	n.Title, n.Body, n.Data, n.Override, n.Digest = newest.Title, newest.Body, newest.Data, newest.Override, d
	n.CollapseKey = "" // it stands for several
	return &n
}

// WithMore is the notification with the number of those that it stands for beside itself behind its text.
func (n *Notification) WithMore() *Notification {
	more := *n
	text := &more.Body
	if *text == "" {
		text = &more.Title
	}
	*text = strings.TrimSpace(fmt.Sprintf("%s (and %d more)", *text, n.Digest.Count-1))
	return &more
}

// shownOf are those that a digest shows, as far as there is room for them: one at least.
func shownOf(all []*Notification, most int, oldest bool) []*Notification {
	most = min(most, len(all))
	shown := all[len(all)-most:]
	if oldest {
		shown = all[:most]
	}
	size := func() (bytes int) {
		for _, n := range shown {
			bytes += len(n.Title) + len(n.Body) + len(n.Data)
		}
		return bytes
	}
	for len(shown) > 1 && size() > digestBytes {
		if oldest {
			shown = shown[:len(shown)-1]
		} else {
			shown = shown[1:]
		}
	}
	return shown
}
