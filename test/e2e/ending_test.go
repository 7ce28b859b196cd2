//go:build accept

package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// endingPolicy lets 100,000 of one user wait for their turn as slow; as short nothing but the first has one.
const endingPolicy = `version: 1
categories:
  default: {limits: []}
  slow: {limits: [{max: 1, per: 2s}], max_defer: 72h}
  short: {limits: [{max: 1, per: 1h}], max_defer: 5s}
`

// others is what users of the same partition went through while all of one user ended.
type others struct {
	accepting, waits []time.Duration
	took             time.Duration
}

// p99 is 0 of nothing.
func p99(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[len(all)*99/100]
}

// beside has users of ada's partition get one each, every few milliseconds, until nothing of hers waits.
func (d *deployment) beside(r *receiver) others {
	d.t.Helper()
	var o others
	begin, accepted, next := time.Now(), map[string]time.Time{}, neighbours()
	for s := d.stats(d.workers[0]); s.Queued+s.Deferred > 0; s = d.stats(d.workers[0]) {
		if time.Since(begin) > 2*time.Minute {
			d.t.Fatalf("ada's have not ended after %s: %+v", time.Since(begin), s)
		}
		asked := time.Now()
		ids := d.accept(d.workers[len(accepted)%len(d.workers)], []item{{UserID: next(), To: r.server.URL}})
		accepted[ids[0]] = asked
		o.accepting = append(o.accepting, time.Since(asked))
		<-time.After(5 * time.Millisecond)
	}
	o.took = time.Since(begin)
	d.drain(d.workers[0], time.Minute)
	for _, g := range r.deliveries() {
		if g.User != "ada" {
			o.waits = append(o.waits, g.Arrived.Sub(accepted[g.ID]))
		}
	}
	if lost, duplicates := compare(slices.Collect(maps.Keys(accepted)), r.deliveries()); lost+duplicates > 0 {
		d.t.Errorf("of the other users' %d lost, %d doubled", lost, duplicates)
	}
	return o
}

// neighbours gives user after user of ada's partition.
func neighbours() func() string {
	number := 0
	return func() string {
		for {
			number++
			if user := "other-" + strconv.Itoa(number); dispatch.PartitionOf(user, 16) == dispatch.PartitionOf("ada",
				16) {
				return user
			}
		}
	}
}

// checkEnded holds that each of so many was delivered by the moment or expired, and that everything is counted as it
// was.
func (d *deployment) checkEnded(r *receiver, accepted int, moment time.Time) {
	d.t.Helper()
	s, got := d.stats(d.workers[0]), r.deliveries()
	var want stats
	want.Totals.Accepted, want.Totals.Delivered, want.Totals.Attempts = int64(accepted), int64(len(got)),
		int64(len(got))
	want.Totals.Expired = int64(accepted - len(got))
	want.Totals.Pulls, want.Totals.Deferrals = s.Totals.Pulls, s.Totals.Deferrals
	if s != want {
		d.t.Errorf("counted are %+v, want %+v", s, want)
	}
	for _, g := range got {
		// A slot that close is granted ahead of its moment.
		if late := g.AdmittedAt.Time().Sub(moment); g.User == "ada" && late > 10*time.Millisecond {
			d.t.Errorf("one of ada's was admitted %s after all of them had expired", late)
		}
	}
}

// What ends together of one user, because it expires or would wait for too long, keeps no other user of the partition
// waiting.
func TestManyOfOneUserEndTogether(t *testing.T) {
	const many = 100_000
	for why, begin := range map[string]func(t *testing.T, d *deployment, to string) time.Time{
		"expires_at": func(t *testing.T, d *deployment, to string) time.Time {
			t.Helper()
			return d.untilExpired(many, to, 40*time.Second)
		},
		"max_defer": func(t *testing.T, d *deployment, to string) time.Time {
			t.Helper()
			return d.untilRefused(many, to)
		},
	} {
		t.Run(why, func(t *testing.T) {
			d, r := deploy(t, endingPolicy, 2), newReceiver(t)
			moment := begin(t, d, r.server.URL)
			o := d.beside(r)
			d.checkEnded(r, many+len(o.waits), moment)
			t.Logf("%d of one user end together by %s, in %s: meanwhile %d others of their partition got one each, accepted after %s at p99, delivered after %s at p99, %s at most",
				many, why, o.took.Round(10*time.Millisecond), len(o.waits), p99(o.accepting).Round(time.Millisecond),
				p99(o.waits).Round(time.Millisecond), slices.Max(o.waits).Round(time.Millisecond))
			if len(o.waits) < 20 || p99(o.waits) > time.Second {
				t.Error("outside the bounds: 20 others, 1 s at p99")
			}
		})
	}
}

// The same of the in-process Redis, where each script takes many times as long.
func TestManyOfOneUserExpireEmbedded(t *testing.T) {
	const many = 2000
	d, r := deployEmbedded(t, endingPolicy), newReceiver(t)
	moment := d.untilExpired(many, r.server.URL, 20*time.Second)
	o := d.beside(r)
	d.checkEnded(r, many+len(o.waits), moment)
	t.Logf("%d of one user expire together in the in-process Redis, in %s: meanwhile %d others of their partition were accepted after %s at most and got theirs after %s at most",
		many, o.took.Round(10*time.Millisecond), len(o.waits), slices.Max(o.accepting).Round(time.Millisecond),
		slices.Max(o.waits).Round(time.Millisecond))
	if slices.Max(o.accepting) > time.Second || slices.Max(o.waits) > time.Second {
		t.Error("outside the bounds: accepted and delivered within 1 s")
	}
}

// untilExpired has so many of ada's wait and expire at one moment, gives that, and returns shortly before it.
func (d *deployment) untilExpired(many int, to string, life time.Duration) time.Time {
	d.t.Helper()
	moment := time.Now().Add(life)
	d.accept(d.workers[0], slices.Repeat([]item{{UserID: "ada", Category: "slow", To: to, ExpiresAt: moment}}, many))
	if time.Now().After(moment) {
		d.t.Fatalf("accepting %d took longer than %s", many, life)
	}
	<-time.After(time.Until(moment) - 50*time.Millisecond)
	if s := d.stats(d.workers[0]); s.Totals.Expired > 0 || s.Deferred < int64(many)-int64(life/time.Second) {
		d.t.Fatalf("they do not wait: %+v", s)
	}
	return moment
}

// untilRefused has so many of ada's wait in a queue that is paused as asynq's tools do it: when it goes on all but the
// first would wait for too long. It gives the moment at which it does.
func (d *deployment) untilRefused(many int, to string) time.Time {
	d.t.Helper()
	client, paused := d.redis.Client(d.t), fmt.Sprintf("asynq:{push-%d}:paused", dispatch.PartitionOf("ada", 16))
	if err := client.Set(d.t.Context(), paused, time.Now().Unix(), 0).Err(); err != nil {
		d.t.Fatal(err)
	}
	d.accept(d.workers[0], crowd("ada", "short", to, many))
	if s := d.stats(d.workers[0]); s.Queued != int64(many) {
		d.t.Fatalf("they do not wait: %+v", s)
	}
	if err := client.Del(d.t.Context(), paused).Err(); err != nil {
		d.t.Fatal(err)
	}
	return time.Now().Add(5 * time.Second) // the first one's
}
