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

// growthPolicy delivers one notification to each user: the others wait for ten minutes or longer.
const growthPolicy = `version: 1
categories:
  default: {limits: [{max: 1, per: 10m}]}
  free: {limits: [{max: 1000, per: 1h}]}
`

// perUser is how many notifications of a backlog wait for one user.
const perUser = 100

// delivered is how many notifications are delivered to measure the cost of one.
const delivered = 20_000

// TestGrowth measures what a notification costs in Redis's time, scripts and memory as the backlog and the number of
// users grow, and how many a second several processes deliver on one and on three servers.
// GROWTH_DOCS=../docs/measurements writes the tables into scale.md.
//
//nolint:paralleltest // it measures
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
	return notification.Notification{
		UserID: user, Category: category, Channel: notification.ChannelLog,
		Title: "hello", Body: "something has happened",
	}
}

// backlogs delivers notifications of some users while more and more wait for others.
func backlogs(t *testing.T) [][]string {
	rows := [][]string{{
		"deferred", "memory each, all keys", "other users' deliveries a second",
		"scripts each", "Redis CPU each", "process CPU each",
	}}
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		store, p := begin(t, growthPolicy)
		before := store.memory(t)
		fill(t, p, n)
		each := float64(store.memory(t)-before) / float64(n)
		free := func(i int) notification.Notification { return of(fmt.Sprint("free-", i), "free") }
		c := measure(t, store, p, free, delivered)
		rows = append(rows, append([]string{fmt.Sprint(n), fmt.Sprintf("%.0f B", each)}, c.cells()...))
		end(t, p)
	}
	return rows
}

// fill has n notifications wait, deferred.
func fill(t *testing.T, p *pacer, n int) {
	t.Helper()
	users := n / perUser
	// One of each user goes at once.
	spread := func(i int) notification.Notification { return of(fmt.Sprint("user-", i%users), "default") }
	waits(t, p, n+users, n, spread)
}

// waits accepts notifications, starts the process and returns when n of them are deferred.
func waits(t *testing.T, p *pacer, accepted, n int, nth func(int) notification.Notification) {
	t.Helper()
	if err := p.accept(t.Context(), accepted, nth); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitDeferred(t, p, n)
}

// deferred asks the API how many notifications are deferred.
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

// crowdsOfUsers delivers one notification to each of more and more users.
func crowdsOfUsers(t *testing.T) [][]string {
	rows := [][]string{{
		"users with one delivery", "memory each", "of it, the windows",
		"delivered a second", "scripts each", "Redis CPU each", "process CPU each",
	}}
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		store, p := begin(t, growthPolicy)
		before := store.memory(t)
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		one := func(i int) notification.Notification { return of(fmt.Sprint("user-", i), "default") }
		c := measure(t, store, p, one, n)
		each := float64(store.memory(t)-before) / float64(n)
		rows = append(rows, append([]string{
			fmt.Sprint(n), fmt.Sprintf("%.0f B", each), fmt.Sprintf("%d B", windows(t, store)),
		}, c.cells()...))
		end(t, p)
	}
	return rows
}

// windows is how much memory one user's log takes, as Redis says.
func windows(t *testing.T, store *server) int64 {
	t.Helper()
	keys, _, err := store.client.Scan(t.Context(), 0, "pacer:{push-*}:l:*", 100_000).Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("no user has a log: %v", err)
	}
	return store.client.MemoryUsage(t.Context(), keys[0]).Val()
}

// machines measures several processes, on one server and on a cluster of three.
func machines(t *testing.T) [][]string {
	rows := [][]string{{
		"shards", "processes", "delivered a second",
		"Redis CPU each, all shards", "process CPU each, all processes", "of two cores",
	}}
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
				fmt.Sprint(shards), fmt.Sprint(processes), perSecond(n / took.Seconds()),
				micros(onRedis), micros(own), fmt.Sprintf("%.0f %%", 100*used),
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

// cells are the end of a table's row.
func (c cost) cells() []string {
	return []string{perSecond(c.rate), fmt.Sprintf("%.2f", c.scripts), micros(c.redis), micros(c.process)}
}

// measure delivers n notifications and returns the cost of each, accepting included.
func measure(t *testing.T, store *server, p *pacer, nth func(int) notification.Notification, n int) cost {
	t.Helper()
	before, err := p.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	scripts, onRedis, own, start := store.scripts(t), store.cpu(t.Context()), ownCPU(t), time.Now()
	if err := p.accept(t.Context(), n, nth); err != nil {
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
		<-time.After(10 * time.Millisecond)
	}
	took := time.Since(start)
	return cost{
		rate:    float64(n) / took.Seconds(),
		scripts: float64(store.scripts(t)-scripts) / float64(n),
		redis:   (store.cpu(t.Context()) - onRedis) / time.Duration(n),
		process: (ownCPU(t) - own) / time.Duration(n),
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

// memory is how many bytes the server uses.
func (s *server) memory(t *testing.T) int64 {
	t.Helper()
	return s.number(t, "memory", "used_memory:")
}

// scripts is how many scripts the server has run.
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

// ownCPU is how much of the CPU this process has used, with all pacers in it.
func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func micros(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d.Nanoseconds())/1000) }
