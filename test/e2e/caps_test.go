//go:build accept

package e2e_test

import (
	"fmt"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

const capsPolicy = `version: 1
caps:
  - {name: marketing, categories: [promo, offers], channels: [webhook, log], limits: [{max: 3, per: 4s}]}
categories:
  default: {}
  promo: {limits: [{max: 2, per: 1s}]}
  offers: {min_gap: 500ms}
retry: {max_attempts: 20, min_backoff: 100ms, max_backoff: 1s}
`

// capRules are those of the cap.
var capRules = []throttle.Rule{{Max: 3, Per: 4 * time.Second}}

// A cap over two categories and two channels holds for 300 users while one of two processes is killed.
func TestCapWhileAProcessIsKilled(t *testing.T) {
	const users, each = 300, 12
	server, r := redistest.Start(t), newReceiver(t)
	d := &deployment{
		t: t, redis: server, url: server.URL(), policy: policyFile(t, capsPolicy),
		env: []string{"PACER_LOG_FORMAT=json", "PACER_LOG_LEVEL=debug"},
	}
	both := []*worker{d.start(), d.start()}
	d.env = []string{"PACER_ROLES=api,ops"}
	api := d.start()
	d.workers = append(both, api)
	d.watchScripts()
	var items []item
	for i := range users * each {
		items = append(items, item{
			UserID: fmt.Sprint("user-", i%users), To: r.server.URL, Channel: []string{"webhook", "log"}[i/users%2],
			Category: []string{"promo", "offers"}[i/users/2%2],
		})
	}
	begin := time.Now()
	ids := d.accept(api, items)
	<-time.After(3 * time.Second)
	if err := both[1].process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-both[1].exited; err == nil {
		t.Error("the killed process exited as if nothing had happened")
	}
	s := d.drain(api, 3*time.Minute)
	took := time.Since(begin)
	if err := both[0].process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-both[0].exited; err != nil { // its log is whole then
		t.Errorf("the other process exited with %v", err)
	}
	// The process may have died before what it had sent was written down: these are delivered twice.
	owner := map[string]string{}
	for i, id := range ids {
		owner[id] = items[i].UserID
	}
	var got []delivery
	for _, g := range r.deliveries() {
		got = append(got, delivery{ID: g.ID, User: g.User, AdmittedAt: g.AdmittedAt})
	}
	for _, w := range both {
		for _, found := range logged.FindAllStringSubmatch(w.log.String(), -1) {
			at, err := time.Parse(time.RFC3339Nano, found[2])
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, delivery{ID: found[1], User: owner[found[1]], AdmittedAt: throttle.MicrosOf(at)})
		}
	}
	lost, duplicates := compare(ids, got)
	broken := violations(got, capRules...)
	t.Logf("a cap over two categories and two channels, %d users with %d each, one of two processes killed: "+
		"drained in %s (optimum %s), %d lost, %d doubled, %d violations", users, each, took.Round(time.Second),
		time.Duration(each/3-1)*4*time.Second, lost, duplicates, broken)
	if lost+broken > 0 || s.Totals.Delivered != int64(len(ids)) {
		t.Errorf("outside the bounds: nothing lost, no violation, all %d delivered, are %d", len(ids), s.Totals.Delivered)
	}
}

// logged matches what the log channel writes of a delivery.
var logged = regexp.MustCompile(`"msg":"notification","notification_id":"([^"]+)".*"admitted_at":"([^"]+)"`)
