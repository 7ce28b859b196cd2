package storetest

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// The ends that a listed notification may come to; the empty one leaves it waiting.
var listedEnds = []dispatch.Outcome{
	wasDelivered,
	{Disposition: dispatch.Failed, Reason: "permanent: 400"},
	{Disposition: dispatch.Failed, Reason: "permanent: 410"},
	{Disposition: dispatch.Expired, Reason: notification.ReasonMaxDefer},
	{Disposition: dispatch.Cancelled, Reason: notification.ReasonOptedOut},
	{Disposition: dispatch.Retry, Reason: "transient: 503", Failure: true, RetryAfter: time.Hour},
}

var (
	listedTargets = []string{
		"", "token", "https://Ada@Hooks.example:8443/x", "http://[::1]/y", "ada@example.com",
		`{"endpoint":"https://push.example/send/1","keys":{}}`, "https://push.example.org/hooks.example@push.example",
	}
	listedTexts = []string{
		"", "Your order", "ORDER shipped", "100% off_ 'now' \\", strings.Repeat("a long text ", 100) + "with an Order",
	}
)

// listWorld accepts notifications of all kinds and ends most of them. It returns them as the store shows them.
func listWorld(p *probe, random *rand.Rand) []notification.View {
	p.Helper()
	const size = 120
	pick := func(of []string) string { return of[random.IntN(len(of))] }
	outcomes := map[string]dispatch.Outcome{}
	var ids []string
	for i := range size {
		n := p.accept(func(n *notification.Notification) {
			n.UserID, n.Channel = pick([]string{"ada", "ben", "cleo"}), notification.ChannelLog
			n.To, n.Title, n.Body = pick(listedTargets), pick(listedTexts), pick(listedTexts)
			if i%3 == 0 {
				n.Channel = notification.ChannelWebhook
			}
			switch i % 10 {
			case 0:
				n.Category = "slow" // most of it is deferred
			case 1:
				n.SendAt = time.Now().Add(time.Hour)
			}
		})
		ids = append(ids, n.ID)
		outcomes[n.ID] = listedEnds[random.IntN(len(listedEnds))]
	}
	for quiet := 0; quiet < 3; quiet++ {
		p.look()
		for _, g := range p.granted {
			p.settle(g, outcomes[g.Notification.ID])
			quiet = 0
		}
		p.granted = nil
	}
	views := make([]notification.View, len(ids))
	for i, id := range ids {
		views[i] = *p.lookUp(id)
		views[i].Timeline = nil
	}
	return views
}

// randomFilter makes a filter of some fields, most with values that occur.
func randomFilter(random *rand.Rand, all []notification.View) notification.Filter {
	like := all[random.IntN(len(all))]
	reason, _, _ := strings.Cut(like.Reason, " ")
	text := []string{"order", "% off_", "'NOW' \\", like.ID[:1], like.ID}[random.IntN(5)]
	f := notification.Filter{
		UserID: sometimes(random, like.UserID), Category: sometimes(random, like.Category),
		Channel: sometimes(random, like.Channel), Reason: sometimes(random, reason),
		Host: sometimes(random, strings.ToUpper(notification.HostOf(like.To))), Text: sometimes(random, text),
		Since: sometimes(random, like.CreatedAt), Until: sometimes(random, like.CreatedAt),
	}
	switch random.IntN(16) {
	case 0, 1, 2, 3:
	case 4, 5, 6:
		f.Statuses = []notification.Status{like.Status}
	default:
		for _, s := range notification.Statuses() {
			if random.IntN(3) == 0 {
				f.Statuses = append(f.Statuses, s)
			}
		}
	}
	return f
}

// sometimes is a value, or none more often.
func sometimes[T any](random *rand.Rand, value T) (none T) {
	if random.IntN(4) == 0 {
		return value
	}
	return none
}

// filters is how many random filters list everything, page by page: each takes some 0.4 s on the Redis in this process.
var filters = flag.Int("filters", 10, "list with so many random filters")

