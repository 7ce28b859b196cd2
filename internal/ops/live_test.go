package ops_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/test/apitest"
)

// deployment is what a Live looks at. At each look a second passes and some notifications are delivered.
type deployment struct {
	looks atomic.Int64
	away  atomic.Bool
}

func (d *deployment) read(context.Context) (*ops.Snapshot, error) {
	if d.away.Load() {
		return nil, errAway
	}
	n := d.looks.Add(1)
	lateness := make([]uint64, 15)
	lateness[3] = uint64(100 * n) // between 2.5 and 5 ms
	return &ops.Snapshot{
		At:     at.Add(time.Duration(n) * time.Second),
		Counts: stats.Counts{Totals: stats.Totals{Accepted: 10 * n, Delivered: 5 * n, Pulls: 8 * n}},
		Processes: []ops.Process{ops.NewProcess(
			stats.Process{ID: "p", Roles: []string{"worker"}, Since: at, InFlight: 1},
			ops.Report{Concurrency: 4, Lateness: lateness})},
	}, nil
}

func TestRatesAndLatenessFollowFromSuccessiveLooks(t *testing.T) {
	t.Parallel()
	d := &deployment{}
	live := ops.NewLive(d.read, slog.New(slog.DiscardHandler))
	first, err := live.Latest(t.Context())
	if err != nil || first.Rates != (ops.Rates{}) || first.Lateness != (ops.Lateness{}) {
		t.Fatalf("the first look gives %+v, %v", first, err)
	}
	for range 10 {
		if _, err := live.Latest(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s, err := live.Latest(t.Context())
	if err != nil || s.Rates.Accepted != 10 || s.Rates.Delivered != 5 || s.Rates.Failed != 0 {
		t.Errorf("the rates are %+v, %v", s.Rates, err)
	}
	near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-9 }
	if !near(s.PullsPerDelivery, 1.6) || !near(s.Lateness.P50, 0.00375) || !near(s.Lateness.P99, 0.004975) {
		t.Errorf("%.3f pulls per delivery, lateness %+v", s.PullsPerDelivery, s.Lateness)
	}
	d.away.Store(true)
	if _, err := live.Latest(t.Context()); !errors.Is(err, errAway) {
		t.Errorf("without a store it gives %v", err)
	}
}

// Counts begin anew after a rebuild, and in a process that took another's name. They make no rates.
func TestCountsThatBeginAnewMakeNoRates(t *testing.T) {
	t.Parallel()
	n := 0
	live := ops.NewLive(func(context.Context) (*ops.Snapshot, error) {
		n++
		return &ops.Snapshot{
			At:     at.Add(time.Duration(n) * time.Second),
			Counts: stats.Counts{Totals: stats.Totals{Accepted: int64(100 / n), Delivered: int64(100 / n)}},
			Processes: []ops.Process{ops.NewProcess(
				stats.Process{ID: "p", Since: at}, ops.Report{Lateness: []uint64{uint64(100 / n)}})},
		}, nil
	}, slog.New(slog.DiscardHandler))
	for range 4 {
		s, err := live.Latest(t.Context())
		if err != nil || s.Rates != (ops.Rates{}) || s.PullsPerDelivery != 0 || s.Lateness != (ops.Lateness{}) {
			t.Errorf("gives %+v, %v", s, err)
		}
	}
}

// stream opens the page's stream and returns a function that reads its next event.
func stream(t *testing.T, url string) (next func() (kind string, data []byte)) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := apitest.Once.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("the stream is %s", got)
	}
	lines := bufio.NewScanner(response.Body)
	return func() (kind string, data []byte) {
		for lines.Scan() {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				kind = name
			}
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return kind, []byte(text)
			}
		}
		return "", nil
	}
}

// snapshots serves pages to a watcher, has Live look until the test ends, and gives a function that reads the next
// snapshot which the watcher gets.
func snapshots(t *testing.T, cfg ops.Config) (next func() *ops.Snapshot) {
	t.Helper()
	server := httptest.NewServer(ops.Handler(cfg))
	t.Cleanup(server.Close)
	event := stream(t, server.URL)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); cfg.Live.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return func() *ops.Snapshot {
		for kind, data := event(); ; kind, data = event() {
			if kind == "snapshot" {
				s := &ops.Snapshot{}
				if err := json.Unmarshal(data, s); err != nil {
					t.Fatal(err)
				}
				return s
			}
		}
	}
}

