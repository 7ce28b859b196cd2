package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pacer-notify/pacer/internal/notification"
)

// samePreference compares preferences by what they mean, without the time of the change.
var samePreference = cmp.Options{
	cmpopts.IgnoreFields(notification.Preferences{}, "UpdatedAt", "Version"), cmpopts.EquateEmpty(),
	cmp.FilterValues(func(a, b json.RawMessage) bool { return len(a)+len(b) > 0 },
		cmp.Comparer(func(a, b json.RawMessage) bool {
			var x, y any
			return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && cmp.Equal(x, y)
		})),
}

// everything wants something of all that there is.
func everything() *notification.Preferences {
	return &notification.Preferences{
		OptOutCategories: []string{"letter"}, OptOutChannels: []string{"webhook"}, TimeZone: "Europe/Vienna",
		Limits:     map[string]json.RawMessage{"chat": json.RawMessage(`{"limits":[{"max":1,"per":"1h"}]}`)},
		QuietHours: json.RawMessage(`{"closed":[{"from":"22:00","to":"08:00"}]}`),
		QuietUntil: time.Now().Add(time.Hour).Truncate(time.Microsecond),
	}
}

func (p *probe) setPreferences(user string, wanted *notification.Preferences) {
	p.Helper()
	if err := p.SetPreferences(p.Context(), user, wanted, notification.AnyVersion); err != nil {
		p.Fatalf("set the preferences of %s: %v", user, err)
	}
}

// wantPreferences compares a user's preferences.
func (p *probe) wantPreferences(user string, want *notification.Preferences) *notification.Preferences {
	p.Helper()
	got, err := p.Preferences(p.Context(), user)
	if err != nil {
		p.Fatalf("look up the preferences of %s: %v", user, err)
	}
	if diff := cmp.Diff(want, got, samePreference); diff != "" {
		p.Errorf("preferences of %s (-want +got):\n%s", user, diff)
	}
	return got
}

// changes lists the users of all changes, in the order of each part.
func (p *probe) changes(from int64, limit int) (users []string, last int64) {
	p.Helper()
	parts := p.PreferencesParts()
	numbers := make([]int64, parts)
	for i := range numbers {
		numbers[i] = from
	}
	pages := p.ChangedPreferences(p.Context(), numbers, limit)
	if len(pages) != parts {
		p.Fatalf("%d pages of %d parts", len(pages), parts)
	}
	for _, page := range pages {
		if page.Err != nil {
			p.Fatal(page.Err)
		}
		for i, c := range page.Changes {
			if i > 0 && c.Version <= page.Changes[i-1].Version || c.Version < from {
				p.Errorf("change %d after %d, from %d", c.Version, page.Changes[max(0, i-1)].Version, from)
			}
			users, last = append(users, c.UserID), max(last, c.Version)
		}
	}
	return users, last
}

// preferencesAreKept: preferences come back as they were written, and are removed.
func preferencesAreKept(p *probe) {
	p.wantPreferences("ada", &notification.Preferences{})
	before := time.Now().Add(-time.Minute)
	wanted := everything()
	p.setPreferences("ada", wanted)
	if got := p.wantPreferences("ada", wanted); got.UpdatedAt.Before(before) ||
		!got.UpdatedAt.Equal(wanted.UpdatedAt) {
		p.Errorf("changed at %s, told %s", got.UpdatedAt, wanted.UpdatedAt)
	}
	p.setPreferences("ben", &notification.Preferences{TimeZone: "Asia/Tokyo"})
	p.wantPreferences("ada", wanted)
	if err := p.ClearPreferences(p.Context(), "ada"); err != nil {
		p.Fatal(err)
	}
	p.wantPreferences("ada", &notification.Preferences{})
	p.wantPreferences("ben", &notification.Preferences{TimeZone: "Asia/Tokyo"})
}

// samePreferences: to write the same again is no change.
func samePreferences(p *probe) {
	wanted := everything()
	p.setPreferences("ada", wanted)
	_, first := p.changes(0, 10)
	again := *wanted
	again.UpdatedAt = time.Time{}
	p.setPreferences("ada", &again)
	if _, last := p.changes(0, 10); last != first || !again.UpdatedAt.Equal(wanted.UpdatedAt) {
		p.Errorf("written again: change %d at %s, want %d at %s", last, again.UpdatedAt, first, wanted.UpdatedAt)
	}
}

