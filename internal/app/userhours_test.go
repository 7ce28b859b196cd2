package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// keepsPreferences are the set-ups in which users have preferences.
var keepsPreferences = []setup{onRedis, onPostgres}

// put replaces ada's preferences by way of one of the deployment's processes.
func (d *fleet) put(preferences string) {
	d.t.Helper()
	if status := d.call(http.MethodPut, "/v1/users/ada/preferences", []byte(preferences), nil, nil); status != http.StatusOK {
		d.t.Fatalf("%s: status %d", preferences, status)
	}
}

// awaitKnown waits until every process knows whether ada may be sent something.
func (d *fleet) awaitKnown(allowed bool) {
	d.t.Helper()
	d.awaitKnownOf("ada", allowed)
}

func (d *fleet) awaitKnownOf(user string, allowed bool) {
	d.t.Helper()
	first := d.apps[0]
	for i := range d.apps {
		d.apps[0] = d.apps[i]
		deadline := time.Now().Add(patience)
		for known := false; !known; <-time.After(20 * time.Millisecond) {
			var throttle struct{ Allowed bool }
			d.call(http.MethodGet, "/v1/users/"+user+"/throttle?category=default", nil, nil, &throttle)
			if known = throttle.Allowed == allowed; time.Now().After(deadline) {
				d.t.Fatalf("process %d does not know that allowed is %t for %s", i, allowed, user)
			}
		}
		d.apps[0] = first
	}
}

// What waits moves at once when the user's hours change, in both directions and whichever process took the change.
func TestAUsersHoursHoldAndTheirEndReleases(t *testing.T) {
	t.Parallel()
	until := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	today := fmt.Sprintf("%q, %q, %q", time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly),
		time.Now().UTC().Format(time.DateOnly), time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly))
	for name, closed := range map[string]string{
		"Until":     `{"quiet_until": "` + until + `"}`,
		"OwnDates":  `{"quiet_hours": {"dates": [` + today + `]}}`,
		"OwnRanges": `{"quiet_hours": {"open": [{"from": "00:00", "to": "00:01", "days": ["` + dayIn(3) + `"]}]}}`,
		"Window":    `{"quiet_hours": {"window": "never"}}`,
	} {
		for _, where := range keepsPreferences {
			t.Run(name+" on "+string(where), func(t *testing.T) {
				t.Parallel()
				// A night that is longer than max_defer would end what waits.
				policy := strings.Replace(crowdPolicy, "min_gap: 10ms", "min_gap: 10ms\n    max_defer: 20d", 1) +
					"windows: {never: {open: [{days: " + dayIn(3) + ", from: \"00:00\", to: \"00:01\"}]}}\n"
				d, r := newDeployment(t, where, policy, 2), newReceiver(t)
				d.put(closed)
				d.awaitKnown(false)
				ids := d.bulk(r.crowd("ada", "default", 2))
				other := d.bulk(r.crowd("ben", "default", 1))
				r.await(t, 1)
				d.awaitStats("two deferred", func(s stats) bool { return s.Deferred == 2 && s.Totals.Delivered == 1 })
				d.awaitView(ids[0], "deferred", "quiet_hours")
				if v := d.view(other[0]); v.Status != "delivered" {
					t.Errorf("ben's is %s, want delivered", v.Status)
				}
				d.put(`{"time_zone": "Europe/Vienna"}`)
				r.await(t, 3)
				d.put(closed)
				d.awaitKnown(false)
				d.bulk(r.crowd("ada", "default", 1))
				d.awaitStats("closed again", func(s stats) bool { return s.Deferred == 1 })
				if status := d.call(http.MethodDelete, "/v1/users/ada/preferences", nil, nil, nil); status != http.StatusNoContent {
					t.Fatalf("remove the preferences: status %d", status)
				}
				r.await(t, 4)
			})
		}
	}
}

// dayIn is the weekday in so many days, as a policy names it.
func dayIn(days int) string {
	return strings.ToLower(time.Now().UTC().AddDate(0, 0, days).Weekday().String()[:3])
}

