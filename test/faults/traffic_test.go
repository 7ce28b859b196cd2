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
func (x *traffic) begin() {
	for i := range fanOutUsers {
		for _, device := range []string{"phone", "desk"} {
			body, err := json.Marshal(map[string]string{"channel": "webhook", "to": x.d.target + "/" + device})
			if err != nil {
				x.d.fail("%v", err)
			}
			url := fmt.Sprintf("http://%s/v1/users/fan%d/devices/%s", x.d.workers[0].api, i, device)
			x.d.await("a device is registered", 30*time.Second, func() bool {
				status, _ := call(http.MethodPut, url, body, nil)
				return status >= 200 && status < 300
			})
		}
	}
	for range 2 {
		x.running.Go(x.produce)
	}
}

// stop ends the producers.
func (x *traffic) stop() {
	close(x.stopped)
	x.running.Wait()
}

// produce hands over a few notifications twice a second. What is not known to be accepted is handed over again, until
// it is too late for it: then pacer must never have had it.
func (x *traffic) produce() {
	for {
		select {
		case <-x.stopped:
			return
		case <-time.After(500 * time.Millisecond):
		}
		items, keys := x.batch()
		refused := map[string]bool{}
		takes := func(one item, why string) bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			key := fmt.Sprint(one["id"])
			until := x.sent[key].until
			refused[key] = !until.IsZero() && time.Now().After(until) && strings.HasPrefix(why, "expires_at")
			return refused[key]
		}
		if !x.d.insist(items, 3*time.Minute, takes) {
			return
		}
		x.mu.Lock()
		for _, key := range keys {
			if x.sent[key].refused = refused[key]; !refused[key] {
				x.sent[key].accepted = time.Now()
			}
		}
		x.mu.Unlock()
		x.cancelSome(keys)
	}
}

// batch makes some notifications, most of them plain ones.
func (x *traffic) batch() (items []item, keys []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	batch := x.next + 1
	for range 5 + x.random.IntN(10) {
		x.next++
		key := fmt.Sprint("soak", x.next)
		s := &sent{
			user: fmt.Sprint("user", x.random.IntN(x.d.scenario.users)), category: "default", sequence: x.next,
			batch: batch, handed: time.Now(),
		}
		one := item{"id": key, "title": key, "to": x.d.target}
		x.vary(s, one)
		one["user_id"], one["category"] = s.user, s.category
		x.sent[key] = s
		items, keys = append(items, one), append(keys, key)
	}
	return items, keys
}

// vary gives a notification one of the things that notifications may have.
func (x *traffic) vary(s *sent, one item) {
	now := time.Now()
	switch n := x.random.IntN(100); {
	case n < 15:
		s.collapse = fmt.Sprint("key", x.random.IntN(3))
		one["collapse_key"] = s.collapse
	case n < 22:
		s.until = now.Add(time.Duration(1+x.random.IntN(8)) * time.Second).UTC().Truncate(time.Second)
		s.until = s.until.Add(time.Second)
		one["expires_at"] = s.until.Format(time.RFC3339)
	case n < 29:
		s.notBefore = now.Add(time.Duration(1+x.random.IntN(8)) * time.Second).UTC().Truncate(time.Second)
		one["send_at"] = s.notBefore.Format(time.RFC3339)
	case n < 33:
		s.urgent = true
		one["priority"] = "critical"
	case n < 36:
		s.category, s.urgent = "security", true
	case n < 41:
		one["priority"] = []string{"high", "low"}[x.random.IntN(2)]
	case n < 46:
		s.user, s.devices = fmt.Sprint("fan", x.random.IntN(fanOutUsers)), 2
		delete(one, "to")
	}
}

// cancelSome takes one in twenty back, if it can.
func (x *traffic) cancelSome(keys []string) {
	for _, key := range keys {
		x.mu.Lock()
		chosen := x.random.IntN(20) == 0
		x.mu.Unlock()
		if !chosen {
			continue
		}
		workers := x.d.processes()
		status, _ := call(http.MethodDelete, "http://"+workers[0].front+"/v1/notifications/"+key, nil, nil)
		if status == http.StatusOK {
			x.mu.Lock()
			x.sent[key].cancelled = time.Now()
			x.mu.Unlock()
		}
	}
}

// all are the notifications that were handed over and accepted.
func (x *traffic) all() map[string]*sent {
	x.mu.Lock()
	defer x.mu.Unlock()
	accepted := map[string]*sent{}
	for key, s := range x.sent {
		if !s.accepted.IsZero() {
			accepted[key] = s
		}
	}
	return accepted
}

// refused are those that were handed over again after their time, and that pacer had not got by then.
func (x *traffic) refused() map[string]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	refused := map[string]bool{}
	for key, s := range x.sent {
		if s.refused {
			refused[key] = true
		}
	}
	return refused
}
