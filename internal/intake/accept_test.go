package intake_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

func TestEmptyFieldsGetTheirDefaults(t *testing.T) {
	t.Parallel()
	b := newBench()
	full := notification.Notification{
		ID: "n-1", UserID: "u-2", Category: "chat", Channel: notification.ChannelLog, To: "x", Title: "t", Body: "b",
		Data: json.RawMessage(`{"a":1}`), Priority: notification.PriorityLow, SendAt: now.Add(time.Hour),
		ExpiresAt: now.Add(2 * time.Hour), CollapseKey: "k",
	}
	results := b.accept(t, request("", "hi"), intake.Request{Notification: full})

	got := *results[0].Notification
	if !intake.MadeHere(got.ID) {
		t.Errorf("the id that was made is %q, want a UUIDv7", got.ID)
	}
	want := notification.Notification{
		ID: got.ID, IDMade: true, UserID: "u-1", Category: "default", Channel: notification.ChannelWebhook, Title: "hi",
		Priority: notification.PriorityNormal, CreatedAt: now,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with defaults (-want +got):\n%s", diff)
	}
	full.CreatedAt = now
	if diff := cmp.Diff(full, *results[1].Notification); diff != "" {
		t.Errorf("what was given is not kept (-want +got):\n%s", diff)
	}
	for i, r := range results {
		if r.Err != nil || r.Known {
			t.Errorf("result %d: known %t, error %v; want neither", i, r.Known, r.Err)
		}
		if kept := b.store.known[r.Notification.ID]; !cmp.Equal(kept, r.Notification) {
			t.Errorf("result %d is not what was stored:\n%s", i, cmp.Diff(kept, r.Notification))
		}
	}
	if diff := cmp.Diff([]string{"default", "chat"}, b.accepted); diff != "" {
		t.Errorf("reported categories differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{got.ID, "n-1"}, b.store.fresh); diff != "" {
		t.Errorf("what was accepted anew differs (-want +got):\n%s", diff)
	}
}

// Requests belong to the caller. Nothing is written into them.
func TestAcceptLeavesTheRequestsAsTheyAre(t *testing.T) {
	t.Parallel()
	b := newBench()
	batch := []intake.Request{request("", "a"), keyed("k", "b")}
	before := slices.Clone(batch)
	b.accept(t, batch...)
	if diff := cmp.Diff(before, batch); diff != "" {
		t.Errorf("the batch was changed (-before +after):\n%s", diff)
	}
}

// What is said of each field stands in the transcripts of package messages.
func TestFieldsThatCannotBeRightAreRefused(t *testing.T) {
	t.Parallel()
	key := func(key string) func(*intake.Request) { return func(r *intake.Request) { r.IdempotencyKey = key } }
	for name, c := range map[string]struct {
		set  func(*intake.Request)
		want string // the faulty fields
	}{
		"id":                           {func(r *intake.Request) { r.ID = "a b" }, "id"},
		"user":                         {func(r *intake.Request) { r.UserID = "" }, "user_id"},
		"category":                     {func(r *intake.Request) { r.Category = "gossip" }, "category"},
		"channel":                      {func(r *intake.Request) { r.Channel = "fcm" }, "channel"},
		"target, by sender":            {func(r *intake.Request) { r.To = "nowhere" }, "to"},
		"target, by domain":            {func(r *intake.Request) { r.To = "a\nb" }, "to"},
		"title":                        {func(r *intake.Request) { r.Title = "\xff" }, "title"},
		"body":                         {func(r *intake.Request) { r.Body = "\xff" }, "body"},
		"data":                         {func(r *intake.Request) { r.Data = json.RawMessage(`[]`) }, "data"},
		"priority":                     {func(r *intake.Request) { r.Priority = 9 }, "priority"},
		"send_at":                      {func(r *intake.Request) { r.SendAt = now.Add(91 * 24 * time.Hour) }, "send_at"},
		"expires_at":                   {func(r *intake.Request) { r.ExpiresAt = now }, "expires_at"},
		"collapse_key":                 {func(r *intake.Request) { r.CollapseKey = strings.Repeat("k", 65) }, "collapse_key"},
		"key of 256":                   {key(strings.Repeat("k", 256)), "idempotency_key"},
		"key with a control character": {key("a\x1fb"), "idempotency_key"},
		"key with a DEL":               {key("a\x7fb"), "idempotency_key"},
		"key that is not ASCII":        {key("é"), "idempotency_key"},
		"several at once": {func(r *intake.Request) {
			r.UserID, r.Category, r.To, r.IdempotencyKey = "", "gossip", "nowhere", "\n"
		}, "user_id category to idempotency_key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench()
			bad := request("", "bad")
			c.set(&bad)
			results := b.accept(t, request("n-1", "good"), bad, request("n-2", "good too"))
			var faults []string
			for _, fault := range notification.FieldErrors(results[1].Err) {
				faults = append(faults, fault.Field)
			}
			if got := strings.Join(faults, " "); got != c.want || results[1].Notification != nil || results[1].Known {
				t.Errorf("%+v: faults of %q, want %q", results[1], got, c.want)
			}
			if diff := cmp.Diff([][]string{{"n-1", "n-2"}}, b.store.accepts); diff != "" {
				t.Errorf("stored ids differ (-want +got):\n%s", diff)
			}
			if len(b.accepted) != 2 {
				t.Errorf("%d acceptances are reported, want 2", len(b.accepted))
			}
		})
	}
}