// A watcher gets the history, then every look, and the end of the stream once there are no more looks.
func TestWatchersGetHistoryThenSnapshots(t *testing.T) {
	t.Parallel()
	d := &deployment{}
	cfg := config()
	cfg.Live = ops.NewLive(d.read, cfg.Log)
	server := httptest.NewServer(ops.Handler(cfg))
	t.Cleanup(server.Close)
	if _, err := cfg.Live.Latest(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := stream(t, server.URL)
	var history []ops.Point
	if kind, data := next(); kind != "history" || json.Unmarshal(data, &history) != nil || len(history) != 1 {
		t.Fatalf("the stream begins with %s %s", kind, data)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); cfg.Live.Run(ctx) }()
	for range 2 {
		var s ops.Snapshot
		if kind, data := next(); kind != "snapshot" || json.Unmarshal(data, &s) != nil || s.Rates.Delivered != 5 {
			t.Errorf("then comes %s %s", kind, data)
		}
	}
	stop()
	<-ended
	for {
		if kind, _ := next(); kind == "" {
			break
		}
	}
	if kind, _ := stream(t, server.URL)(); kind != "history" {
		t.Errorf("who comes later gets %q", kind)
	}
}

// A look that a later one has overtaken changes nothing.
func TestOvertakenLooksChangeNothing(t *testing.T) {
	t.Parallel()
	snapshots := make(chan *ops.Snapshot)
	live := ops.NewLive(func(context.Context) (*ops.Snapshot, error) { return <-snapshots, nil },
		slog.New(slog.DiscardHandler))
	latest := make(chan *ops.Snapshot, 2)
	for range 2 {
		go func() {
			s, err := live.Latest(t.Context())
			if err != nil {
				t.Error(err)
			}
			latest <- s
		}()
	}
	snapshots <- &ops.Snapshot{At: at.Add(time.Second), Counts: stats.Counts{UsersDeferred: 2}}
	if s := <-latest; s.UsersDeferred != 2 {
		t.Errorf("the first to return gives %+v", s)
	}
	snapshots <- &ops.Snapshot{At: at, Counts: stats.Counts{UsersDeferred: 1}}
	if s := <-latest; s.UsersDeferred != 2 {
		t.Errorf("the one that began before gives %+v", s)
	}
}

// The log names the night's first questions once: whether anybody works, and for whom too much waits.
func TestTheLogSaysThatNoWorkerIsAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		role := "worker"
		live := ops.NewLive(func(context.Context) (*ops.Snapshot, error) {
			return &ops.Snapshot{At: time.Now(), Processes: []ops.Process{
				ops.NewProcess(stats.Process{ID: "a", Roles: []string{role}}, ops.Report{}),
			}, Crowds: []stats.Crowd{{UserID: "ada", Category: "chat", Deferred: 1001, Unbounded: role == "api"}}}, nil
		}, slog.New(slog.NewTextHandler(&log, nil)))
		for second := range 90 {
			role = "worker"
			if second > 10 && second < 60 {
				role = "api"
			}
			if _, err := live.Latest(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		lines := regexp.MustCompile(`level=\S+ msg=.*`).FindAllString(log.String(), -1)
		want := []string{
			`level=WARN msg="very many notifications wait for one user, and no overflow ladder bounds them" ` +
				`user_id=ada category=chat waiting=1001`,
			`level=WARN msg="no worker is alive: nothing is delivered until one is started; new notifications are accepted" ` +
				`since=00:00:10 waiting=0`,
			`level=INFO msg="a worker is alive again" after=50s`,
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// The page shows an action at once, however new the latest snapshot is.
func TestActionsShowAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeActions{}
		cfg := config()
		cfg.Actions = f
		cfg.Live = ops.NewLive(func(context.Context) (*ops.Snapshot, error) {
			began := time.Now()
			users := int64(len(f.done))
			<-time.After(10 * time.Millisecond)
			return &ops.Snapshot{At: began, Counts: stats.Counts{UsersDeferred: users}}, nil
		}, cfg.Log)
		show := func(want int64) {
			t.Helper()
			var s ops.Snapshot
			got := ask(t, cfg, http.MethodGet, "/snapshot")
			if json.Unmarshal(got.Body.Bytes(), &s) != nil || s.UsersDeferred != want {
				t.Errorf("the page shows %d actions, want %d", s.UsersDeferred, want)
			}
		}
		show(0)
		for n := range int64(3) {
			recorder := httptest.NewRecorder()
			request := asked(t, http.MethodPost, "/actions", "127.0.0.1:8081", "localhost:8081")
			ops.Handler(cfg).ServeHTTP(recorder, request)
			if recorder.Code != http.StatusOK {
				t.Fatalf("%d %s", recorder.Code, recorder.Body)
			}
			show(n + 1)
			<-time.After(time.Millisecond)
		}
	})
}

