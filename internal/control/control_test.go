package control_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/postgrestest"
	"github.com/pacer-notify/pacer/internal/redistest"
	"github.com/pacer-notify/pacer/migrations"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m))) }

// Both stores keep the same.
func TestStores(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) control.Store{
		"Redis":     func(t *testing.T) control.Store { return control.NewRedis(redistest.Client(t)) },
		"Miniredis": func(t *testing.T) control.Store { return control.NewRedis(redistest.Mini(t)) },
		"Postgres": func(t *testing.T) control.Store {
			url := postgrestest.URL(t)
			if err := migrations.Up(t.Context(), url); err != nil {
				t.Fatal(err)
			}
			pool, err := pgxpool.New(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			return control.NewPostgres(pool)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keeps(t, open(t))
		})
	}
}

func keeps(t *testing.T, store control.Store) {
	fcm, lane := control.Subject{Kind: control.Channel, Name: "fcm"}, control.Subject{Kind: control.Lane, Name: "3"}
	ctx := t.Context()
	for _, p := range []control.Pause{{Subject: lane, By: "ada"}, {Subject: fcm, By: "ada", Why: "first"}, {Subject: fcm, By: "ben", Why: "second"}} {
		if err := store.Pause(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	pauses, err := store.Pauses(ctx)
	if err != nil || len(pauses) != 2 || pauses[0].Subject != fcm || pauses[0].By != "ben" || pauses[0].Why != "second" || pauses[1].Subject != lane {
		t.Fatalf("paused is %+v, %v", pauses, err)
	}
	if age := time.Since(pauses[0].At); age < -time.Minute || age > time.Minute {
		t.Errorf("it was paused %s ago", age)
	}
	for _, want := range []bool{true, false} {
		if was, err := store.Resume(ctx, fcm); was != want || err != nil {
			t.Errorf("resumed is %t, %v", was, err)
		}
	}
	if pauses, err := store.Pauses(ctx); err != nil || len(pauses) != 1 {
		t.Errorf("then paused is %+v, %v", pauses, err)
	}
	for _, action := range []string{"pause", "resume", "cancel"} {
		if err := store.Note(ctx, control.Entry{By: "ada", Action: action, Subject: "n1", Detail: "why"}); err != nil {
			t.Fatal(err)
		}
	}
	trail, err := store.Audit(ctx, 2)
	if err != nil || len(trail) != 2 || trail[0].Action != "cancel" || trail[1].Action != "resume" || trail[0].By != "ada" || trail[0].Detail != "why" {
		t.Errorf("the trail is %+v, %v", trail, err)
	}
}

// memory is a store in which a test writes what is paused.
type memory struct {
	control.Store
	mu     sync.Mutex
	pauses []control.Pause
	away   error
}

// Pauses implements [control.Store].
func (m *memory) Pauses(context.Context) ([]control.Pause, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pauses, m.away
}

func (m *memory) set(away error, pauses ...control.Pause) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
	if away == nil {
		m.pauses = pauses
	}
}

// A process follows within a second, keeps what it knew while the store is away, and stops the queues of lanes.
func TestFollower(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lanes []string
		var log strings.Builder
		store := &memory{}
		f := control.NewFollower(store, func(_ context.Context, name string, resting bool) error {
			if !resting {
				name = "not " + name
			}
			lanes = append(lanes, name)
			return nil
		}, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.Run(ctx) }()
		passes := func() {
			<-time.After(1100 * time.Millisecond)
			synctest.Wait()
		}
		passes()
		store.set(nil, control.Pause{Subject: control.Subject{Kind: control.Category, Name: "chat"}, At: time.Now(), By: "ada", Why: "spam"},
			control.Pause{Subject: control.Subject{Kind: control.Lane, Name: "3"}, At: time.Now()})
		passes()
		wait := f.Wait(control.Category, "chat")
		if wait < time.Second || wait > 3*time.Second || f.Wait(control.Category, "news") != 0 || f.Wait(control.Channel, "chat") != 0 {
			t.Errorf("what is paused waits %s", wait)
		}
		store.set(errors.New("away"))
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if wait := f.Wait(control.Category, "chat"); wait < 15*time.Second || wait > 45*time.Second {
			t.Errorf("after ten minutes it waits %s", wait)
		}
		store.set(nil)
		passes()
		if wait := f.Wait(control.Category, "chat"); wait != 0 {
			t.Errorf("once it is resumed it waits %s", wait)
		}
		stop()
		<-done
		if len(lanes) < 2 || lanes[0] != "3" || lanes[len(lanes)-1] != "not 3" || slices.Index(lanes, "not 3") != len(lanes)-1 {
			t.Errorf("the lanes were told %v", lanes)
		}
		for _, want := range []string{"msg=paused kind=category name=chat by=ada why=spam", "msg=resumed kind=lane name=3"} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("the log does not say %q once: %s", want, &log)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	names := func(control.Kind) []string { return []string{"fcm", "log"} }
	for want, s := range map[string]control.Subject{
		"":                                       {Kind: control.Channel, Name: "log"},
		`can't pause a "user"`:                   {Kind: "user", Name: "log"},
		"there is no channel pigeon: it must be": {Kind: control.Channel, Name: "pigeon"},
	} {
		err := control.Check(s, names)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v, want %q", s, err, want)
		}
	}
}
