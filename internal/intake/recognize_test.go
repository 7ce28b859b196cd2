package intake_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// brief is a request whose time passes a second after it is made.
func brief(r intake.Request) intake.Request {
	r.Notification.ExpiresAt = now.Add(time.Second)
	return r
}

// Whoever lost the response and repeats the request learns that it was accepted, also when it could not be accepted any
// more.
func TestARepeatIsKnownAlthoughItWouldBeRefusedNow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		repeat intake.Request
		known  bool
	}{
		"the same id":                   {repeat: brief(request("n1", "hi")), known: true},
		"the same id, another title":    {repeat: brief(request("n1", "ho"))},
		"the same id, a fault for ever": {repeat: brief(request("n1", "\x00"))},
		"another id":                    {repeat: brief(request("n2", "hi"))},
		"the same key":                  {repeat: brief(keyed("k", "hi")), known: true},
		"the same key, another title":   {repeat: brief(keyed("k", "ho"))},
		"another key":                   {repeat: brief(keyed("l", "hi"))},
		"neither id nor key":            {repeat: brief(request("", "hi"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench()
			for _, first := range b.accept(t, brief(request("n1", "hi")), brief(keyed("k", "hi"))) {
				if first.Err != nil {
					t.Fatal(first.Err)
				}
			}
			b.clock = now.Add(time.Minute)
			got := b.accept(t, c.repeat)[0]
			if faults := notification.FieldErrors(got.Err); got.Known != c.known || (len(faults) == 0) != c.known ||
				(got.Notification != nil) != c.known {
				t.Errorf("it gives %+v, want it known: %t", got, c.known)
			}
			if len(b.store.known) != 2 {
				t.Errorf("%d notifications are kept, want 2", len(b.store.known))
			}
		})
	}
}

// While the store can't be asked, nobody knows.
func TestARefusedRepeatFailsWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	for method, r := range map[string]intake.Request{"view": request("n1", "hi"), "holder": keyed("k", "hi")} {
		b := newBench()
		b.store.fail, b.clock = method, now.Add(time.Minute)
		if _, err := b.Accept(t.Context(), []intake.Request{brief(r)}); !errors.Is(err, errAway) {
			t.Errorf("while %s fails: %v", method, err)
		}
	}
}

// A batch that is refused whole costs a bounded number of looks at the store.
func TestABatchThatIsRefusedWholeIsToldSoInTime(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.clock = now.Add(time.Minute)
	batch := make([]intake.Request, 3000)
	for i := range batch {
		batch[i] = brief(request(fmt.Sprint("n", i), "hi"))
	}
	for _, r := range b.accept(t, batch...) {
		if r.Err == nil || r.Known || r.Notification != nil {
			t.Fatalf("it gives %+v, want it refused", r)
		}
	}
	if looks := b.store.views.Load(); looks == 0 || looks > 1000 {
		t.Errorf("the store was asked %d times, want 1 to 1000", looks)
	}
}
