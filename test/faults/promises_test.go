//go:build faults && soak

package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// check checks every promise over all that a soak accepted.
func (r *soakReport) check(d *deployment, t *traffic) {
	all, calls := t.all(), d.receiver.deliveries()
	ends, err := d.ends()
	if err != nil {
		r.blame("read the store: %v", err)
		return
	}
	r.say("%d accepted, %d calls to the provider", len(all), len(calls))
	r.checkRefused(t.refused(), calls)
	r.checkEnds(all, ends, calls)
	r.checkDoubles(d, all, calls)
	r.checkTimes(all, calls)
	r.checkCollapse(all, calls)
	r.checkLimits(all, calls)
	r.checkTotals(d, ends)
	r.flat()
}

// ends returns the status of every notification in the store.
func (d *deployment) ends() (map[string]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.postgres.URL())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, "SELECT id, status FROM pacer.notifications")
	if err != nil {
		return nil, err
	}
	ends := map[string]string{}
	var id, status string
	_, err = pgx.ForEachRow(rows, []any{&id, &status}, func() error { ends[id] = status; return nil })
	return ends, err
}

// checkRefused: what was refused for its time was not delivered. It may stand in the store as expired, when a request
// that nobody waited for any more still got there.
func (r *soakReport) checkRefused(refused map[string]bool, calls []delivery) {
	r.say("%d refused, since they were handed over again after their time", len(refused))
	for _, c := range calls {
		if refused[c.key] {
			r.blame("%s was delivered, and a repeat of it was refused", c.key)
		}
	}
}

// checkEnds: what was accepted ends, and as delivered only if the provider took it (P1).
func (r *soakReport) checkEnds(all map[string]*sent, ends map[string]string, calls []delivery) {
	taken, count := map[string]bool{}, map[string]int{}
	for _, c := range calls {
		if c.accepted {
			taken[c.key] = true
		}
	}
	lost := 0
	for key, s := range all {
		status := ends[key]
		count[status]++
		switch status {
		case "delivered":
			if !taken[key] {
				lost++
			}
		case "cancelled":
			if s.cancelled.IsZero() {
				count["cancelled without a response"]++ // the response was lost on its way
			}
		case "expired":
			if s.until.IsZero() {
				r.blame("%s expired without a time to", key)
			}
		case "replaced":
			if s.collapse == "" {
				r.blame("%s was replaced without a collapse key", key)
			}
		case "failed":
			r.blame("%s failed", key)
		default:
			lost++
		}
	}
	r.say("ends: %v, lost %d", count, lost)
	if lost > 0 {
		r.blame("%d lost", lost)
	}
}

// checkDoubles: never the same attempt twice; another attempt only for what was in flight when a fault came (P2).
func (r *soakReport) checkDoubles(d *deployment, all map[string]*sent, calls []delivery) {
	type call struct {
		key, device string
		attempt     int
	}
	attempts, taken, again, doubled := map[call]int{}, map[call]int{}, 0, 0
	for _, c := range calls {
		attempts[call{c.key, c.device, c.attempt}]++
		if c.accepted && all[c.key] != nil {
			taken[call{key: c.key, device: c.device}]++
		}
	}
	for _, n := range attempts {
		again += n - 1
	}
	for _, n := range taken {
		doubled += n - 1
	}
	r.say("doubled %d (%d were in flight when faults came), of them with the same attempt %d", doubled, d.inFlight,
		again)
	if again > 0 {
		r.blame("%d calls repeat an attempt", again)
	}
	if doubled > d.inFlight {
		r.blame("%d came twice", doubled)
	}
}

// checkTimes: nothing before its time, after it has expired, or after it was cancelled. Times are Redis's, admission's.
func (r *soakReport) checkTimes(all map[string]*sent, calls []delivery) {
	early, late, cancelled := 0, 0, 0
	for _, c := range calls {
		s := all[c.key]
		if s == nil {
			continue
		}
		admitted := time.UnixMicro(int64(c.admitted))
		if !s.notBefore.IsZero() && admitted.Before(s.notBefore) {
			early++
		}
		if !s.until.IsZero() && admitted.After(s.until) {
			late++
		}
		if !s.cancelled.IsZero() && admitted.After(s.cancelled) {
			cancelled++
		}
	}
	if early+late+cancelled > 0 {
		r.blame("%d before their time, %d after they expired, %d after they were cancelled", early, late, cancelled)
	}
}

// checkCollapse: what was replaced does not come after what replaced it (P12). The order of two is known when they came
// in one request, or when the one had been accepted before the other was handed over.
func (r *soakReport) checkCollapse(all map[string]*sent, calls []delivery) {
	lines, older := map[string][]*sent{}, 0
	for _, c := range calls {
		s := all[c.key]
		if s == nil || s.collapse == "" || !c.accepted {
			continue
		}
		line := s.user + " " + s.collapse
		for _, before := range lines[line] {
			if before.batch == s.batch && s.sequence < before.sequence || s.accepted.Before(before.handed) {
				older++
				break
			}
		}
		lines[line] = append(lines[line], s)
	}
	if older > 0 {
		r.blame("%d were delivered after what replaced them", older)
	}
}

// checkLimits: at any admission that is subject to a limit the window before it, urgent ones included, is within it
// (P3).
func (r *soakReport) checkLimits(all map[string]*sent, calls []delivery) {
	type admission struct {
		at      throttle.Micros
		key     string
		attempt int
		urgent  bool
	}
	users, seen := map[string][]admission{}, map[string]bool{}
	for _, c := range calls {
		s := all[c.key]
		// A notification to several devices has one admission for each attempt.
		if one := fmt.Sprint(c.key, " ", c.attempt); s != nil && s.category == "default" && !seen[one] {
			seen[one] = true
			users[c.user] = append(users[c.user], admission{c.admitted, c.key, c.attempt, s.urgent})
		}
	}
	broken := 0
	for user, admitted := range users {
		slices.SortFunc(admitted, func(a, b admission) int { return int(a.at - b.at) })
		for _, rule := range rules {
			for i := rule.Max; i < len(admitted); i++ {
				if !admitted[i].urgent && admitted[i].at.Sub(admitted[i-rule.Max].at) < rule.Per {
					broken++
					r.blame("user %s, at most %d within %s: %+v", user, rule.Max, rule.Per, admitted[i-rule.Max:i+1])
				}
			}
		}
	}
	r.say("violations %d", broken)
}

// checkTotals: the totals are what the store says (P13).
func (r *soakReport) checkTotals(d *deployment, ends map[string]string) {
	count := map[string]int{"accepted": len(ends)}
	for _, status := range ends {
		count[status]++
	}
	var reply struct{ Totals map[string]int }
	if status, _ := call(http.MethodGet, "http://"+d.workers[0].api+"/v1/stats", nil,
		&reply); status != http.StatusOK {
		r.blame("the API does not tell the totals: %d", status)
		return
	}
	for _, name := range []string{"accepted", "delivered", "failed", "expired", "cancelled", "replaced"} {
		if reply.Totals[name] != count[name] {
			r.blame("total %s is %d, the store has %d", name, reply.Totals[name], count[name])
		}
	}
}
