//go:build faults && soak

package faults_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// sent is what a producer knows of a notification.
type sent struct {
	user, category, collapse string
	// urgent ones go at once and are counted all the same.
	urgent           bool
	sequence         int
	notBefore, until time.Time // no time where there is no such bound
	cancelled        time.Time // when the API said that it is
	refused          bool      // it was handed over again after its time, and pacer had not got it
	// handed is when it was first handed over, accepted when the response arrived; batch is the request.
	handed, accepted time.Time
	batch            int
	devices          int // to how many devices it goes; 0 for one target
}

// traffic is what producers do, in all ways that there are.
type traffic struct {
	d       *deployment
	random  *rand.Rand
	stopped chan struct{}
	running sync.WaitGroup

	mu   sync.Mutex
	sent map[string]*sent
	next int
}

func newTraffic(d *deployment, random *rand.Rand) *traffic {
	return &traffic{d: d, random: random, stopped: make(chan struct{}), sent: map[string]*sent{}}
}

// fanOutUsers are so many users who have two devices each.
const fanOutUsers = 5

// begin registers devices, has the provider fail now and then, and starts the producers.
func (t *traffic) begin() {
	for i := range fanOutUsers {
		for _, device := range []string{"phone", "desk"} {
			body, err := json.Marshal(map[string]string{"channel": "webhook", "to": t.d.target + "/" + device})
			if err != nil {
				t.d.fail("%v", err)
			}
			url := fmt.Sprintf("http://%s/v1/users/fan%d/devices/%s", t.d.workers[0].api, i, device)
			t.d.await("a device is registered", 30*time.Second, func() bool {
				status, _ := call(http.MethodPut, url, body, nil)
				return status >= 200 && status < 300
			})
		}
	}
	for range 2 {
		t.running.Go(t.produce)
	}
}

// stop ends the producers.
func (t *traffic) stop() {
	close(t.stopped)
	t.running.Wait()
}

// produce hands over a few notifications twice a second. What is not known to be accepted is handed over again, until
// it is too late for it: then pacer must never have had it.
func (t *traffic) produce() {
	for {
		select {
		case <-t.stopped:
			return
		case <-time.After(500 * time.Millisecond):
		}
		items, keys := t.batch()
		refused := map[string]bool{}
		takes := func(one item, why string) bool {
			t.mu.Lock()
			defer t.mu.Unlock()
			key := fmt.Sprint(one["id"])
			until := t.sent[key].until
			refused[key] = !until.IsZero() && time.Now().After(until) && strings.HasPrefix(why, "expires_at")
			return refused[key]
		}
		if !t.d.insist(items, 3*time.Minute, takes) {
			return
		}
		t.mu.Lock()
		for _, key := range keys {
			if t.sent[key].refused = refused[key]; !refused[key] {
				t.sent[key].accepted = time.Now()
			}
		}
		t.mu.Unlock()
		t.cancelSome(keys)
	}
}

// batch makes some notifications, most of them plain ones.
func (t *traffic) batch() (items []item, keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	batch := t.next + 1
	for range 5 + t.random.IntN(10) {
		t.next++
		key := fmt.Sprint("soak", t.next)
		s := &sent{
			user: fmt.Sprint("user", t.random.IntN(t.d.scenario.users)), category: "default", sequence: t.next,
			batch: batch, handed: time.Now(),
		}
		one := item{"id": key, "title": key, "to": t.d.target}
		t.vary(s, one)
		one["user_id"], one["category"] = s.user, s.category
		t.sent[key] = s
		items, keys = append(items, one), append(keys, key)
	}
	return items, keys
}

// vary gives a notification one of the things that notifications may have.
func (t *traffic) vary(s *sent, one item) {
	now := time.Now()
	switch n := t.random.IntN(100); {
	case n < 15:
		s.collapse = fmt.Sprint("key", t.random.IntN(3))
		one["collapse_key"] = s.collapse
	case n < 22:
		s.until = now.Add(time.Duration(1+t.random.IntN(8)) * time.Second).UTC().Truncate(time.Second)
		s.until = s.until.Add(time.Second)
		one["expires_at"] = s.until.Format(time.RFC3339)
	case n < 29:
		s.notBefore = now.Add(time.Duration(1+t.random.IntN(8)) * time.Second).UTC().Truncate(time.Second)
		one["send_at"] = s.notBefore.Format(time.RFC3339)
	case n < 33:
		s.urgent = true
		one["priority"] = "critical"
	case n < 36:
		s.category, s.urgent = "security", true
	case n < 41:
		one["priority"] = []string{"high", "low"}[t.random.IntN(2)]
	case n < 46:
		s.user, s.devices = fmt.Sprint("fan", t.random.IntN(fanOutUsers)), 2
		delete(one, "to")
	}
}

// cancelSome takes one in twenty back, if it can.
func (t *traffic) cancelSome(keys []string) {
	for _, key := range keys {
		t.mu.Lock()
		chosen := t.random.IntN(20) == 0
		t.mu.Unlock()
		if !chosen {
			continue
		}
		workers := t.d.processes()
		status, _ := call(http.MethodDelete, "http://"+workers[0].front+"/v1/notifications/"+key, nil, nil)
		if status == http.StatusOK {
			t.mu.Lock()
			t.sent[key].cancelled = time.Now()
			t.mu.Unlock()
		}
	}
}

// all are the notifications that were handed over and accepted.
func (t *traffic) all() map[string]*sent {
	t.mu.Lock()
	defer t.mu.Unlock()
	accepted := map[string]*sent{}
	for key, s := range t.sent {
		if !s.accepted.IsZero() {
			accepted[key] = s
		}
	}
	return accepted
}

// refused are those that were handed over again after their time, and that pacer had not got by then.
func (t *traffic) refused() map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	refused := map[string]bool{}
	for key, s := range t.sent {
		if s.refused {
			refused[key] = true
		}
	}
	return refused
}