// listed: whatever the filter and the size of the pages, all pages together list exactly what the filter selects. What
// may match holds all of it.
func listed(p *probe) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	all := listWorld(p, random)
	for range *filters {
		f := randomFilter(random, all)
		f.Limit = 1 + random.IntN(40)
		var want []string
		for i := range slices.Backward(all) {
			if f.Matches(&all[i]) {
				want = append(want, all[i].ID)
			}
		}
		got, ordered := p.listAll(f, all)
		if !ordered {
			slices.Sort(got)
			slices.Sort(want)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			p.Fatalf("seed %d: %+v lists (want -, got +):\n%s", seed, f, diff)
		}
		found := p.findAll(f)
		for _, id := range want {
			if !slices.Contains(found, id) {
				p.Fatalf("seed %d: %+v does not find %s", seed, f, id)
			}
		}
	}
}

// listAll goes through all pages, and checks that each notification is listed as the store shows it. Where the store
// does not say otherwise, its order is that of time.
func (p *probe) listAll(f notification.Filter, all []notification.View) (ids []string, ordered bool) {
	p.Helper()
	for pages := 0; ; pages++ {
		page, err := p.List(p.Context(), f)
		if err != nil || len(page.Items) > f.Limit || pages > 2*len(all) {
			p.Fatalf("page %d of %+v: %d items, %v", pages, f, len(page.Items), err)
		}
		ordered = page.Note == ""
		for i := range page.Items {
			ids = append(ids, page.Items[i].ID)
			at := slices.IndexFunc(all, func(v notification.View) bool { return v.ID == page.Items[i].ID })
			shown := page.Items[i]
			shown.DeliverAt, shown.Timeline = all[at].DeliverAt, nil
			if diff := cmp.Diff(all[at], shown); diff != "" {
				p.Fatalf("%s is listed differently (shown -, listed +):\n%s", shown.ID, diff)
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return ids, ordered
		}
	}
}

// findAll goes through all pages of ids.
func (p *probe) findAll(f notification.Filter) []string {
	p.Helper()
	var ids []string
	for {
		page, err := p.Find(p.Context(), f)
		if err != nil || len(page.IDs) > f.Limit {
			p.Fatalf("find %+v: %d ids, %v", f, len(page.IDs), err)
		}
		ids = append(ids, page.IDs...)
		if f.Cursor = page.Next; f.Cursor == "" {
			return ids
		}
	}
}

// listedWaiting: what waits is listed by what it waits for, which changes without the notification.
func listedWaiting(p *probe) {
	slow := func(n *notification.Notification) { n.Category = "slow" }
	first, second := p.accept(slow), p.accept(slow)
	later := p.accept(func(n *notification.Notification) { n.SendAt = time.Now().Add(time.Hour) })
	list := func(statuses ...notification.Status) string {
		page, err := p.List(p.Context(), notification.Filter{Statuses: statuses, Limit: 10})
		if err != nil {
			p.Fatal(err)
		}
		var ids []string
		for i := range page.Items {
			ids = append(ids, page.Items[i].ID)
		}
		slices.Sort(ids)
		return strings.Join(ids, " ")
	}
	if got := list(notification.StatusQueued); got != first.ID+" "+second.ID {
		p.Errorf("queued are %q", got)
	}
	p.grant()
	p.wantNoGrant("the second is granted too")
	for status, want := range map[notification.Status]string{
		notification.StatusSending: first.ID, notification.StatusDeferred: second.ID,
		notification.StatusScheduled: later.ID, notification.StatusQueued: "",
	} {
		if got := list(status); got != want {
			p.Errorf("%s are %q, want %q", status, got, want)
		}
	}
}

// foreignCursors: a cursor that no listing gave is refused, and not read as another place.
func foreignCursors(p *probe) {
	for _, cursor := range []string{"made-up", "!", "AAAA"} {
		f := notification.Filter{Limit: 1, Cursor: cursor}
		_, listErr := p.List(p.Context(), f)
		_, findErr := p.Find(p.Context(), f)
		for _, err := range []error{listErr, findErr} {
			if faults := notification.FieldErrors(err); len(faults) != 1 || faults[0].Field != "cursor" {
				p.Errorf("cursor %q: %v", cursor, err)
			}
		}
	}
}
