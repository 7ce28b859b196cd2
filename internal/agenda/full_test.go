package agenda_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// crowd is many callers who share one pipeline, half of them with something that a full Redis refuses.
type crowd struct {
	t       *testing.T
	store   *agenda.Agendas
	limiter throttle.Limiter
	// first are the limiter's decisions before Redis was full.
	first   []throttle.Decision
	wakeups map[string]dispatch.Wakeup
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
		entries := []agenda.Entry{{
			ID: user(i) + "-a", UserID: user(i), Category: "chat", Priority: notification.PriorityNormal,
		}}
		if i%2 == 0 {
			entries = append(entries, agenda.Entry{
				ID: user(i) + "-b", UserID: user(i), Category: "chat", Priority: notification.PriorityNormal,
			})
		}
		if _, err := c.store.Accept(c.t.Context(), c.store.PartitionOf(user(i)), entries); err != nil {
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

// pull has all wake-ups at work.
func (c *crowd) pull() {
	c.t.Helper()
	c.wakeups = map[string]dispatch.Wakeup{}
	for partition := range c.store.Partitions() {
		for number := 0; ; number++ {
			reply, err := c.store.Take(c.t.Context(), dispatch.TakeRequest{
				Partition: partition, ID: "pull " + strconv.Itoa(number), Pull: 50,
			})
			if err != nil {
				c.t.Fatal(err)
			}
			if len(reply.Pulled) == 0 {
				break
			}
			for _, w := range reply.Pulled {
				c.wakeups[w.UserID] = w
			}
		}
	}
	if len(c.wakeups) != callers {
		c.t.Fatalf("%d of %d wake-ups came", len(c.wakeups), callers)
	}
}

// take requests a caller's wake-up, and returns what is wrong with the reply.
func (c *crowd) take(i int) error {
	reply, err := c.store.Take(c.t.Context(), dispatch.TakeRequest{
		Partition: c.store.PartitionOf(user(i)), ID: user(i), Capacity: 1,
		Wakeups: []dispatch.Wakeup{c.wakeups[user(i)]},
	})
	switch {
	case err != nil && strings.Contains(err.Error(), "OOM"):
		return nil
	case err != nil:
		return err
	case len(reply.Results[0].Grants) != 1 || reply.Results[0].Grants[0].Notification.ID != user(i)+"-a":
		return errors.New("the reply to another take")
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
		return errors.New("the decision about another request")
	}
	return nil
}

// A full Redis refuses some of what callers request together. Each caller gets its own reply or that error, whatever
// the others request.
func TestAFullRedisGivesEachCallerItsOwnReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	options := redis.DefaultBlockingAutoPipelineOptions()
	options.FullDuplex = true
	pipe, err := server.Client(t).AutoPipelineWithOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, limiter: throttle.NewRedis(pipe, func(user string) string { return user + ":" })}
	c.store, err = agenda.New(pipe, agenda.Config{
		Partitions: 2, Settings: func(string, string) agenda.Settings { return agenda.Settings{MaxDefer: time.Hour} },
	})
	if err != nil {
		t.Fatal(err)
	}
	c.prepare()
	c.pull()
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

// A Redis that has hardly any memory left accepts nothing more. What it has is delivered.
func TestAFullRedisAcceptsNothing(t *testing.T) {
	t.Parallel()
	client, full := redistest.Client(t), false
	store, err := agenda.New(client, agenda.Config{
		Partitions: 1, Settings: func(string, string) agenda.Settings { return agenda.Settings{MaxDefer: time.Hour} },
		Full: func() bool { return full },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Accept(t.Context(), 0, []agenda.Entry{plain("a")}); err != nil {
		t.Fatal(err)
	}
	full = true
	if _, err := store.Accept(t.Context(), 0, []agenda.Entry{plain("b")}); !errors.Is(err, agenda.ErrFull) {
		t.Errorf("accept gives %v", err)
	}
	pulled, err := store.Take(t.Context(), dispatch.TakeRequest{ID: "a", Pull: 1})
	if err != nil {
		t.Fatal(err)
	}
	served, err := store.Take(t.Context(), dispatch.TakeRequest{ID: "b", Capacity: 1, Wakeups: pulled.Pulled})
	if err != nil || len(served.Results) != 1 || len(served.Results[0].Grants) != 1 {
		t.Errorf("served %+v, %v", served, err)
	}
}