// Those who watch see why the deployment can't be read, beside the figures that were read last.
func TestWatchersSeeThatAStoreIsAway(t *testing.T) {
	t.Parallel()
	looks := atomic.Int64{}
	cfg := config()
	cfg.Live = ops.NewLive(func(context.Context) (*ops.Snapshot, error) {
		if looks.Add(1) > 1 {
			return nil, &ops.Away{Stores: []string{"Redis"}, Err: errAway}
		}
		return &ops.Snapshot{At: time.Now(), Counts: stats.Counts{Deferred: 7}}, nil
	}, cfg.Log)
	next := snapshots(t, cfg)
	s := next()
	for !s.Stale {
		s = next()
	}
	if s.Deferred != 7 || len(s.Problems) != 1 || !strings.HasPrefix(s.Problems[0].Text, "Redis does not respond") {
		t.Errorf("while Redis is away they see %d deferred and %q", s.Deferred, s.Problems)
	}
	if got := ask(t, cfg, "GET", "/snapshot"); got.Code != http.StatusServiceUnavailable ||
		!strings.HasPrefix(got.Body.String(), "Redis does not respond") {
		t.Errorf("/snapshot: %d %s", got.Code, got.Body)
	}
}

// A page that is opened while nothing could be read yet says why, too, also when every store responds: a part of a
// cluster may be away, or a right be missing.
func TestWatchersSeeWhyNothingCouldBeReadFromTheBeginning(t *testing.T) {
	t.Parallel()
	for want, fault := range map[string]error{
		"Postgres is slow": &ops.Away{
			Slow: []string{"Postgres is slow: a reply takes 1.6 s"}, Err: errAway,
		},
		"the store can't be read now": errAway,
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			cfg := config()
			cfg.Live = ops.NewLive(func(context.Context) (*ops.Snapshot, error) { return nil, fault }, cfg.Log)
			s := snapshots(t, cfg)()
			if len(s.Problems) != 1 || !strings.HasPrefix(s.Problems[0].Text, want) || !s.Stale {
				t.Errorf("they see %q, stale %t", s.Problems, s.Stale)
			}
		})
	}
}

// Whoever asks and goes away says nothing about the stores.
func TestWatchersSeeNothingOfARequestThatWasGivenUp(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	live := ops.NewLive(func(ctx context.Context) (*ops.Snapshot, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return &ops.Snapshot{At: time.Now()}, nil
	}, slog.New(slog.NewTextHandler(&log, nil)))
	cfg := config()
	cfg.Live = live
	server := httptest.NewServer(ops.Handler(cfg))
	t.Cleanup(server.Close)
	next := stream(t, server.URL)
	given, up := context.WithCancel(t.Context())
	up()
	if _, err := live.Latest(given); !errors.Is(err, context.Canceled) {
		t.Errorf("it gives %v", err)
	}
	if _, err := live.Latest(t.Context()); err != nil {
		t.Fatal(err)
	}
	for kind, data := next(); ; kind, data = next() {
		if kind == "snapshot" {
			if strings.Contains(string(data), `"stale"`) || log.Len() > 0 {
				t.Errorf("they see %s, logged %s", data, log.String())
			}
			return
		}
	}
}
