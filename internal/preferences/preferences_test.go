package preferences_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/preferences"
)

// source is a store of two parts: users whose names have an even length, and the others.
type source struct {
	mu    sync.Mutex
	last  int64
	users [2]map[string]notification.PreferencesChange
	away  [2]error // why a part can't be read
}

func newSource() *source {
	return &source{users: [2]map[string]notification.PreferencesChange{{}, {}}}
}

func (s *source) set(user string, p notification.Preferences) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	p.Version = s.last
	s.users[len(user)%2][user] = notification.PreferencesChange{UserID: user, Preferences: p}
}

// PreferencesParts implements [preferences.Source].
func (s *source) PreferencesParts() int { return 2 }

// ChangedPreferences implements [preferences.Source].
func (s *source) ChangedPreferences(_ context.Context, from []int64, limit int) []notification.PreferencesPage {
	s.mu.Lock()
	defer s.mu.Unlock()
	pages := make([]notification.PreferencesPage, 2)
	for part, users := range s.users {
		if s.away[part] != nil {
			pages[part].Err = s.away[part]
			continue
		}
		var changes []notification.PreferencesChange
		for _, c := range users {
			if c.Version >= from[part] {
				changes = append(changes, c)
			}
		}
		slices.SortFunc(changes, func(a, b notification.PreferencesChange) int { return int(a.Version - b.Version) })
		pages[part].Changes = changes[:min(limit, len(changes))]
	}
	return pages
}

// agendas note who was woken. Something waits for everybody.
type agendas struct {
	mu    sync.Mutex
	down  bool
	woken map[string]int
	marks []int64
}

// PartitionOf implements [preferences.Agendas].
func (a *agendas) PartitionOf(user string) int { return len(user) % 3 }

// WakePersonal implements [preferences.Agendas].
func (a *agendas) WakePersonal(_ context.Context, _ int, users ...string) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		return 0, errors.New("away")
	}
	for _, user := range users {
		a.woken[user]++
	}
	return len(users), nil
}

// Woken implements [preferences.Marks].
func (a *agendas) Woken(context.Context) ([]int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.marks, nil
}

// NoteWoken implements [preferences.Marks].
func (a *agendas) NoteWoken(_ context.Context, marks []int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marks = marks
	return nil
}

// setDown has them not respond, or respond again.
func (a *agendas) setDown(down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = down
}

// wokenSoFar reports how often each user was woken.
func (a *agendas) wokenSoFar() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.woken)
}

// sleep lets some time of a bubble pass.
func sleep(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // a bubble's clock costs nothing

// in wants a zone.
func in(zone string) notification.Preferences { return notification.Preferences{TimeZone: zone} }

// zoneOf names the zone that is known of a user.
func zoneOf(m *preferences.Memory, user string) string {
	if wish, _ := m.Of(user); wish.Zone != nil {
		return wish.Zone.String()
	}
	return ""
}

func load(t *testing.T, s *source, a *agendas) *preferences.Follower {
	t.Helper()
	f := preferences.NewFollower(s, preferences.Config{Agendas: a, Marks: a})
	if err := f.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestChangesAreFollowedAndWhomTheyConcernIsWoken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := newSource(), &agendas{woken: map[string]int{}}
		for i := range 5000 { // several pages
			s.set(fmt.Sprint("user", i), in("Europe/Vienna"))
		}
		f := load(t, s, a)
		if f.Len() != 5000 || zoneOf(f.Memory, "user4999") != "Europe/Vienna" || zoneOf(f.Memory, "nobody") != "" {
			t.Fatalf("%d users are known; user4999 lives in %s", f.Len(), zoneOf(f.Memory, "user4999"))
		}
		ctx, cancel := context.WithCancel(t.Context())
		go f.Run(ctx)
		sleep(5 * time.Second)
		if woken := a.wokenSoFar(); len(woken) > 0 {
			t.Errorf("%d users were woken although nothing changed", len(woken))
		}
		s.set("user7", in("Asia/Tokyo"))
		s.set("user8", notification.Preferences{})
		sleep(time.Second)
		if zoneOf(f.Memory, "user7") != "Asia/Tokyo" || zoneOf(f.Memory, "user8") != "" || f.Len() != 4999 {
			t.Errorf("a second later user7 lives in %s, user8 in %s", zoneOf(f.Memory, "user7"), zoneOf(f.Memory, "user8"))
		}
		if want := map[string]int{"user7": 1, "user8": 1}; !maps.Equal(a.wokenSoFar(), want) {
			t.Errorf("a second later were woken %v, want %v", a.wokenSoFar(), want)
		}
		sleep(5 * time.Second)
		if want := map[string]int{"user7": 2, "user8": 2}; !maps.Equal(a.wokenSoFar(), want) {
			t.Errorf("in the end were woken %v, want %v: once more for a process that did not know yet", a.wokenSoFar(), want)
		}
		cancel()
		synctest.Wait()
	})
}

