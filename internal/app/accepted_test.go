package app_test

import (
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// accepted adds up what the processes' metrics say was accepted of a category.
func (d *fleet) accepted(category string) int {
	d.t.Helper()
	line := regexp.MustCompile(`(?m)^pacer_accepted_total\{category="` + category + `"\} (\S+)$`)
	total := 0
	for _, process := range d.apps {
		if found := line.FindStringSubmatch(d.opsPage(process, "/metrics")); found != nil {
			n, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				d.t.Fatal(err)
			}
			total += int(n)
		}
	}
	return total
}

// What producers write to the stores themselves is counted too, once: the sum over the processes is what was accepted.
// A repeat is not counted, and what was accepted before the first of them started is.
func TestAcceptedCountsWhatProducersWrite(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			d, r := newDeployment(t, on, crowdPolicy, 0), newReceiver(t)
			produce := func(id, category string) {
				one := `{"id":"` + id + `","user_id":"ada","category":"` + category + `","channel":"log","title":"x"}`
				if status, reply := d.produce(one); status/100 != 2 {
					t.Fatalf("%s: %d %+v", id, status, reply)
				}
			}
			produce("before", "slow")
			d.start()
			d.start()
			for _, id := range []string{"a", "b", "a", "c"} {
				produce(id, "slow")
			}
			produce("d", "urgent")
			d.bulk(r.crowd("ben", "slow", 3))
			for category, want := range map[string]int{"slow": 7, "urgent": 1} {
				deadline := time.Now().Add(patience)
				for ; d.accepted(category) < want; <-time.After(50 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%d of %d of category %s are counted", d.accepted(category), want, category)
					}
				}
			}
			if slow, urgent, s := d.accepted("slow"), d.accepted("urgent"), d.stats(); slow != 7 || urgent != 1 ||
				s.Totals.Accepted != 8 {
				t.Errorf("%d and %d are counted of %d accepted, want 7 and 1", slow, urgent, s.Totals.Accepted)
			}
			if status := d.call(http.MethodGet, "/v1/notifications/before", nil, nil, nil); status != http.StatusOK {
				t.Errorf("the first is not known: %d", status)
			}
		})
	}
}
