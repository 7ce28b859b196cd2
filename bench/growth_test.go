//go:build growth

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// growthPolicy lets one go to each user: what else there is waits for ten minutes and more.
const growthPolicy = `version: 1
categories:
  default: {limits: [{max: 1, per: 10m}]}
  free: {limits: [{max: 1000, per: 1h}]}
`

// perUser is how many of a backlog wait for one user.
const perUser = 100

// delivered is how many notifications are delivered to see what one costs.
const delivered = 20_000

// What one notification costs, in Redis's time, scripts and memory, as the backlog and the users grow; and how many a
// second several processes deliver on one and three servers. GROWTH_DOCS=../docs/measurements writes the tables into scale.md.
func TestGrowth(t *testing.T) {
	sections := []func(*testing.T) [][]string{backlogs, oneBacklog, deferredOfUsers, crowdsOfUsers, machines}
	var text strings.Builder
	for _, section := range sections {
		table := markdown(section(t))
		t.Log("\n" + table)
		text.WriteString(table + "\n")
	}
	if folder := os.Getenv("GROWTH_DOCS"); folder != "" {
		if err := between(filepath.Join(folder, "scale.md"), text.String()); err != nil {
			t.Fatal(err)
		}
	}
}

// of is a notification of a user.
func of(user, category string) notification.Notification {
	return notification.Notification{UserID: user, Category: category, Channel: notification.ChannelLog, Title: "hello", Body: "something has happened"}
}

// backlogs lets so many wait and delivers others beside them.
func backlogs(t *testing.T) [][]string {
	rows := [][]string{{"deferred", "memory each, all keys", "beside them, delivered a second", "scripts each", "Redis CPU each", "process CPU each"}}
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		store, p := begin(t, growthPolicy)
		before := store.memory(t)
		fill(t, p, n)
		each := float64(store.memory(t)-before) / float64(n)
		c := measure(t, store, p, func(i int) notification.Notification { return of(fmt.Sprint("free-", i), "free") }, delivered)
		rows = append(rows, []string{fmt.Sprint(n), fmt.Sprintf("%.0f B", each), perSecond(c.rate), fmt.Sprintf("%.2f", c.scripts), micros(c.redis), micros(c.process)})
		end(t, p)
	}
	return rows
}

// fill has n wait, deferred.
func fill(t *testing.T, p *pacer, n int) {
	t.Helper()
	users := n / perUser
	// One of each user goes at once.
	waits(t, p, n+users, n, func(i int) notification.Notification { return of(fmt.Sprint("user-", i%users), "default") })
}

// waits accepts some, starts the process and waits until so many are deferred.
func waits(t *testing.T, p *pacer, accepted, n int, make func(int) notification.Notification) {
	t.Helper()
	if err := p.accept(t.Context(), accepted, make); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitDeferred(t, p, n)
}

// deferred asks the API how many are.
func deferred(t *testing.T, p *pacer) int {
	t.Helper()
	response, err := http.Get("http://" + p.Addr() + "/v1/stats") //nolint:noctx // a measurement
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var stats struct{ Deferred int }
	if err := json.NewDecoder(response.Body).Decode(&stats); err != nil {
		t.Fatal(err)
	}
	return stats.Deferred
}

// crowdsOfUsers delivers one to each of so many users.
func crowdsOfUsers(t *testing.T) [][]string {
	rows := [][]string{{"users with one delivered", "memory each", "of it, the windows", "delivered a second", "scripts each", "Redis CPU each", "process CPU each"}}
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		store, p := begin(t, growthPolicy)
		before := store.memory(t)
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := measure(t, store, p, func(i int) notification.Notification { return of(fmt.Sprint("user-", i), "default") }, n)
		each := float64(store.memory(t)-before) / float64(n)
		rows = append(rows, []string{fmt.Sprint(n), fmt.Sprintf("%.0f B", each), fmt.Sprintf("%d B", windows(t, store)), perSecond(c.rate), fmt.Sprintf("%.2f", c.scripts), micros(c.redis), micros(c.process)})
		end(t, p)
	}
	return rows
}

