package app_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/settings"
)

// embeddedSettings are those of a process without any store outside.
func (d *fleet) embeddedSettings() *settings.Resolved {
	d.t.Helper()
	s := d.settings()
	s.Setup, s.Redis = settings.SetupEmbedded, nil
	return s
}

func embeddedDeployment(t *testing.T) *fleet {
	t.Helper()
	d := newDeploymentOn(t, onRedis, "redis://unused")
	d.writePolicy(crowdPolicy)
	return d
}

// scheduled is n notifications of as many users with ids of their own, to be sent later.
func scheduled(n int) []item {
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	items := make([]item, n)
	for i := range items {
		items[i] = item{
			"id":      fmt.Sprint("n", i),
			"user_id": fmt.Sprint("u", i),
			"channel": "log", "title": "later", "send_at": later,
		}
	}
	return items
}

// The in-process Redis takes as many commands at once as any other: a bulk request with ids of its own, each of which
// is looked up first, and the counts of many partitions. Fifty were too many for a connection without a buffer;
// package embedded tests pipelines of 10,000, which here would take a busy machine minutes.
func TestInProcessRedisTakesLargePipelines(t *testing.T) {
	t.Parallel()
	const many = 500
	for name, start := range map[string]func(t *testing.T) *fleet{
		"embedded": func(t *testing.T) *fleet {
			d := embeddedDeployment(t)
			s := d.embeddedSettings()
			s.Partitions = 64
			d.startWith(s)
			return d
		},
		"durable, one node": func(t *testing.T) *fleet {
			d := oneNode(t)
			s := d.oneNodeSettings()
			s.Partitions = 64
			d.startWith(s)
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			if ids := d.bulk(scheduled(many)); ids[0] != "n0" || ids[many-1] != fmt.Sprint("n", many-1) {
				t.Fatalf("the ids are %s to %s", ids[0], ids[many-1])
			}
			// While all of them are put in line a busy machine may not count within the time that the API takes for it.
			var s stats
			for deadline := time.Now().Add(patience); ; <-time.After(100 * time.Millisecond) {
				status := d.call(http.MethodGet, "/v1/stats", nil, nil, &s)
				if status == http.StatusOK && s.Scheduled == many && s.Totals.Accepted == many {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("never were all scheduled: %d, %+v", status, s)
				}
			}
		})
	}
}