// A process that dies between a change and its wake-up, or can't reach Redis, leaves it to itself or to the next.
func TestNobodyIsLeftAsleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := newSource(), &agendas{woken: map[string]int{}}
		s.set("ada", in("Europe/Vienna"))
		s.set("finn", in("Europe/Vienna"))
		f := load(t, s, a)
		ctx, cancel := context.WithCancel(t.Context())
		go f.Run(ctx)
		sleep(time.Second)
		a.setDown(true)
		s.set("ada", in("Asia/Tokyo"))
		sleep(time.Minute)
		cancel()
		synctest.Wait()
		a.setDown(false)
		f = load(t, s, a)
		ctx, cancel = context.WithCancel(t.Context())
		go f.Run(ctx)
		sleep(5 * time.Second)
		cancel()
		synctest.Wait()
		if want := map[string]int{"ada": 2}; !maps.Equal(a.wokenSoFar(), want) {
			t.Errorf("after the restart were woken %v, want %v", a.wokenSoFar(), want)
		}
	})
}

func TestWhatAStoreLostIsForgotten(t *testing.T) {
	t.Parallel()
	s, a := newSource(), &agendas{woken: map[string]int{}}
	for _, user := range []string{"ada", "ben", "finn"} {
		s.set(user, in("Europe/Vienna"))
	}
	f := load(t, s, a)
	s.users[1] = map[string]notification.PreferencesChange{} // ada's and ben's
	s.last = 0
	s.set("ada", in("Asia/Tokyo"))
	if err := f.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, user := range []string{"ada", "ben", "finn"} {
		got[user] = zoneOf(f.Memory, user)
	}
	want := map[string]string{"ada": "Asia/Tokyo", "ben": "", "finn": "Europe/Vienna"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("zones (-want +got):\n%s", diff)
	}
}

// A store forgets in time whose preferences were removed. Whoever has not read of it by then reads all again.
func TestForgottenRemovalsAreNoticed(t *testing.T) {
	t.Parallel()
	s, a := newSource(), &agendas{woken: map[string]int{}}
	for _, user := range []string{"ada", "ben"} {
		s.set(user, in("Europe/Vienna"))
	}
	f := load(t, s, a)
	delete(s.users[1], "ada") // ben's is the last change that was read
	s.last++
	s.users[1][""] = notification.PreferencesChange{Preferences: notification.Preferences{Version: s.last}}
	s.set("eve", in("Asia/Tokyo"))
	for range 2 {
		if err := f.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := []string{zoneOf(f.Memory, "ada"), zoneOf(f.Memory, "ben"), zoneOf(f.Memory, "eve")}
		if diff := cmp.Diff([]string{"", "Europe/Vienna", "Asia/Tokyo"}, got); diff != "" {
			t.Errorf("zones (-want +got):\n%s", diff)
		}
	}
}

// A store may have lost its latest changes, as in a fail-over, and have newer ones by the time that it is looked at.
func TestWhatAStoreLostIsForgottenAlsoBehindNewerChanges(t *testing.T) {
	t.Parallel()
	s, a := newSource(), &agendas{woken: map[string]int{}}
	for _, user := range []string{"ada", "eve"} {
		s.set(user, in("Europe/Vienna"))
	}
	kept := s.users[1]["eve"]
	s.set("eve", in("Africa/Cairo"))
	f := load(t, s, a)
	s.users[1]["eve"] = kept
	s.set("ben", in("Asia/Tokyo"))
	if err := f.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]string{"ada": "Europe/Vienna", "eve": "Europe/Vienna", "ben": "Asia/Tokyo"} {
		if got := zoneOf(f.Memory, user); got != want {
			t.Errorf("%s lives in %q, want %q", user, got, want)
		}
	}
	f.Look(t.Context())
	a.mu.Lock()
	a.woken = map[string]int{}
	a.mu.Unlock()
	s.set("ben", in("Africa/Cairo")) // whose change was the latest: nothing is lost, and nobody else is looked at
	if err := f.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Look(t.Context())
	if woken := a.wokenSoFar(); woken["ada"]+woken["eve"] > 0 || woken["ben"] == 0 {
		t.Errorf("woken are %v, want ben alone", woken)
	}
}

