package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestOptOutEndsWhatWaitsAndWhatComes(t *testing.T) {
	t.Parallel()
	for _, where := range keepsPreferences {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			optOutEnds(t, where)
		})
	}
}

func optOutEnds(t *testing.T, where setup) {
	t.Helper()
	d, r := newDeployment(t, where, crowdPolicy, 2), newReceiver(t)
	waiting := d.bulk(r.crowd("ada", "slow", 3))
	other := d.bulk(r.crowd("ada", "default", 1))
	d.awaitStats("two delivered", func(s stats) bool { return s.Totals.Delivered == 2 })
	if status := d.call(http.MethodPut, "/v1/users/ada/preferences", []byte(`{"opt_out":{"categories":["slow"]}}`), nil, nil); status != http.StatusOK {
		t.Fatalf("opt out: status %d", status)
	}
	late := d.bulk(r.crowd("ada", "slow", 1))
	for _, id := range append(waiting[1:], late...) {
		if v := d.view(id); v.Status != "cancelled" || v.Reason != "opted_out" {
			t.Errorf("%s is %s (%s), want cancelled (opted_out)", id, v.Status, v.Reason)
		}
	}
	if v := d.view(other[0]); v.Status != "delivered" {
		t.Errorf("one of another category is %+v", v)
	}
	if status := d.call(http.MethodDelete, "/v1/users/ada/preferences", nil, nil, nil); status != http.StatusNoContent {
		t.Errorf("forget the preferences: status %d", status)
	}
	again := d.bulk(r.crowd("ada", "slow", 1))
	if v := d.view(again[0]); v.Status == "cancelled" {
		t.Errorf("after the preferences were forgotten: %+v", v)
	}
}

func TestOwnLimitsReplaceTheCategorys(t *testing.T) {
	t.Parallel()
	for _, where := range keepsPreferences {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			ownLimitsReplace(t, where)
		})
	}
}

func ownLimitsReplace(t *testing.T, where setup) {
	t.Helper()
	d, r := newDeployment(t, where, crowdPolicy, 2), newReceiver(t)
	d.bulk(r.crowd("ada", "slow", 3)) // one an hour
	r.await(t, 1)
	d.awaitStats("two deferred", func(s stats) bool { return s.Deferred == 2 })
	body := `{"limits":{"slow":{"limits":[{"max":5,"per":"1h"}]}}}`
	if status := d.call(http.MethodPut, "/v1/users/ada/preferences", []byte(body), nil, nil); status != http.StatusOK {
		t.Fatalf("set own limits: status %d", status)
	}
	r.await(t, 3) // what waited goes at once under the looser limit
	for bad, field := range map[string]string{
		`{"limits":{"nowhere":{"limits":[]}}}`:                  "limits.nowhere",
		`{"limits":{"slow":{"limits":[{"max":0,"per":"1h"}]}}}`: "limits.slow",
		`{"limits":{"slow":{"limits":[{"max":1,"per":"0s"}]}}}`: "limits.slow",
		`{"opt_out":{"categories":["nowhere"]}}`:                "opt_out.categories[0]",
		`{"opt_out":{"channels":["pigeon"]}}`:                   "opt_out.channels[0]",
		`{"limits":{"slow":{"limits":[],"min_gap":"a while"}}}`: "limits.slow",
	} {
		var problem struct{ Detail string }
		if status := d.call(http.MethodPut, "/v1/users/ada/preferences", []byte(bad), nil, &problem); status != http.StatusUnprocessableEntity || !strings.Contains(problem.Detail, field) {
			t.Errorf("%s: status %d %q, want 422 and %s", bad, status, problem.Detail, field)
		}
	}
}

func TestListingGoesThroughAllPages(t *testing.T) {
	t.Parallel()
	for _, where := range []setup{onRedis, onPostgres} {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			listAllPages(t, where)
		})
	}
}

func listAllPages(t *testing.T, where setup) {
	t.Helper()
	d, r := newDeployment(t, where, crowdPolicy, 1), newReceiver(t)
	ids := append(d.bulk(r.crowd("ada", "slow", 7)), d.bulk(r.crowd("ben", "slow", 5))...)
	r.await(t, 2)
	d.awaitStats("ten deferred", func(s stats) bool { return s.Deferred == 10 && s.Totals.Delivered == 2 })
	for query, want := range map[string]int{
		"":                                    12,
		"user=ada":                            7,
		"user_id=ada":                         7,
		"status=deferred":                     10,
		"status=delivered":                    2,
		"status=delivered,deferred":           12,
		"user_id=ben&status=deferred":         4,
		"category=default":                    0,
		"channel=log":                         0,
		"host=127.0.0.1&reason=limit":         10,
		"since=2099-01-01T00:00:00Z":          0,
		"since=1h&until=2099-01-01T00:00:00Z": 12,
		"text=" + ids[0]:                      1,
	} {
		seen := map[string]bool{}
		for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
			var page struct {
				Items      []struct{ ID string }
				Next, Note string
			}
			path := "/v1/notifications?limit=3&cursor=" + url.QueryEscape(cursor) + "&" + query
			if status := d.call(http.MethodGet, path, nil, nil, &page); status != http.StatusOK {
				t.Fatalf("%s: status %d", query, status)
			}
			if (page.Note != "") != (where == onRedis) {
				t.Errorf("the note is %q", page.Note)
			}
			for _, item := range page.Items {
				seen[item.ID] = true
			}
			cursor = page.Next
		}
		if len(seen) != want {
			t.Errorf("%q lists %d of %d, want %d", query, len(seen), len(ids), want)
		}
	}
	status := d.call(http.MethodGet, "/v1/notifications?cursor=made-up", nil, nil, nil)
	if status != http.StatusUnprocessableEntity {
		t.Errorf("a made-up cursor: status %d, want 422", status)
	}
}

func TestTimelineNamesWhatFilledTheWindow(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onPostgres, crowdPolicy, 1), newReceiver(t)
	var ids []string
	for n := 1; len(ids) == 0; n++ {
		ids = d.bulk(r.crowd(fmt.Sprint("user-", n), "slow", 2))
		r.await(t, n)
		d.awaitStats("one deferred", func(s stats) bool {
			return s.Deferred == int64(n) &&
				s.Totals.Delivered == int64(n)
		})
		if overtaken := d.overtaken(); overtaken[ids[0]] || overtaken[ids[1]] {
			ids = nil // an admission that was returned filled the window: that is another timeline
		}
	}
	var v struct {
		Status, Reason string
		DeliverAt      *json.RawMessage `json:"deliver_at"`
		Timeline       []struct{ Kind, Detail string }
	}
	d.awaitView(ids[1], "deferred", "limit 1/1h")
	d.call(http.MethodGet, "/v1/notifications/"+ids[1], nil, nil, &v)
	if v.Status != "deferred" || v.Reason != "limit 1/1h" || v.DeliverAt == nil || len(v.Timeline) != 2 {
		t.Fatalf("the waiting one is %+v", v)
	}
	if detail := v.Timeline[1].Detail; !strings.Contains(detail, "limit 1/1h") ||
		!strings.Contains(detail, "filled by "+ids[0]) {
		t.Errorf("its deferral says %q, want the rule and %s", detail, ids[0])
	}
	d.call(http.MethodGet, "/v1/notifications/"+ids[0], nil, nil, &v)
	if v.Status != "delivered" || len(v.Timeline) != 3 || v.Timeline[1].Kind != "attempt" ||
		!strings.Contains(v.Timeline[1].Detail, "delivered") {
		t.Errorf("the delivered one is %+v", v)
	}
}
