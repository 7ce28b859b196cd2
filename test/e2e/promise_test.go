//go:build accept

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/redistest"
)

const (
	// promiseUsers is how many users there are, in groups of three categories with plans of their own. Each is sent
	// promisedEach with a promise, behind others without.
	promiseUsers, promiseGroups, promisedEach = 500, 25, 11
	// promiseEvery is how often a user's are accepted: a promise that is made while accepts queue up begins late, and
	// so does all that stands behind it.
	promiseEvery = 40 * time.Millisecond
	// longestPromise is how far ahead a promise may be to be waited for.
	longestPromise = 100 * time.Second
)

// nightUntil is a policy whose quiet hours began ten minutes before a full minute ends them, in UTC.
func nightUntil(end time.Time, spread time.Duration, categories string) string {
	clock := func(at time.Time) string { return at.UTC().Format("15:04") }
	return fmt.Sprintf(`version: 1
windows: {night: {closed: [{from: %q, to: %q}]}}
quiet_hours: {window: night, spread: %s}
categories:
%s`, clock(end.Add(-10*time.Minute)), clock(end), spread, categories)
}

// nextMinute is the first full minute that is at least so far ahead.
func nextMinute(ahead time.Duration) time.Time {
	return time.Now().Add(ahead + time.Minute - time.Microsecond).Truncate(time.Minute)
}

// promisePolicy makes random plans: windows, gaps, reserves, counters, limits of the calendar, quiet hours that end at
// a moment, and caps over several categories and on some channels.
func promisePolicy(r *rand.Rand, userCap string, nightEnds time.Time) string {
	var policy, caps strings.Builder
	policy.WriteString(nightUntil(nightEnds, 20*time.Second, "  default: {}\n"))
	limit := func(most, tenths int) string {
		return fmt.Sprintf("{max: %d, per: %dms}", 1+r.IntN(most), 1000+100*r.IntN(tenths))
	}
	for group := range promiseGroups {
		for i := range 3 {
			limits := []string{limit(4, 40)}
			if r.IntN(3) == 0 {
				limits = append(limits,
					fmt.Sprintf("{max: %d, per: %ds, reserve: {high: 1}}", 3+r.IntN(5), 6+r.IntN(5)))
			}
			more := ""
			switch r.IntN(6) {
			case 0:
				limits, more = limits[:1], ", algorithm: fixed_window"
			case 1:
				limits, more = limits[:1], ", algorithm: token_bucket"
			case 2:
				limits = append(limits, fmt.Sprintf("{max: %d, per: day}", 4+r.IntN(6)))
			}
			if r.IntN(3) == 0 {
				more += fmt.Sprintf(", min_gap: %dms", 100*(1+r.IntN(12)))
			}
			if r.IntN(3) > 0 {
				more += ", quiet_hours: {then: off}"
			}
			fmt.Fprintf(&policy, "  g%dc%d: {limits: [%s], max_defer: 480h%s}\n", group, i, strings.Join(limits, ", "), more)
		}
		for i := range 1 + r.IntN(2) {
			categories := fmt.Sprintf("g%dc0, g%dc1", group, group)
			if i == 1 {
				categories = fmt.Sprintf("g%dc1, g%dc2", group, group)
			}
			channels := []string{"", "channels: [webhook], "}[r.IntN(2)]
			fmt.Fprintf(&caps, "  - {name: cap%d-%d, categories: [%s], %slimits: [%s]}\n", group, i, categories, channels,
				limit(4, 30))
		}
	}
	return policy.String() + "caps:\n" + caps.String() + userCap
}

// promised is what was told of a notification.
type promised struct {
	ID        string
	DeliverAt time.Time `json:"deliver_at"`
	Reason    string
	item      item
	told      time.Time
}