// windows is what Redis says that one user's log takes.
func windows(t *testing.T, store *server) int64 {
	t.Helper()
	keys, _, err := store.client.Scan(t.Context(), 0, "pacer:{push-*}:l:*", 100_000).Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("no user has a log: %v", err)
	}
	return store.client.MemoryUsage(t.Context(), keys[0]).Val()
}

// machines has several processes deliver, on one server and on a cluster of three.
func machines(t *testing.T) [][]string {
	rows := [][]string{{"shards", "processes", "delivered a second", "Redis CPU each, all shards", "process CPU each, all processes", "of two cores"}}
	for _, shards := range []int{1, 3} {
		for _, processes := range []int{1, 2, 4} {
			servers, url := clusterOf(t, shards)
			var all []*pacer
			for range processes {
				p, err := startPacer(t.Context(), url, "", policy)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, p)
			}
			const n = 40_000
			if err := all[0].accept(t.Context(), n, oneEach); err != nil {
				t.Fatal(err)
			}
			redisBefore, ownBefore, start := servers.cpu(t), ownCPU(t), time.Now()
			for _, p := range all {
				if err := p.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := all[0].await(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			took := time.Since(start)
			onRedis, own := (servers.cpu(t)-redisBefore)/n, (ownCPU(t)-ownBefore)/n
			used := float64((onRedis+own)*n) / float64(2*took)
			rows = append(rows, []string{
				fmt.Sprint(shards), fmt.Sprint(processes), perSecond(n / took.Seconds()), micros(onRedis), micros(own), fmt.Sprintf("%.0f %%", 100*used),
			})
			for _, p := range all {
				if err := p.stop(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	return rows
}

// shards are the servers of a deployment.
type shards []*server

func clusterOf(t *testing.T, n int) (shards, string) {
	t.Helper()
	if n == 1 {
		s := redistest.Start(t)
		return shards{{client: s.Client(t)}}, s.URL()
	}
	c := redistest.StartCluster(t, n, false)
	var all shards
	for _, s := range c.Masters {
		all = append(all, &server{client: s.Client(t)})
	}
	return all, c.URL()
}

func (s shards) cpu(t *testing.T) time.Duration {
	t.Helper()
	var sum time.Duration
	for _, one := range s {
		sum += one.cpu(t.Context())
	}
	return sum
}

// cost of one delivery.
type cost struct {
	rate, scripts  float64
	redis, process time.Duration
}

// measure delivers n and tells what each cost, accepting included.
func measure(t *testing.T, store *server, p *pacer, make func(int) notification.Notification, n int) cost {
	t.Helper()
	before, err := p.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	scripts, onRedis, own, start := store.scripts(t), store.cpu(t.Context()), ownCPU(t), time.Now()
	if err := p.accept(t.Context(), n, make); err != nil {
		t.Fatal(err)
	}
	for {
		now, err := p.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if now.Totals.Delivered == before.Totals.Delivered+int64(n) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(start)
	return cost{
		float64(n) / took.Seconds(), float64(store.scripts(t)-scripts) / float64(n),
		(store.cpu(t.Context()) - onRedis) / time.Duration(n), (ownCPU(t) - own) / time.Duration(n),
	}
}

func begin(t *testing.T, policyText string) (*server, *pacer) {
	t.Helper()
	store, err := startRedis()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.stop)
	p, err := startPacer(t.Context(), store.url, "", policyText)
	if err != nil {
		t.Fatal(err)
	}
	return store, p
}

func end(t *testing.T, p *pacer) {
	t.Helper()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// memory is what the server has in use.
func (s *server) memory(t *testing.T) int64 {
	t.Helper()
	return s.number(t, "memory", "used_memory:")
}

// scripts is how many were run.
func (s *server) scripts(t *testing.T) int64 {
	t.Helper()
	return s.number(t, "commandstats", "cmdstat_evalsha:calls=")
}

func (s *server) number(t *testing.T, section, name string) int64 {
	t.Helper()
	for line := range strings.Lines(s.client.Info(t.Context(), section).Val()) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			var n int64
			if _, err := fmt.Sscan(strings.SplitN(strings.TrimSpace(rest), ",", 2)[0], &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// ownCPU is what this process, with all pacers in it, has used.
func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func micros(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d.Nanoseconds())/1000) }
