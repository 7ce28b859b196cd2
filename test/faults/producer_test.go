//go:build faults

package faults_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// item is a notification as producers hand it over.
type item map[string]any

// items are n notifications for each of some users, of whom each gets one before any gets the next.
func (d *deployment) items(prefix string, users, n int) []item {
	var all []item
	for i := range users * n {
		key := fmt.Sprint(prefix, i)
		one := item{"id": key, "title": key, "user_id": fmt.Sprint("user", i%users), "to": d.target}
		if d.scenario.body > 0 {
			one["body"] = incompressible(d.scenario.body)
		}
		if red() && d.scenario.without.anonymous {
			delete(one, "id")
		}
		all = append(all, one)
	}
	return all
}

// incompressible is text that Postgres can't make smaller.
func incompressible(size int) string {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(rand.Text())
	}
	return b.String()[:size]
}

// bulkReply is what became of a request with several notifications.
type bulkReply struct {
	Accepted int
	Results  []struct {
		Index int
		Error string
	}
}

// post hands notifications to the API of a process. It reports whether all of them are known to be accepted, or refused
// for a reason that the producer takes. The first reason that it does not take is kept for those who wonder.
func (d *deployment) post(w *worker, items []item, takes func(one item, why string) bool) bool {
	body, err := json.Marshal(items)
	if err != nil {
		d.fail("encode notifications: %v", err)
	}
	var reply bulkReply
	status, _ := call(http.MethodPost, "http://"+w.front+"/v1/notifications/bulk?results=errors", body, &reply)
	d.mu.Lock()
	defer d.mu.Unlock()
	if status != http.StatusOK || reply.Accepted+len(reply.Results) != len(items) {
		d.notAccepted = fmt.Sprintf("status %d", status)
		return false
	}
	refused := map[int]bool{}
	for _, result := range reply.Results {
		if refused[result.Index] = true; takes == nil || !takes(items[result.Index], result.Error) {
			d.notAccepted = fmt.Sprintf("%v: %s", items[result.Index], result.Error)
			return false
		}
	}
	for i, one := range items {
		if !refused[i] {
			d.accepted = append(d.accepted, fmt.Sprint(one["title"]))
		}
	}
	return true
}

// acceptedSoFar counts what is known to be accepted.
func (d *deployment) acceptedSoFar() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.accepted)
}

// insist hands notifications over again and again, to one process after the other, until all are accepted or refused
// for a reason that the producer takes; nil takes none. Otherwise it blames the deployment.
func (d *deployment) insist(items []item, patience time.Duration, takes func(one item, why string) bool) bool {
	turn := 0
	done := eventually(patience, func() bool {
		turn++
		workers := d.processes()
		return d.post(workers[turn%len(workers)], items, takes)
	})
	if !done {
		d.blame("accepting does not go on: %s", d.whyNot())
	}
	return done
}

// whyNot is why the latest request was not accepted.
func (d *deployment) whyNot() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.notAccepted
}

const (
	// loadItems and loadBytes are how many notifications a request holds before the fault at most, and how many bytes
	// of texts: the API takes no more than 16 MiB.
	loadItems, loadBytes = 5000, 8 << 20
)

// load accepts notifications before the fault.
func (d *deployment) load(users, n int) {
	per := min(loadItems, loadBytes/max(1, d.scenario.body))
	for part := range slices.Chunk(d.items("before", users, n), per) {
		if !d.insist(part, 30*time.Second, nil) {
			d.fail("notifications were not accepted before the fault: %s", d.whyNot())
		}
	}
}

// produce goes on to accept during and after the fault, one of each user at a time. What is returned waits until all is
// accepted.
func (d *deployment) produce(users, n int) (wait func()) {
	done := make(chan struct{})
	items := d.items("during", users, n)
	go func() {
		defer close(done)
		for part := range slices.Chunk(items, users) {
			if !d.insist(part, 90*time.Second, nil) {
				return
			}
			<-time.After(500 * time.Millisecond)
		}
	}()
	return func() { <-done }
}