// promises hands items over and gives what is told of each.
func (d *deployment) promises(w *worker, items []item) []promised {
	d.t.Helper()
	body, err := json.Marshal(items)
	if err != nil {
		d.t.Fatal(err)
	}
	response, err := apitest.Client.Post("http://"+w.api+"/v1/notifications/bulk?promise=true", "application/json",
		bytes.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	var reply struct {
		Accepted int
		Results  []promised
	}
	if err = json.NewDecoder(response.Body).Decode(&reply); err != nil || reply.Accepted != len(items) {
		d.t.Fatalf("accepted %d of %d: %v", reply.Accepted, len(items), err)
	}
	for i := range reply.Results {
		reply.Results[i].item, reply.Results[i].told = items[i], time.Now()
	}
	return reply.Results
}

// stalls watches for how long the machine keeps a program from running that has nothing to do.
type stalls struct {
	mu    sync.Mutex
	seen  []stall
	stop  chan struct{}
	ended chan struct{}
}

type stall struct {
	at   time.Time
	took time.Duration
}

func watchStalls() *stalls {
	s := &stalls{stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		const every = 2 * time.Millisecond
		for begin := time.Now(); ; {
			select {
			case <-s.stop:
				return
			case <-time.After(every):
			}
			now := time.Now()
			if over := now.Sub(begin) - every; over > 2*time.Millisecond {
				s.mu.Lock()
				s.seen = append(s.seen, stall{begin, over})
				s.mu.Unlock()
			}
			begin = now
		}
	}()
	return s
}

// between adds up the stalls between two moments.
func (s *stalls) between(from, until time.Time) (sum time.Duration) {
	for _, one := range s.seen {
		if one.at.After(from.Add(-one.took)) && one.at.Before(until) {
			sum += one.took
		}
	}
	return sum
}

// Each of 10,000 notifications goes when it was promised: with random places, plans, caps, limits of the calendar and
// quiet hours that end meanwhile. What is late by no more than the machine stood still since the promise is on time:
// each moment that a slot is late moves those behind it.
func TestPromisesAreKept(t *testing.T) {
	for name, userCap := range map[string]string{
		"NamedCaps": "", "UserCap": "user_cap: {limits: [{max: 6, per: 3s}]}\n",
	} {
		t.Run(name, func(t *testing.T) { promisesAreKept(t, userCap) })
	}
}

func promisesAreKept(t *testing.T, userCap string) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	server, r := redistest.Start(t), newReceiver(t)
	d := &deployment{
		t: t, redis: server, url: server.URL(),
		policy: policyFile(t, promisePolicy(random, userCap, nextMinute(40*time.Second))),
		env:    []string{"PACER_LOG_FORMAT=json", "PACER_LOG_LEVEL=debug"},
	}
	w := d.start()
	hosts := r.onManyHosts(t)
	next := func(user int) item {
		return item{
			UserID: fmt.Sprint("user-", user), To: hosts[random.IntN(len(hosts))],
			Category: fmt.Sprintf("g%dc%d", user%promiseGroups, random.IntN(3)),
			Channel:  []string{"webhook", "webhook", "log"}[random.IntN(3)],
			Priority: []string{"high", "normal", "normal", "low"}[random.IntN(4)],
		}
	}
	watch := watchStalls()
	told := map[string]promised{}
	pace := time.NewTicker(promiseEvery)
	defer pace.Stop()
	for user := range promiseUsers {
		<-pace.C
		var others, asked []item
		for range random.IntN(12) {
			others = append(others, next(user))
		}
		for range promisedEach {
			asked = append(asked, next(user))
		}
		d.accept(w, others)
		for _, p := range d.promises(w, asked) {
			told[p.ID] = p
		}
	}
	latest := time.Now()
	for _, p := range told {
		if p.DeliverAt.After(latest) && time.Until(p.DeliverAt) < longestPromise {
			latest = p.DeliverAt
		}
	}
	<-time.After(time.Until(latest.Add(2 * time.Second)))
	close(watch.stop)
	<-watch.ended
	if err := w.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-w.exited; err != nil { // its log is whole then
		t.Errorf("the dispatcher exited with %v", err)
	}
	comparePromises(t, seed, told, latest, watch, admissions(t, w, r), r.deliveries())
}

// admissions are the moments at which notifications were admitted, as told to the receiver and in the log.
func admissions(t *testing.T, w *worker, r *receiver) map[string]time.Time {
	t.Helper()
	admitted := map[string]time.Time{}
	for _, g := range r.deliveries() {
		admitted[g.ID] = g.AdmittedAt.Time()
	}
	for _, found := range logged.FindAllStringSubmatch(w.log.String(), -1) {
		at, err := time.Parse(time.RFC3339Nano, found[2])
		if err != nil {
			t.Fatal(err)
		}
		admitted[found[1]] = at
	}
	return admitted
}