func TestBadHoursAreRefusedWithTheirField(t *testing.T) {
	t.Parallel()
	for _, where := range keepsPreferences {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			const required = "quiet_hours: {window: day, required: true}\n" +
				"windows: {day: {closed: [{from: \"08:00\", to: \"20:00\"}]}}\n"
			const hour = `{"from": "01:00", "to": "02:00"}`
			d := newDeployment(t, where, crowdPolicy+required, 1)
			d.put(`{"time_zone": "Asia/Kathmandu", "quiet_hours": {"off": true}}`)
			for _, c := range []struct{ name, body, want string }{
				{name: "Zone", body: `{"time_zone": "Middle/Earth"}`, want: `time_zone "Middle/Earth" is not a time zone`},
				{name: "Offset", body: `{"time_zone": "+02:00"}`, want: `time_zone "+02:00" is an offset`},
				{
					name: "Window", body: `{"quiet_hours": {"window": "dya"}}`,
					want: `quiet_hours the policy has no window named "dya"; it has day`,
				},
				{
					name: "FromIsTo", body: `{"quiet_hours": {"closed": [{"from": "08:00", "to": "08:00"}]}}`,
					want: "begins where it ends",
				},
				{name: "NeverOpen", body: `{"quiet_hours": {"closed": [{"from": "00:00", "to": "24:00"}]}}`, want: "never open"},
				{
					name: "NeverOpenBesideRequired", body: `{"quiet_hours": {"closed": [{"from": "20:00", "to": "08:00"}]}}`,
					want: "never be open beside the policy's",
				},
				{
					name: "Date", body: `{"quiet_hours": {"dates": ["2026-02-30"]}}`,
					want: `quiet_hours dates[0]: "2026-02-30" is not a date`,
				},
				{
					name: "NoDay", body: `{"quiet_hours": {"closed": [{"days": [], "from": "22:00", "to": "08:00"}]}}`,
					want: "quiet_hours closed[0].days: names no day",
				},
				{
					name: "TooMany", body: `{"quiet_hours": {"closed": [` + strings.Repeat(hour+",", 16) + hour + `]}}`,
					want: "has 17 ranges",
				},
				{name: "Two forms", body: `{"quiet_hours": {"off": true, "window": "day"}}`, want: "quiet_hours must be"},
				{name: "None", body: `{"quiet_hours": {}}`, want: "quiet_hours must be"},
				{
					name: "Clock", body: `{"quiet_hours": {"closed": [{"from": "8:00", "to": "20:00"}]}}`,
					want: "quiet_hours.closed[0].from",
				},
				{name: "TooFar", body: `{"quiet_until": "2099-01-01T00:00:00Z"}`, want: "quiet_until must be at most 366 days ahead"},
			} {
				var problem struct {
					Detail string
					Errors []struct{ Location, Message string }
				}
				status := d.call(http.MethodPut, "/v1/users/ada/preferences", []byte(c.body), nil, &problem)
				said := problem.Detail + fmt.Sprint(problem.Errors)
				if status != http.StatusUnprocessableEntity || !strings.Contains(said, c.want) {
					t.Errorf("%s: status %d %q, want 422 and %q", c.name, status, said, c.want)
				}
			}
			var kept struct {
				TimeZone   string             `json:"time_zone"`
				QuietHours struct{ Off bool } `json:"quiet_hours"`
			}
			d.call(http.MethodGet, "/v1/users/ada/preferences", nil, nil, &kept)
			if kept.TimeZone != "Asia/Kathmandu" || !kept.QuietHours.Off {
				t.Errorf("after the refusals the preferences are %+v", kept)
			}
		})
	}
}

// A nightly job: each item has its result, the good ones hold, and to send the batch again changes nothing.
func TestManyPreferencesAtOnce(t *testing.T) {
	t.Parallel()
	for _, where := range keepsPreferences {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t, where, crowdPolicy, 1)
			var batch strings.Builder
			for i := range 250 {
				fmt.Fprintf(&batch, `{"user_id": "user%d", "time_zone": "Asia/Tokyo"}`+"\n", i)
			}
			batch.WriteString(`{"user_id": "ada", "time_zone": "Europe/Wien"}` + "\n")
			batch.WriteString(`{"user_id": "", "time_zone": "Europe/Vienna"}` + "\n" + `{"user_id": "ben", "zone": "x"}` + "\n")
			batch.WriteString(`{"user_id": "cleo", "quiet_hours": {"window": "none"}}` + "\n")
			batch.WriteString(`{"user_id": "user7", "quiet_hours": {"off": true}}` + "\n")
			type preferences struct {
				TimeZone  string    `json:"time_zone"`
				UpdatedAt time.Time `json:"updated_at"`
			}
			var first preferences
			for range 2 {
				var response struct {
					Accepted, Rejected int
					Results            []struct {
						Index int
						Error string
					}
				}
				header := http.Header{"Content-Type": {"application/x-ndjson"}}
				status := d.call(http.MethodPost, "/v1/preferences/bulk", []byte(batch.String()), header, &response)
				if status != http.StatusOK || response.Accepted != 251 || response.Rejected != 4 ||
					len(response.Results) != 4 || response.Results[0].Index != 250 ||
					!strings.Contains(response.Results[3].Error, "no window named") {
					t.Fatalf("status %d, %+v", status, response)
				}
				var seventh, last preferences
				d.call(http.MethodGet, "/v1/users/user7/preferences", nil, nil, &seventh)
				d.call(http.MethodGet, "/v1/users/user249/preferences", nil, nil, &last)
				if seventh.TimeZone != "" || last.TimeZone != "Asia/Tokyo" {
					t.Errorf("user7 has %+v, user249 %+v", seventh, last)
				}
				if first.TimeZone != "" && !last.UpdatedAt.Equal(first.UpdatedAt) {
					t.Errorf("the same again was a change: %s after %s", last.UpdatedAt, first.UpdatedAt)
				}
				first = last
			}
			many := "[" + strings.Repeat(`{"user_id": "x"},`, 1000) + `{"user_id": "x"}]`
			status := d.call(http.MethodPost, "/v1/preferences/bulk", []byte(many), nil, nil)
			if status != http.StatusRequestEntityTooLarge {
				t.Errorf("1001 users: status %d, want 413", status)
			}
		})
	}
}