// While a part of the store is away, the changes of the others are followed, what is known of it holds, and a process
// that starts refuses to decide without it.
func TestAPartThatIsAwayKeepsBackNoOther(t *testing.T) {
	t.Parallel()
	s, a := newSource(), &agendas{woken: map[string]int{}}
	s.set("ada", in("Europe/Vienna"))
	s.set("finn", in("Europe/Vienna"))
	f := load(t, s, a)
	away := errors.New("away")
	s.away[1] = away
	s.set("ada", in("Asia/Tokyo"))
	s.set("finn", in("Asia/Tokyo"))
	if err := f.Refresh(t.Context()); !errors.Is(err, away) {
		t.Errorf("the error is %v", err)
	}
	if ada, finn := zoneOf(f.Memory, "ada"), zoneOf(f.Memory, "finn"); ada != "Europe/Vienna" || finn != "Asia/Tokyo" {
		t.Errorf("while ada's part is away, ada lives in %q and finn in %q", ada, finn)
	}
	if err := preferences.NewFollower(s, preferences.Config{}).Load(t.Context()); !errors.Is(err, away) {
		t.Errorf("a process starts without a part: %v", err)
	}
	s.away[1] = nil
	if err := f.Refresh(t.Context()); err != nil || zoneOf(f.Memory, "ada") != "Asia/Tokyo" {
		t.Errorf("afterwards ada lives in %q, %v", zoneOf(f.Memory, "ada"), err)
	}
}

func TestWhatCannotBeReadDoesNotHold(t *testing.T) {
	t.Parallel()
	m := preferences.NewMemory()
	err := m.Set("ada", &notification.Preferences{
		TimeZone: "Middle/Earth", OptOutCategories: []string{"chat"}, QuietUntil: time.Unix(5, 0),
		Limits: map[string]json.RawMessage{
			"chat": json.RawMessage(`{"limits": [{"max": 1, "per": "1h"}]}`), "new": json.RawMessage(`{"limits": 5}`),
		},
		QuietHours: json.RawMessage(`{"moon": "full"}`),
	})
	if err == nil {
		t.Error("want an error that says what can't be read")
	}
	wish, until := m.Of("ada")
	if wish.Zone != nil || wish.Hours != nil || len(wish.Limits) != 1 || until != 5_000_000 ||
		!wish.OptedOut("chat", "log") || wish.OptedOut("new", "log") || wish.Limits["chat"][0].Per != time.Hour {
		t.Errorf("known are %+v until %d", wish, until)
	}
}

// BenchmarkMillionUsers has a million users with zones, hours and limits in memory.
func BenchmarkMillionUsers(b *testing.B) {
	const users = 1_000_000
	zones := []string{"Europe/Vienna", "Asia/Tokyo", "America/New_York", "Asia/Kathmandu"}
	of := func(i int) *notification.Preferences {
		p := in(zones[i%len(zones)])
		if i%3 == 0 {
			p.QuietHours = fmt.Appendf(nil, `{"closed": [{"from": "%02d:%02d", "to": "08:00"}]}`, 18+i/3%6, i/18%60)
		}
		if i%10 == 0 {
			p.OptOutCategories = []string{"letter"}
		}
		return &p
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m, began := preferences.NewMemory(), time.Now()
	for i := range users {
		if err := m.Set(fmt.Sprint("user-", i), of(i)); err != nil {
			b.Fatal(err)
		}
	}
	loaded := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	bytes := float64(after.HeapAlloc-before.HeapAlloc) / users
	b.Run("Change", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			_ = m.Set(fmt.Sprint("user-", i%users), of(i+1))
		}
		b.ReportMetric(bytes, "B/user")
		b.ReportMetric(loaded.Seconds(), "s/load")
	})
	b.Run("Read", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if wish, _ := m.Of("user-77"); wish.Zone == nil {
				b.Fatal("unknown")
			}
		}
	})
}