// comparePromises compares what was told with what happened.
func comparePromises(t *testing.T, seed uint64, told map[string]promised, latest time.Time, watch *stalls,
	admitted map[string]time.Time, got []delivery,
) {
	var raw, unexcused, sent []time.Duration
	arrived := map[string]time.Time{}
	for _, g := range got {
		arrived[g.ID] = g.Arrived
	}
	waited, missing, beyond, early, reasons := 0, 0, 0, 0, map[string]int{}
	for id, p := range told {
		at, went := admitted[id]
		if !went && p.DeliverAt.After(latest) {
			beyond++
			continue
		}
		if !went {
			missing++
			t.Logf("seed %d: %s, promised for %s for %s, never went", seed, id, p.DeliverAt, p.Reason)
			continue
		}
		if p.Reason != "" {
			waited++
			kind, _, _ := strings.Cut(p.Reason, " ")
			kind, _, _ = strings.Cut(kind, ":")
			reasons[kind]++
		}
		late := at.Sub(p.DeliverAt)
		raw = append(raw, late.Abs())
		if found, ok := arrived[id]; ok {
			sent = append(sent, found.Sub(p.DeliverAt).Abs())
		}
		if late < -20*time.Millisecond {
			early++
		}
		if late > 0 {
			late = max(0, late-watch.between(p.told, at))
		}
		unexcused = append(unexcused, late.Abs())
		if late.Abs() > 100*time.Millisecond {
			t.Logf("seed %d: %s, promised for %s for %s, goes %s later:\n%s", seed, id, p.DeliverAt, p.Reason,
				at.Sub(p.DeliverAt), promisedNear(told, admitted, p))
		}
	}
	slices.Sort(raw)
	slices.Sort(unexcused)
	slices.Sort(sent)
	t.Logf("%d promises, %d of them of something that waits %v: admitted otherwise than told by %s at p50, %s at p99, %s at "+
		"most; without the %s for which the machine stood still %s at p99, %s at most; delivered otherwise by %s at p50, %s "+
		"at p99, %s at most (%d webhooks); %d more than 20 ms early; %d never went, %d are beyond the test", len(told), waited, reasons,
		part(raw, 50), part(raw, 99), part(raw, 100), watch.between(time.Time{}, time.Now()).Round(time.Millisecond),
		part(unexcused, 99), part(unexcused, 100), part(sent, 50), part(sent, 99), part(sent, 100), len(sent), early,
		missing, beyond)
	if len(unexcused) < 5000 || waited < len(told)/2 || missing > 0 || part(unexcused, 99) > 20*time.Millisecond ||
		part(unexcused, 100) > 100*time.Millisecond {
		t.Errorf("seed %d: outside the bounds: 5,000 compared, each went, p99 20 ms, none 100 ms", seed)
	}
}

// promisedNear reports what the user of a promise was promised within ten seconds of it, and what came of that.
func promisedNear(told map[string]promised, admitted map[string]time.Time, of promised) string {
	var near []promised
	for _, p := range told {
		if p.item.UserID == of.item.UserID && p.DeliverAt.Sub(of.DeliverAt).Abs() < 10*time.Second {
			near = append(near, p)
		}
	}
	slices.SortFunc(near, func(a, b promised) int { return a.DeliverAt.Compare(b.DeliverAt) })
	var story strings.Builder
	for _, p := range near {
		came := "never went"
		if at, went := admitted[p.ID]; went {
			came = fmt.Sprintf("went %s later", at.Sub(p.DeliverAt))
		}
		fmt.Fprintf(&story, "  %s %s %s %s: %s for %s, %s\n", p.ID, p.item.Category, p.item.Channel,
			p.item.Priority, p.DeliverAt.Format("05.000000"), p.Reason, came)
	}
	return story.String()
}

// part is the percentile of sorted durations.
func part(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*percent/100].Round(10 * time.Microsecond)
}

// logged matches what the log channel writes of a delivery.
var logged = regexp.MustCompile(`"msg":"notification","notification_id":"([^"]+)".*"admitted_at":"([^"]+)"`)
