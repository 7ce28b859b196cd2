package notification_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Data is compared by its meaning: blanks, the order of members and the way a number is written say nothing.
func TestDifferencesOfData(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		a, b string
		same bool
	}{
		"blanks and order":         {a: `{"a":1,"b":[true,null]}`, b: `{ "b": [true, null], "a": 1 }`, same: true},
		"escapes":                  {a: `{"a":"\u003c"}`, b: `{"a":"<"}`, same: true},
		"numbers written anew":     {a: `{"a":[1.50,-2e3,0.0,1E-2]}`, b: `{"a":[1.5,-2000,0,0.01]}`, same: true},
		"numbers beyond a float":   {a: `{"a":12345678901234567890}`, b: `{"a":12345678901234567891}`},
		"huge exponents":           {a: `{"a":1e999999999}`, b: `{"a":1e999999998}`},
		"exponents beyond integer": {a: `{"a":1e99999999999999999999}`, b: `{"a":1e99999999999999999998}`},
		"a number and a text":      {a: `{"a":1}`, b: `{"a":"1"}`},
		"the order of a list":      {a: `{"a":[1,2]}`, b: `{"a":[2,1]}`},
		"a member more":            {a: `{"a":1}`, b: `{"a":1,"b":null}`},
		"none and an empty one":    {a: ``, b: `{}`},
		"none and none":            {a: ``, b: ``, same: true},
		"signs":                    {a: `{"a":-1}`, b: `{"a":1}`},
		"zeros":                    {a: `{"a":-0}`, b: `{"a":0.00}`, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := valid(), valid()
			a.Data, b.Data = json.RawMessage(test.a), json.RawMessage(test.b)
			want := []string{"data"}
			if test.same {
				want = nil
			}
			if diff := cmp.Diff(want, a.Differences(b)) + cmp.Diff(want, b.Differences(a)); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDifferencesIgnoreWhatProducersDoNotWrite(t *testing.T) {
	t.Parallel()
	a, b := valid(), valid()
	a.SendAt = now.Add(time.Hour)
	b.ID, b.CreatedAt, b.TraceParent = "another", now, "00-1-2-01"
	b.SendAt = a.SendAt.Add(999 * time.Nanosecond).In(time.FixedZone("east", 3600))
	if got := a.Differences(b); got != nil {
		t.Errorf("%v differ", got)
	}
}

func ExampleConflictError() {
	first := &notification.Notification{ID: "order-17", UserID: "ada", Title: "Shipped", Body: "It is on its way."}
	second := &notification.Notification{ID: "order-17", UserID: "ada", Title: "Delivered", Body: "It is at your door."}
	fmt.Println(&notification.ConflictError{ID: "order-17", Fields: second.Differences(first)})
	// Output:
	// id: "order-17" was accepted before with other content: title and body differ; repeat it unchanged, or use another id
}
