package chaos_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// ending is what the store says of a notification.
type ending struct {
	status, reason string
	ended          bool
}

// letters are the states of notifications on Redis, as internal/agenda has them.
var letters = map[string]string{
	"D": "delivered", "F": "failed", "E": "expired", "C": "cancelled", "R": "replaced",
	"q": "waiting", "t": "waiting", "r": "retrying", "s": "sending",
}

// ends asks the store for what has become of all, beside all steps.
func (w *world) ends() map[string]ending {
	found := map[string]ending{}
	if w.database != nil {
		_ = w.database.ask(time.Now(), "SELECT id, status, reason, ended_at IS NOT NULL FROM pacer.notifications",
			func(v []any) {
				ended, _ := v[3].(bool)
				found[fmt.Sprint(v[0])] = ending{fmt.Sprint(v[1]), fmt.Sprint(v[2]), ended}
			})
		return found
	}
	w.peek(func(ctx context.Context, client *redis.Client) {
		keys, _ := client.Keys(ctx, "pacer:{*}:n:*").Result() // none is found out below
		for _, key := range keys {
			fields := client.HMGet(ctx, key, "s", "y", "u").Val()
			if len(fields) < 3 || fields[2] == nil {
				continue
			}
			_, id, _ := strings.Cut(key, "}:n:")
			letter := fmt.Sprint(fields[0])
			found[id] = ending{letters[letter], fmt.Sprint(fields[1]), letter == strings.ToUpper(letter)}
		}
	})
	return found
}