func TestKeysWithinTheirLimitsAreAccepted(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"k", " ", "~", strings.Repeat("k", 255), `{"a":"b"}`} {
		b := newBench()
		if r := b.accept(t, keyed(key, "hi"))[0]; r.Err != nil || b.store.holder(key) == nil {
			t.Errorf("key %q: %v, kept: %t", key, r.Err, b.store.holder(key) != nil)
		}
	}
}

// Whoever sends a known id with the same content gets the first notification with it. Other content is a conflict.
//
//nolint:paralleltest,tparallel // The end looks at what all of them left behind.
func TestAKnownIDIsARepeatOrAConflict(t *testing.T) {
	t.Parallel()
	b := newBench()
	first := b.accept(t, request("n-1", "the first"))[0]
	other := request("n-1", "of somebody else")
	other.UserID = "u-9"
	third := intake.Request{Notification: request("n-1", "the third").Notification, IdempotencyKey: "k-1"}
	for _, c := range []struct {
		name    string
		again   intake.Request
		differs []string
	}{
		{name: "the same", again: request("n-1", "the first")},
		{name: "another body", again: request("n-1", "the second"), differs: []string{"title"}},
		{name: "of another user", again: other, differs: []string{"user_id", "title"}},
		{name: "with a key", again: third, differs: []string{"title"}},
		{
			name: "of another user, with a key", differs: []string{"user_id", "title"},
			again: intake.Request{Notification: other.Notification, IdempotencyKey: "k-2"},
		},
		{name: "once more with that key", again: third, differs: []string{"title"}},
		{
			name:  "the same, with a key instead",
			again: intake.Request{Notification: request("n-1", "the first").Notification, IdempotencyKey: "k-3"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.accept(t, c.again)[0]
			if c.differs != nil {
				conflict, ok := errors.AsType[*notification.ConflictError](r.Err)
				if !ok || !errors.Is(r.Err, notification.ErrConflict) || r.Notification != nil {
					t.Fatalf("%+v, want a conflict only", r)
				}
				if diff := cmp.Diff(c.differs, conflict.Fields); diff != "" {
					t.Errorf("fields that differ (-want +got):\n%s", diff)
				}
				return
			}
			if r.Err != nil || !r.Known {
				t.Errorf("known %t, error %v; want it known", r.Known, r.Err)
			}
			if diff := cmp.Diff(first.Notification, r.Notification); diff != "" {
				t.Errorf("it gives another than the first (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff([]string{"n-1"}, b.store.fresh); diff != "" {
		t.Errorf("what was accepted anew differs (-want +got):\n%s", diff)
	}
	if len(b.accepted) != 1 {
		t.Errorf("%d acceptances are reported, want 1", len(b.accepted))
	}
}

func TestSameIDTwiceInABatch(t *testing.T) {
	t.Parallel()
	b := newBench()
	results := b.accept(t, request("n-1", "the first"), request("n-1", "the first"), request("n-1", "the second"))
	if results[0].Known || !results[1].Known || results[1].Notification.Title != "the first" ||
		!errors.Is(results[2].Err, notification.ErrConflict) {
		t.Errorf("results: %+v, %+v and %+v", results[0], results[1], results[2])
	}
	if len(b.store.fresh) != 1 || len(b.accepted) != 1 {
		t.Errorf("%d accepted anew, %d acceptances reported; want one each", len(b.store.fresh), len(b.accepted))
	}
}

func TestWhileTheStoreIsAwayABatchFailsAndCanBeRepeated(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.accept(t, request("n-1", "known"), keyed("k-1", "known"))
	b.store.fresh, b.accepted = nil, nil
	b.store.fail = "accept"
	batch := []intake.Request{request("n-2", "new"), keyed("k-2", "new"), keyed("k-1", "known")}
	results, err := b.Accept(t.Context(), batch)
	if !errors.Is(err, errAway) || results != nil || len(b.store.fresh)+len(b.accepted) != 0 {
		t.Fatalf("Accept gives %d results and %v, want the store's error only", len(results), err)
	}
	b.store.fail = ""
	for i, r := range b.accept(t, batch...) {
		if r.Err != nil || r.Known != (i == 2) {
			t.Errorf("repeated, result %d: %+v", i, r)
		}
	}
	if len(b.store.known) != 4 {
		t.Errorf("%d are stored, want 4", len(b.store.known))
	}
}

func TestMadeHereKnowsTheIDsThatIntakeMakes(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"019590c9-1d33-7cc5-8d5a-3c1b1f6e5a01":          true,
		"019590C9-1D33-7CC5-8D5A-3C1B1F6E5A01":          true,
		"f47ac10b-58cc-4372-a567-0e02b2c3d479":          false, // version 4
		"019590c91d337cc58d5a3c1b1f6e5a01":              false,
		"{019590c9-1d33-7cc5-8d5a-3c1b1f6e5a01}":        false,
		"urn:uuid:019590c9-1d33-7cc5-8d5a-3c1b1f6e5a01": false,
		"019590c9-1d33-7cc5-8d5a-3c1b1f6e5a0":           false,
		"019590c9-1d33-7cc5-8d5a-3c1b1f6e5a0g":          false,
		"order-17":                                      false,
		"":                                              false,
		"------------------------------------":          false,
	} {
		if got := intake.MadeHere(id); got != want {
			t.Errorf("%q was made here: %t, want %t", id, got, want)
		}
	}
}

func TestABatchWithNothingToStoreDoesNotAskTheStore(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.accept(t)
	if len(b.store.accepts) != 0 {
		t.Errorf("the store was given %v", b.store.accepts)
	}
	bad := request("a b", "")
	b.accept(t, bad, bad)
	if len(b.store.accepts) != 0 {
		t.Errorf("the store was given %v", b.store.accepts)
	}
}

// The largest batch mixes all kinds of requests. Each result is at the place of its request.
func TestLargeBatchKeepsItsOrder(t *testing.T) {
	t.Parallel()
	b := newBench()
	const size = 10_000
	b.accept(t, request("known", "known"))
	b.store.accepts, b.store.fresh = nil, nil
	batch := make([]intake.Request, size)
	for i := range batch {
		title := strconv.Itoa(i)
		switch i % 5 {
		case 0:
			batch[i] = request("n-"+title, title)
		case 1:
			batch[i] = request("", title)
		case 2:
			batch[i] = keyed("k-"+title, title)
		case 3:
			batch[i] = request("bad id", title)
		case 4:
			batch[i] = request("known", "known")
		}
	}
	var want []string
	for i, r := range b.accept(t, batch...) {
		title := strconv.Itoa(i)
		switch i % 5 {
		case 3:
			if r.Err == nil {
				t.Errorf("result %d is no refusal", i)
			}
		case 4:
			if !r.Known || r.Notification.Title != "known" {
				t.Errorf("result %d is %+v, want the one that is known", i, r)
			}
		default:
			if r.Err != nil || r.Known || r.Notification.Title != title {
				t.Errorf("result %d is %+v", i, r)
				continue
			}
			want = append(want, r.Notification.ID)
		}
	}
	if diff := cmp.Diff(want, b.store.fresh); diff != "" {
		t.Errorf("what was accepted anew differs (-want +got):\n%s", diff)
	}
	slices.Sort(want)
	if n := len(slices.Compact(want)); n != size*3/5 {
		t.Errorf("%d different ids, want %d", n, size*3/5)
	}
	if n := len(b.store.accepts); n != 1 {
		t.Errorf("the store was asked %d times, want once for all", n)
	}
}

// What the store can't keep is refused alone. Its key stays free: nothing was accepted that could be repeated.
func TestWhatTheStoreCantKeepIsRefusedAlone(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.store.unstorable = "bad"
	results := b.accept(t, keyed("k", "hi"), keyed("l", "bad"), keyed("m", "ho"))
	for i, r := range results {
		if errors.Is(r.Err, intake.ErrUnstorable) != (i == 1) || (r.Notification == nil) != (i == 1) || r.Known {
			t.Errorf("request %d gives %+v", i, r)
		}
	}
	if len(b.store.known) != 2 || len(b.accepted) != 2 {
		t.Errorf("%d stored, %d reported; want 2 each", len(b.store.known), len(b.accepted))
	}
	if b.store.holder("l") != nil {
		t.Error("the key of what was refused is taken")
	}
}
