package retime_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/retime"
	"github.com/pacer-notify/pacer/test/redistest"
)

// What a process decided by a policy that no other had is decided again, although the others went on to one with
// the limits that they had before.
func TestAPolicyThatOnlySomeHadIsNotForgotten(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	a, b := newProcess(t, client, old), newProcess(t, client, old)
	a.accept("ada", 10)
	a.work()
	a.load(newest)
	a.step()
	a.work() // by a policy that b will never have
	a.Changed(effective.Change{Before: newest, After: alike})
	a.step()
	b.Changed(effective.Change{Before: old, After: alike, SameLimits: true})
	b.step()
	a.step()
	if got := progress(t.Context(), t, client); got.Version != alike || got.Users != 1 || !got.UnderWay() {
		t.Fatalf("want a pass over ada: %+v", got)
	}
	a.step()
	b.step()
	if got := progress(t.Context(), t, client); got.UnderWay() || got.Done != 1 || !got.Everywhere {
		t.Errorf("want the pass to have ended, and no other: %+v", got)
	}
}

// The end of a night stays spread when the policy changes again before all have begun again, and no longer.
func TestALaterChangeKeepsTheSpread(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	a := newProcess(t, client, old)
	a.accept("ada", 2)
	a.work()
	rate := func() string {
		t.Helper()
		a.step()
		got, err := client.HGet(t.Context(), retime.Key, "rate").Result()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	a.Changed(effective.Change{Before: old, After: newest, Over: 10 * time.Minute})
	a.Changed(effective.Change{Before: newest, After: brief})
	if got := rate(); got != "1" {
		t.Errorf("before a pass has begun, a second change has a pass of %s users a second", got)
	}
	a.Changed(effective.Change{Before: brief, After: newest})
	if got := rate(); got != "1" {
		t.Errorf("while the pass is under way, a third change has one of %s users a second", got)
	}
	if err := client.HSet(t.Context(), retime.Key, "ended", "1").Err(); err != nil {
		t.Fatal(err)
	}
	a.Changed(effective.Change{Before: newest, After: old})
	if got := rate(); got != strconv.Itoa(retime.Rate) {
		t.Errorf("after its end, a change has a pass of %s users a second", got)
	}
}

// beginSlowPass has a process begin a pass over a hundred users of one partition, who go over that time, and makes a
// change once some of them have gone. It returns a channel that is closed when the change is made.
func beginSlowPass(
	t *testing.T, client redis.UniversalClient, a *process, over time.Duration, then effective.Change,
) (changed <-chan struct{}) {
	t.Helper()
	for i, users := 0, 0; users < 100; i++ {
		if user := fmt.Sprint("user", i); a.PartitionOf(user) == 0 {
			a.accept(user, 2)
			users++
		}
	}
	a.work()
	a.Changed(effective.Change{Before: old, After: newest, Over: over})
	a.step() // it begins the pass
	made := make(chan struct{})
	go func() {
		defer close(made)
		for t.Context().Err() == nil {
			if p, err := retime.Read(t.Context(), client); err == nil && p.Done > 0 {
				a.Changed(then)
				return
			}
		}
	}()
	return made
}

// A process leaves a pass that is slow for a change: the others wait for it to be ready.
func TestAChangeDoesNotWaitForASlowPass(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	a := newProcess(t, client, old)
	beginSlowPass(t, client, a, time.Hour, effective.Change{Before: newest, After: alike})
	a.step()
	if claim, err := client.HGet(t.Context(), retime.Key, "c0").Result(); err != nil || claim == "done" {
		t.Fatalf("the change has waited for the partition, which is %s, %v", claim, err)
	}
	a.step()
	if a.Ready() != alike {
		t.Errorf("it is ready for %s", a.Ready())
	}
	if got := progress(t.Context(), t, client); got.Version != alike || !got.UnderWay() {
		t.Errorf("want a new pass: %+v", got)
	}
}

// A change with the same limits does not interrupt a pass, which goes on under its name.
func TestAChangeOfNothingInterruptsNoPass(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	a := newProcess(t, client, old)
	changed := beginSlowPass(t, client, a, 3*time.Second,
		effective.Change{Before: newest, After: alike, SameLimits: true})
	a.step()
	<-changed // a slow machine makes it after the pass
	if claim, err := client.HGet(t.Context(), retime.Key, "c0").Result(); err != nil || claim != "done" {
		t.Errorf("the partition is %s, %v; want it done", claim, err)
	}
	a.step()
	if got := progress(t.Context(), t, client); got.Version != alike || got.UnderWay() || a.Ready() != alike {
		t.Errorf("want the pass to have ended under the new name: %+v", got)
	}
}

// Redis loses the number of the passes: each process goes on with the new ones.
func TestPassesAreCountedAnew(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	a, b := newProcess(t, client, old), newProcess(t, client, old)
	a.accept("ada", 10)
	a.work()
	for _, p := range []*process{a, b} {
		p.load(newest)
		p.step()
	}
	for range 3 {
		a.step()
		b.step()
	}
	if err := client.HSet(t.Context(), retime.Key, "pass", "40").Err(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*process{a, b} {
		p.Changed(effective.Change{Before: newest, After: alike})
		p.step()
	}
	if err := client.Del(t.Context(), retime.Key).Err(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		a.step()
		b.step()
	}
	if n, err := client.HGet(t.Context(), retime.Key, "pass").Int(); n != 1 || err != nil {
		t.Errorf("there were %d passes, %v; want one", n, err)
	}
}

// A process that left a partition takes it again at once, although it told of it just now.
func TestAPartitionThatWasLeftIsTakenAgain(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	a := newProcess(t, client, old)
	a.accept("ada", 2)
	a.work()
	a.load(newest)
	a.step() // it begins the pass
	err := client.HSet(t.Context(), retime.Key, "c0", a.announce.ID()+" 9999999999999999", "d0", "1").Err()
	if err != nil {
		t.Fatal(err)
	}
	a.step()
	if got := progress(t.Context(), t, client); got.UnderWay() || got.Done != 1 {
		t.Errorf("want the pass to have ended: %+v", got)
	}
}