// check gives every promise that the world broke.
func (w *world) check() []string {
	broken := slices.Clone(w.ledger.broken)
	broken = append(broken, w.checkEnds()...)
	broken = append(broken, w.checkLimits()...)
	broken = append(broken, w.checkNights()...)
	broken = append(broken, w.checkDays()...)
	broken = append(broken, w.checkTotals()...)
	for _, key := range w.leftovers() {
		broken = append(broken, "left over: "+key)
	}
	if w.Calm {
		broken = append(broken, w.checkOrder()...)
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}

// checkEnds is P1: whatever was accepted has one end, and one for which there is a reason.
func (w *world) checkEnds() []string {
	var broken []string
	ends := w.ends()
	for _, id := range w.ledger.ids {
		e := w.ledger.entries[id]
		end, known := ends[id]
		switch {
		case !e.accepted && e.expiresAt.IsZero():
			broken = append(broken, "P1: "+id+" was never accepted, however often it was repeated")
		case !e.accepted:
		case !known:
			broken = append(broken, "P1: "+id+" was accepted and is not known")
		case !end.ended:
			broken = append(broken, fmt.Sprintf("P1: %s was accepted and never ended: it is %s", id, end.status))
		default:
			if fault := w.checkEnd(e, end); fault != "" {
				broken = append(broken, fmt.Sprintf("P1: %s is %s (%s), %s", id, end.status, end.reason, fault))
			}
		}
	}
	return broken
}

// checkEnd reports what speaks against an end.
func (w *world) checkEnd(e *entry, end ending) string {
	confirmed := slices.ContainsFunc(e.deliveries, func(d *delivery) bool { return d.told && !d.settled.IsZero() })
	if confirmed && end.status != "delivered" {
		return "but it was delivered and that was written down"
	}
	switch notification.Status(end.status) {
	case notification.StatusDelivered:
		if len(e.deliveries) == 0 {
			return "but it never reached its provider"
		}
	case notification.StatusCancelled:
		if !e.cancelled && (end.reason != notification.ReasonOptedOut || !w.ledger.optOuts[e.User] ||
			e.Category != "chat") {
			return "but nobody asked for that"
		}
	case notification.StatusExpired:
		if e.expiresAt.IsZero() {
			return "but it has no expiry"
		}
	case notification.StatusReplaced:
		if e.Collapse == "" || !slices.ContainsFunc(w.ledger.ids, func(id string) bool {
			o := w.ledger.entries[id]
			return o != e && o.User == e.User && o.Category == e.Category && o.Collapse == e.Collapse
		}) {
			return "but nothing replaced it"
		}
	case notification.StatusFailed:
		crashed := end.reason == notification.ReasonCrashLoop || end.reason == notification.ReasonDigest
		if !w.ledger.refused[e.ID] && (!crashed || w.blows() < 3) &&
			!strings.HasPrefix(end.reason, notification.ReasonMaxAttempts) {
			return "but its provider did not refuse it"
		}
	case notification.StatusScheduled, notification.StatusQueued, notification.StatusDeferred,
		notification.StatusRetrying,
		notification.StatusSending:
	}
	return ""
}

// blows counts what may have kept a worker from writing its result.
func (w *world) blows() int {
	n := w.losses
	for kind, times := range w.faults {
		if !strings.HasSuffix(kind, "provider") {
			n += times
		}
	}
	return n
}

// checkLimits is P3: of everything that reached the provider, no rule was exceeded.
func (w *world) checkLimits() []string {
	var broken []string
	byUser := map[string][]*delivery{}
	entryOf := map[*delivery]*entry{}
	for _, id := range w.ledger.ids {
		e := w.ledger.entries[id]
		for _, d := range e.deliveries {
			if d.id == id { // a digest counts once
				byUser[e.User] = append(byUser[e.User], d)
				entryOf[d] = e
			}
		}
	}
	for user, all := range byUser {
		slices.SortStableFunc(all, func(a, b *delivery) int {
			return cmp.Or(cmp.Compare(a.admitted, b.admitted), cmp.Compare(a.place.round, b.place.round),
				cmp.Compare(a.place.number, b.place.number))
		})
		chat := func(d *delivery) bool { return entryOf[d].Category == "chat" }
		news := func(d *delivery) bool { return entryOf[d].Category == "news" }
		every := func(*delivery) bool { return true }
		per := time.Duration(w.Per) * time.Second
		bypasses := func(d *delivery) bool { return entryOf[d].bypasses() }
		for _, rule := range []struct {
			name   string
			counts func(*delivery) bool
			max    func(version int) int
			per    time.Duration
		}{
			{name: "chat", counts: chat, max: w.maxOf, per: per},
			{name: "gap", counts: chat, max: func(int) int { return 1 }, per: time.Duration(w.Gap) * time.Millisecond},
			{name: "news", counts: news, max: func(int) int { return w.Max + 1 }, per: per},
			{
				name: "cap", counts: every, max: func(int) int { return w.Cap },
				per: time.Duration(w.CapPer) * time.Second,
			},
			{
				name: "cap of both", counts: func(d *delivery) bool { return w.Both > 0 && entryOf[d].inBoth() },
				max: func(int) int { return w.Both }, per: seconds(w.BothPer),
			},
			{
				name: "cap of push", counts: func(d *delivery) bool { return w.Push > 0 && entryOf[d].inPush() },
				max: func(int) int { return w.Push }, per: seconds(w.PushPer),
			},
		} {
			for i, d := range all {
				if !rule.counts(d) {
					continue
				}
				var before []throttle.Micros
				for _, earlier := range all[:i] {
					if rule.counts(earlier) && !w.forgotten(earlier, d) {
						before = append(before, earlier.admitted)
					}
				}
				at := d.admitted.Time()
				most := w.mostOf(at.Add(-rule.per-time.Second), at.Add(time.Second), rule.max)
				if n := len(before); n >= most && !bypasses(d) && d.admitted.Sub(before[n-most]) < rule.per {
					broken = append(broken, fmt.Sprintf("P3: %s of %s exceeds the %s of %d in %s by %s", entryOf[d].ID,
						user, rule.name, most,
						rule.per, rule.per-d.admitted.Sub(before[n-most])))
				}
			}
		}
	}
	return broken
}

// totals are the counts that a process tells.
func (w *world) totals() (stats.Counts, error) {
	p := w.procs[0]
	if p.postgres != nil && w.mutation != "totals are those of Redis" {
		return p.postgres.Stats(context.Background())
	}
	return outlook.Of(p.agendas).Stats(context.Background())
}

// checkTotals is P13: the counts say what happened.
func (w *world) checkTotals() []string {
	total, err := w.totals()
	if err != nil {
		return []string{"P13: the totals can't be read: " + err.Error()}
	}
	want := map[string]int64{}
	accepted := int64(0)
	for _, end := range w.ends() {
		want[end.status]++
		accepted++
	}
	var broken []string
	for _, c := range []struct {
		name      string
		is, wants int64
	}{
		{name: "accepted", is: total.Totals.Accepted, wants: accepted},
		{name: "delivered", is: total.Totals.Delivered, wants: want["delivered"]},
		{name: "failed", is: total.Totals.Failed, wants: want["failed"]},
		{name: "expired", is: total.Totals.Expired, wants: want["expired"]},
		{name: "cancelled", is: total.Totals.Cancelled, wants: want["cancelled"]},
		{name: "replaced", is: total.Totals.Replaced, wants: want["replaced"]},
		{
			name: "waiting", is: total.Queued + total.Deferred + total.Scheduled + total.Retrying + total.Sending,
			wants: 0,
		},
	} {
		if c.is != c.wants {
			broken = append(broken, fmt.Sprintf("P13: the totals say %d %s, it were %d", c.is, c.name, c.wants))
		}
	}
	return broken
}

// checkOrder is P8, where nothing failed: of a user's notifications that might go, in whatever category, what had the
// better place went first.
func (w *world) checkOrder() []string {
	var broken []string
	for _, id := range w.ledger.ids {
		better := w.ledger.entries[id]
		for _, other := range w.ledger.ids {
			worse := w.ledger.entries[other]
			if better.User != worse.User || len(better.deliveries) == 0 || len(worse.deliveries) == 0 {
				continue
			}
			if better.SendIn > 0 || worse.SendIn > 0 || better.Collapse != "" || worse.Collapse != "" {
				continue
			}
			first := better.Priority < worse.Priority || better.Priority == worse.Priority &&
				better.acceptedAt.Before(worse.askedAt)
			late := worse.deliveries[0]
			if first && late.id == other && throttle.MicrosOf(better.acceptedAt) < throttle.MicrosOf(late.granted) &&
				late.admitted < better.deliveries[0].admitted &&
				(better.Category == worse.Category || !worse.bypasses() && w.mightGo(better, late)) {
				broken = append(broken, fmt.Sprintf("P8: %s went before %s", other, id))
			}
		}
	}
	return broken
}

// bypasses reports whether a notification goes at once, whatever its limits.
func (e *entry) bypasses() bool {
	return e.Priority <= int(notification.PriorityCritical) || e.Category == "urgent"
}

// mightGo reports whether the limits of its own category and its named caps would have let a notification go when
// another one was admitted. Grants ahead of their moment count from the round that made them.
func (w *world) mightGo(e *entry, other *delivery) bool {
	at := other.admitted
	if e.bypasses() { // while a limit is full, right after what was granted ahead, see [throttle.Window.Bypass]
		return !slices.ContainsFunc(w.ledger.all, func(d *delivery) bool {
			return w.ledger.entries[d.id].User == e.User && d.admitted > at && other.mayFollow(d)
		})
	}
	if w.Night > 0 && w.mayBeAsleep(e, at) {
		return false
	}
	for _, rule := range w.planOf(e.Category, 0).Rules {
		n := 0
		for _, d := range w.ledger.all {
			o := w.ledger.entries[d.id]
			concerns := o.User == e.User && (o.Category == e.Category || rule.Cap != "")
			counted := d.admitted <= at || other.mayFollow(d)
			if concerns && counted && at.Sub(d.admitted) < rule.Per {
				n++
			}
		}
		if n >= rule.Max {
			return false
		}
	}
	return true
}
