package demo_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/demo"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/apitest"
)

// The demo's policy is one, and is closed in its nights and open between them, whatever the time of day.
func TestTheNightsAreThoseOfThePolicy(t *testing.T) {
	t.Parallel()
	for _, now := range []string{
		"2026-11-22T12:00:00Z", "2026-11-22T12:00:50Z", "2026-11-22T23:52:10Z", "2026-11-22T23:59:59Z",
		"2026-11-23T05:15:00+05:45",
	} {
		t.Run(now, func(t *testing.T) {
			t.Parallel()
			at, err := time.Parse(time.RFC3339, now)
			if err != nil {
				t.Fatal(err)
			}
			nights := demo.Nights(at)
			p, err := policy.Parse("demo", []byte(demo.Policy(nights)))
			if err != nil {
				t.Fatal(err)
			}
			closed, _ := p.QuietHours.Hours.Next(throttle.MicrosOf(at), time.UTC)
			for i, night := range nights {
				if i >= len(closed) || closed[i].From != throttle.MicrosOf(night.Begins) ||
					closed[i].Until != throttle.MicrosOf(night.Ends) {
					t.Fatalf("night %d is %+v, the policy is closed in %v", i, night, closed)
				}
			}
			if first := nights[0]; first.Ends.Sub(at) < 20*time.Second || first.Begins.Sub(at) > time.Minute {
				t.Errorf("the first night is from %s to %s", first.Begins, first.Ends)
			}
			if p.QuietHours.ExemptFrom != notification.PriorityCritical || p.Categories["news"].Quiet != policy.Hold ||
				p.Categories["chat"].Quiet != policy.Off {
				t.Errorf("the policy is %+v", p)
			}
		})
	}
}

// api stands in for the process: it keeps what it is given.
type api struct {
	mu  sync.Mutex
	got []map[string]string
}

// ServeHTTP implements [http.Handler].
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		var body map[string]string
		_ = json.NewDecoder(r.Body).Decode(&body) // an empty one is not wanted below
		a.mu.Lock()
		defer a.mu.Unlock()
		a.got = append(a.got, body)
	}
	_, _ = w.Write([]byte("{}"))
}

// news are those that came of the category.
func (a *api) news() (all []map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.got {
		if one["category"] == "news" {
			all = append(all, one)
		}
	}
	return all
}

// commentary is what the demo says. One goroutine awaits it.
type commentary struct {
	mu      sync.Mutex
	lines   []string
	awaited int // the lines up to the last that was awaited
	changed chan struct{}
}

// Write implements [io.Writer].
func (c *commentary) Write(line []byte) (int, error) {
	c.mu.Lock()
	c.lines = append(c.lines, string(line))
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default: // there is something new already
	}
	return len(line), nil
}

// await waits until there is a line with each of the words, in any order, behind all that was awaited before. It
// returns the line with the first.
func (c *commentary) await(t *testing.T, words ...string) string {
	t.Helper()
	tooLong := time.After(time.Minute)
	for {
		c.mu.Lock()
		lines := slices.Clone(c.lines[c.awaited:])
		c.mu.Unlock()
		var at []int
		for _, w := range words {
			at = append(at, slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, w) }))
		}
		if !slices.Contains(at, -1) {
			c.awaited += slices.Max(at) + 1
			return lines[at[0]]
		}
		select {
		case <-c.changed:
		case <-tooLong:
			t.Fatalf("it does not say all of %q; it said\n%s", words, strings.Join(lines, ""))
		}
	}
}

// A night begins, news come and are held, it ends, and they arrive after its end.
func TestANightThatEnds(t *testing.T) {
	t.Parallel()
	fake, said := &api{}, &commentary{changed: make(chan struct{}, 1)}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	now := time.Now()
	player, err := demo.New(t.Context(), demo.Config{
		API: server.URL, Ops: "http://ops", Policy: "/tmp/policy.yaml", Out: said,
		Nights: []demo.Night{{Begins: now.Add(100 * time.Millisecond), Ends: now.Add(700 * time.Millisecond)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := player.Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(running.Wait) // the context of the test has ended by then
	said.await(t, "the policy is /tmp/policy.yaml; edit it")
	said.await(t, "it is night until ")
	said.await(t, "news at night; 8 held until morning, in ")
	said.await(t, "it is morning: the 8 held notifications go out")
	held := fake.news()[0]
	body, err := json.Marshal(map[string]string{
		"id": "n", "user_id": held["user_id"], "category": held["category"], "title": held["title"],
	})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, held["to"], bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := apitest.Once.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	// The day goes on by itself, before the arrival or after it.
	line := said.await(t, "arrive  eve", "news by day: nothing to wait for")
	if !strings.Contains(line, "s after the night's end") {
		t.Errorf("it says %s", line)
	}
}
