package mailbox_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/redistest"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// crowd is many callers who share one pipeline, half of them with something that a full Redis refuses.
type crowd struct {
	t       *testing.T
	store   *mailbox.Store
	limiter throttle.Limiter
	// first are the limiter's answers before Redis was full.
	first []throttle.Decision
}

const callers = 400

func user(i int) string { return "user" + strconv.Itoa(i) }

// plan of a caller: no two may come again at the same moment.
func (c *crowd) plan(i int) throttle.Plan {
	return throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Hour + time.Duration(i)*time.Minute}}}
}

func (c *crowd) key(i int) throttle.Key { return throttle.Key{User: user(i), Category: "chat"} }

// prepare gives each caller notifications and, to one of two, an admission.
func (c *crowd) prepare() {
	c.t.Helper()
	c.first = make([]throttle.Decision, callers)
	for i := range callers {
		entries := []mailbox.Entry{{ID: user(i) + "-a", UserID: user(i), Category: "chat", Priority: notification.PriorityNormal}}
		if i%2 == 0 {
			// With two in line the question needs all the functions, whose first write is one that a full Redis refuses.
			entries = append(entries, mailbox.Entry{ID: user(i) + "-b", UserID: user(i), Category: "chat", Priority: notification.PriorityNormal})
		}
		if _, err := c.store.Put(c.t.Context(), c.store.LaneOf(user(i)), entries); err != nil {
			c.t.Fatal(err)
		}
		if i%2 == 0 {
			continue
		}
		d, err := c.limiter.Allow(c.t.Context(), c.key(i), c.plan(i), "first")
		if err != nil {
			c.t.Fatal(err)
		}
		c.first[i] = d
	}
}

// take asks for a caller's tick, and tells what is wrong with the answer.
func (c *crowd) take(i int) error {
	box := dispatch.MailboxOf(user(i), "chat", c.store.Lanes())
	answer, err := c.store.Take(c.t.Context(), dispatch.Question{Tick: dispatch.Tick{ID: user(i) + "-a", Mailbox: box}, Nonce: "take", Pulled: true})
	switch {
	case err != nil && strings.Contains(err.Error(), "OOM"):
		return nil
	case err != nil:
		return err
	case answer.Granted == nil || answer.Granted.ID != user(i)+"-a":
		return errors.New("a foreign answer to a take")
	}
	return nil
}

func (c *crowd) allow(i int) error {
	d, err := c.limiter.Allow(c.t.Context(), c.key(i), c.plan(i), "second")
	switch {
	case err != nil && strings.Contains(err.Error(), "OOM"):
		return nil
	case err != nil:
		return err
	case i%2 == 0:
		return errors.New("an admission that was not written")
	case d.Allowed || d.At.Sub(c.first[i].At) != c.plan(i).Rules[0].Per:
		return errors.New("a foreign answer of the limiter")
	}
	return nil
}

// A full Redis refuses some of what callers ask together: each gets its own answer or that error, whoever asks beside it.
func TestAFullRedisGivesEachCallerItsOwnAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	options := redis.DefaultBlockingAutoPipelineOptions()
	options.FullDuplex = true
	pipe, err := server.Client(t).AutoPipelineWithOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, limiter: throttle.NewRedis(pipe, func(user string) string { return user + ":" })}
	c.store, err = mailbox.New(pipe, mailbox.Config{Lanes: 2, Terms: func(string, string) mailbox.Terms { return mailbox.Terms{MaxDefer: time.Hour} }})
	if err != nil {
		t.Fatal(err)
	}
	c.prepare()
	server.ConfigSet("maxmemory", "1")
	faults := make([]error, 2*callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { faults[2*i] = c.take(i) })
		all.Go(func() { faults[2*i+1] = c.allow(i) })
	}
	all.Wait()
	wrong := map[string]int{}
	for _, err := range faults {
		if err != nil {
			wrong[err.Error()]++
		}
	}
	if len(wrong) > 0 {
		t.Errorf("of %d callers: %v", 2*callers, wrong)
	}
}