// onlyWhatWasRead: preferences that have changed since somebody read them are not replaced by him.
func onlyWhatWasRead(p *probe) {
	set := func(zone string, was int64) (*notification.Preferences, error) {
		wanted := &notification.Preferences{TimeZone: zone}
		return wanted, p.SetPreferences(p.Context(), "ada", wanted, was)
	}
	if _, err := set("Asia/Tokyo", 1); !errors.Is(err, notification.ErrPreferencesChanged) {
		p.Errorf("those that were never there are replaced: %v", err)
	}
	first, err := set("Asia/Tokyo", 0)
	if err != nil || first.Version == 0 {
		p.Fatalf("the first are %+v, %v", first, err)
	}
	if err := p.OptOut(p.Context(), "ada", "slow"); err != nil { // a click in between
		p.Fatal(err)
	}
	for _, was := range []int64{0, first.Version} {
		for _, zone := range []string{"Asia/Tokyo", "Europe/Vienna"} {
			if _, err := set(zone, was); !errors.Is(err, notification.ErrPreferencesChanged) {
				p.Errorf("version %d is replaced after a click: %v", was, err)
			}
		}
	}
	now := p.wantPreferences("ada", &notification.Preferences{
		TimeZone: "Asia/Tokyo", OptOutCategories: []string{"slow"},
	})
	next, err := set("Europe/Vienna", now.Version)
	if err != nil || next.Version <= now.Version {
		p.Errorf("what was read is replaced by %+v, %v", next, err)
	}
	var writing sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		writing.Go(func() { _, errs[i] = set(fmt.Sprint("Etc/GMT+", i), next.Version) })
	}
	writing.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, notification.ErrPreferencesChanged) })
	if len(errs) != 1 || errs[0] != nil {
		p.Errorf("of many who read the same replace it %d, %v; want one", len(errs), errs)
	}
}

// changesAreNumbered: each user is listed once, by the latest change, removals too, in pages.
func changesAreNumbered(p *probe) {
	if users, _ := p.changes(0, 10); len(users) > 0 {
		p.Fatalf("changes of %v in an empty store", users)
	}
	many, want := map[string]*notification.Preferences{}, []string{}
	for i := range 40 {
		user := fmt.Sprint("user", i)
		many[user], want = &notification.Preferences{TimeZone: "Europe/Vienna"}, append(want, user)
	}
	if err := p.SetManyPreferences(p.Context(), many); err != nil {
		p.Fatal(err)
	}
	got, last := p.changes(0, 100)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		p.Errorf("changed (-want +got):\n%s", diff)
	}
	if page, _ := p.changes(0, 3); len(page) != 3*p.PreferencesParts() {
		p.Errorf("a page of 3 has %v", page)
	}
	p.setPreferences("user7", &notification.Preferences{TimeZone: "Asia/Tokyo"})
	if err := p.ClearPreferences(p.Context(), "user8"); err != nil {
		p.Fatal(err)
	}
	got, _ = p.changes(last+1, 100)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"user7", "user8"}, got); diff != "" {
		p.Errorf("changed afterwards (-want +got):\n%s", diff)
	}
}

// optOutsCancel: what waits of a category or a channel that a user does not want ends, wherever it waits.
func optOutsCancel(p *probe) {
	slow := func(n *notification.Notification) { n.Category = "slow" }
	first, second := p.accept(slow), p.accept(slow)
	later := p.accept(func(n *notification.Notification) { n.SendAt = time.Now().Add(time.Hour) })
	other := p.accept(func(n *notification.Notification) { n.Channel, n.SendAt = "webhook", time.Now().Add(time.Hour) })
	bens := p.accept(func(n *notification.Notification) { n.Category, n.UserID = "slow", "ben" })
	p.setPreferences("ada", &notification.Preferences{OptOutCategories: []string{"slow"}})
	for _, n := range []*notification.Notification{first, second} {
		p.want(n.ID, notification.StatusCancelled, 0, notification.ReasonOptedOut)
	}
	p.want(later.ID, notification.StatusScheduled, 0, "")
	p.want(bens.ID, notification.StatusQueued, 0, "")
	p.setPreferences("ada", &notification.Preferences{OptOutChannels: []string{"webhook"}})
	p.want(other.ID, notification.StatusCancelled, 0, notification.ReasonOptedOut)
	p.want(later.ID, notification.StatusScheduled, 0, "")
	if err := p.OptOut(p.Context(), "ada", "free"); err != nil {
		p.Fatal(err)
	}
	p.want(later.ID, notification.StatusCancelled, 0, notification.ReasonOptedOut)
	p.want(bens.ID, notification.StatusQueued, 0, "")
	for range 2 {
		if err := p.OptIn(p.Context(), "ada", "free"); err != nil {
			p.Fatal(err)
		}
	}
	p.wantPreferences("ada", &notification.Preferences{OptOutChannels: []string{"webhook"}})
}

// clicksAtOnce: of many clicks at the same time each counts, and all else that the user wants stays.
func clicksAtOnce(p *probe) {
	wanted := everything()
	p.setPreferences("ada", wanted)
	want := slices.Clone(wanted.OptOutCategories)
	var clicks sync.WaitGroup
	for i := range 24 {
		category := fmt.Sprint("news", i%8)
		if i < 8 {
			want = append(want, category)
		}
		clicks.Go(func() {
			if err := p.OptOut(p.Context(), "ada", category); err != nil {
				p.Error(err)
			}
		})
	}
	clicks.Wait()
	got, err := p.Preferences(p.Context(), "ada")
	if err != nil {
		p.Fatal(err)
	}
	slices.Sort(got.OptOutCategories)
	wanted.OptOutCategories = slices.Sorted(slices.Values(want))
	if diff := cmp.Diff(wanted, got, samePreference); diff != "" {
		p.Errorf("after the clicks (-want +got):\n%s", diff)
	}
}
