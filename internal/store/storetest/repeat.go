package storetest

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// change makes one field of a notification another; it may be told of in the API under name.
type change struct {
	name string
	make func(*notification.Notification)
}

// changes has one for every field that a producer writes, in the order in which differences are listed.
var changes = []change{
	{name: "user_id", make: func(n *notification.Notification) { n.UserID += " the second" }},
	{name: "category", make: func(n *notification.Notification) { n.Category = "slow" }},
	{name: "to", make: func(n *notification.Notification) { n.To += "/2" }},
	{name: "title", make: func(n *notification.Notification) { n.Title += "!" }},
	{name: "body", make: func(n *notification.Notification) { n.Body = "" }},
	{name: "data", make: func(n *notification.Notification) { n.Data = json.RawMessage(`{"a":[1,3]}`) }},
	{name: "log", make: func(n *notification.Notification) { n.Override = json.RawMessage(`{"level":"warn"}`) }},
	{name: "priority", make: func(n *notification.Notification) { n.Priority = notification.PriorityHigh }},
	{name: "send_at", make: func(n *notification.Notification) { n.SendAt = n.SendAt.Add(time.Millisecond) }},
	{name: "expires_at", make: func(n *notification.Notification) { n.ExpiresAt = time.Time{} }},
	{name: "collapse_key", make: func(n *notification.Notification) { n.CollapseKey = "" }},
	{name: "group_key", make: func(n *notification.Notification) { n.GroupKey += "2" }},
}

// repeatsAreCompared: whatever differs between a notification and the first with its id, the store has kept it, while
// it waits, in one batch with others, and after its end.
func repeatsAreCompared(p *probe) {
	var first, again []*notification.Notification
	var want [][]string
	ahead := time.Now().Add(time.Hour)
	for range 40 {
		n := p.notification(func(n *notification.Notification) {
			n.Title, n.Body = "title <&>", "body\n"
			n.Data = json.RawMessage(`{"a": [1, 2.50], "b": {"c": null, "d": 1e2}}`)
			n.SendAt, n.ExpiresAt, n.CollapseKey = ahead, ahead.Add(time.Hour), n.ID
		})
		repeat, differ := *n, []string(nil)
		repeat.Data = json.RawMessage(`{"b":{"d":100,"c":null},"a":[1,2.5]}`) // the same in other words
		for _, c := range changes {
			if rand.IntN(len(changes)) == 0 {
				c.make(&repeat)
				differ = append(differ, c.name)
			}
		}
		first, again, want = append(first, n), append(again, &repeat), append(want, differ)
	}
	p.acceptAll(first...)
	for _, n := range first[:10] {
		if err := p.Cancel(p.Context(), n.ID); err != nil {
			p.Fatalf("cancel %s: %v", n.ID, err)
		}
	}
	for i, a := range p.acceptAll(again...) {
		if !a.Known || a.First == nil {
			p.Fatalf("the repeat of %s: %+v, want it known with the first", again[i].ID, a)
		}
		if diff := cmp.Diff(want[i], again[i].Differences(a.First)); diff != "" {
			p.Errorf("what differs in %s (-want +got):\n%s", again[i].ID, diff)
		}
	}
}

// idIsOneUsers: an id that a producer chose is one user's in the whole deployment, also when it has the form of those
// that pacer makes.
func idIsOneUsers(p *probe) {
	of := func(id string, partition int) *notification.Notification {
		return p.notification(func(n *notification.Notification) {
			n.ID = id
			for i := 0; dispatch.PartitionOf(n.UserID, Partitions) != partition; i++ {
				n.UserID = "user" + strconv.Itoa(i)
			}
		})
	}
	for _, id := range []string{
		"chosen", "0193e4d2-7f5a-4c3b-8a90-1b2c3d4e5f60", "0193e4d2-7f5a-7c3b-8a90-1b2c3d4e5f60",
	} {
		first, second := of(id, 0), of(id, 1)
		if a := p.acceptAll(first)[0]; a.Known {
			p.Fatalf("%s for %s: %+v", id, first.UserID, a)
		}
		if a := p.acceptAll(second)[0]; !a.Known || a.First == nil || a.First.UserID != first.UserID {
			p.Errorf("%s for %s, too: %+v", id, second.UserID, a)
		}
		if v := p.want(id, notification.StatusQueued, 0, ""); v.UserID != first.UserID {
			p.Errorf("%s is shown as that of %s", id, v.UserID)
		}
	}
}
