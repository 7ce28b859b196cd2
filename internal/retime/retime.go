// Package retime has what waits decided again after a change of the policy: a looser one moves it up at once, and a
// stricter one moves it back. It wakes each user for whom something waits, once. The workers of the deployment share
// the partitions between them, at a pace at which other deliveries stay on time.
//
// A wake-up is decided by the policy of the process that pulls it, and processes read a file some moments apart. So a
// pass over the users begins when every worker has the same policy, and has ended its rounds under the one before:
//
//	a process reads another policy
//	  → its rounds under the one before end; it notes the latest pass, since that has begun without it
//	  → it reports that it is ready (package presence)
//	every worker is ready for the same version, or one has waited for 15 s
//	  → the first to see it begins a pass; each worker takes a partition, wakes its users, takes the next
//	a pass that did not wait for everybody is made again once everybody has the version
//
// What the pass has done is noted in Redis after each page of users. The partition of a process that dies is another's
// after 10 s; its users are then woken again from the first.
package retime

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/beat"
	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/presence"
)

const (
	// page is how many users are woken at a time.
	page = 100
	// Rate is how many users each process wakes in a second at most.
	Rate = 2000
	// crowded is how many wake-ups may be pending in a partition when more are set, and crowdedPatience how long a page
	// waits for that.
	crowded, crowdedPatience = 200, time.Second
	// lease is how long a partition is a process's that tells nothing of it.
	lease = 10 * time.Second
	// patience is how long a process with another policy is waited for.
	patience = 15 * time.Second
	// soon is how long until the next look while a change is under way, later while none is.
	soon, later = 250 * time.Millisecond, 2 * time.Second
	// lookTimeout bounds one look at Redis.
	lookTimeout = 5 * time.Second
)

// Config is what a [Service] needs.
type Config struct {
	Client  redis.UniversalClient
	Agendas *agenda.Agendas
	// Process names this process, as in package presence.
	Process string
	// Version is that of the policy in force in this process.
	Version func() string
	// Announce has the others know what this process reports.
	Announce func(context.Context) error
	Log      *slog.Logger
	// Now is the time. Defaults to [time.Now].
	Now func() time.Time
}

// Service takes part in the passes of a deployment. It is for processes with workers.
type Service struct {
	cfg    Config
	kicked chan struct{}
	ready  atomic.Pointer[string]

	mu      sync.Mutex
	changes []effective.Change // that Run has not seen yet

	// Of Run alone:

	fresh  time.Time     // when the policy in force was read, as long as no pass has been begun for it; else zero
	passed int           // the latest pass that may have begun before this process had it
	over   time.Duration // over how long at least those go on whom the pass for it lets go
	held   int           // how many they are at most; 0 for anybody
}

// New makes a Service.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg: cfg, kicked: make(chan struct{}, 1)}
}

// Changed says that this process has another policy in force. It returns at once.
func (s *Service) Changed(c effective.Change) {
	s.mu.Lock()
	s.changes = append(s.changes, c)
	s.mu.Unlock()
	select {
	case s.kicked <- struct{}{}:
	default:
	}
}

// Ready is the version by which everything is decided that this process takes from now on; it is part of its report.
// It is empty before Run, and nil has none.
func (s *Service) Ready() string {
	if s == nil || s.ready.Load() == nil {
		return ""
	}
	return *s.ready.Load()
}

// Run takes part until ctx ends.
func (s *Service) Run(ctx context.Context) {
	s.start(ctx)
	for {
		wait, err := s.step(ctx)
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "could not check whether waiting notifications are scheduled under the policy in force; retrying",
				"error", err)
			wait = later
		}
		select {
		case <-ctx.Done():
			return
		case <-s.kicked:
		case <-time.After(beat.Until(wait)):
		}
	}
}

// step makes changes this process's own, and looks.
func (s *Service) step(ctx context.Context) (wait time.Duration, err error) {
	for _, c := range s.unseen() {
		s.take(ctx, c)
	}
	return s.look(ctx)
}

// unseen are the changes that are not this process's own yet.
func (s *Service) unseen() []effective.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeOut()
}

// pressing reports whether there is a change for which a pass is to be left. Those with the same limits become this
// process's own instead: the pass goes on under their name.
func (s *Service) pressing(ctx context.Context) bool {
	s.mu.Lock()
	if slices.ContainsFunc(s.changes, func(c effective.Change) bool { return !c.SameLimits }) {
		s.mu.Unlock()
		return true
	}
	renamed := s.takeOut()
	s.mu.Unlock()
	for _, c := range renamed {
		s.take(ctx, c)
	}
	return false
}

// takeOut empties the list of changes. The lock is held.
func (s *Service) takeOut() []effective.Change {
	select {
	case <-s.kicked:
	default:
	}
	changes := s.changes
	s.changes = nil
	return changes
}

// start says by what this process decides. In a deployment that never made a pass nothing was decided by another policy
// that anybody knows of.
func (s *Service) start(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s.fresh = s.cfg.Now()
	s.report(ctx, s.cfg.Version())
	if known, err := Read(ctx, s.cfg.Client); err == nil && known.pass == 0 {
		_ = s.begin(ctx, &known, pass{everywhere: true, nobody: true}) // else the first look makes a pass
	}
}

// report tells the others by what this process decides.
func (s *Service) report(ctx context.Context, version string) {
	s.ready.Store(&version)
	if err := s.cfg.Announce(ctx); err != nil && ctx.Err() == nil {
		s.cfg.Log.DebugContext(ctx, "could not announce the policy; retrying within seconds", "error", err)
	}
}

// take makes a change this process's own: its rounds under the policy before have ended, and it knows which passes
// have begun without it, before the others hear of it. None of those counts as the pass for it, even if
// renameVersion gives it the version.
func (s *Service) take(ctx context.Context, c effective.Change) {
	s.cfg.Agendas.AwaitRounds()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if c.SameLimits {
		_ = renameVersion.Run(ctx, s.cfg.Client, []string{key}, c.Before, c.After).Err() // else it costs a pass
		s.report(ctx, c.After)
		return
	}
	known, err := Read(ctx, s.cfg.Client)
	s.spread(c, err != nil || known.pass <= s.passed || known.UnderWay() && known.rate < Rate)
	if s.passed = known.pass; err != nil {
		s.passed = math.MaxInt // any may have begun
	}
	s.fresh = s.cfg.Now()
	s.report(ctx, c.After)
}

// spread notes over how long those go on whom a change lets go. While those still wait whom the change before let
// go, they keep their time, and are as many besides.
func (s *Service) spread(c effective.Change, waiting bool) {
	switch {
	case !waiting || s.over == 0:
		s.over, s.held = c.Over, c.Held
	case c.Over > 0 && (s.held == 0 || c.Held == 0):
		s.over, s.held = max(s.over, c.Over), 0
	case c.Over > 0:
		s.over, s.held = max(s.over, c.Over), s.held+c.Held
	}
}

// look takes part in a pass that is under way, or begins one that is needed. It returns how long until the next look.
func (s *Service) look(ctx context.Context) (wait time.Duration, err error) {
	asking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	known, err := Read(asking, s.cfg.Client)
	if err != nil {
		return later, err
	}
	if known.pass < s.passed && s.passed < math.MaxInt {
		s.passed = 0 // Redis has lost the number, and counts from the beginning
	}
	version := s.Ready()
	if known.Version == version && known.Everywhere && known.pass > s.passed {
		s.fresh = time.Time{}
		return s.takePart(ctx, &known)
	}
	workers, same, err := s.workers(asking, version)
	switch {
	case err != nil:
		return later, err
	case same:
		s.passed = known.pass
		return 0, s.begin(asking, &known, pass{workers: workers, everywhere: true})
	case !s.fresh.IsZero() && s.cfg.Now().Sub(s.fresh) >= patience:
		s.fresh, s.passed = time.Time{}, known.pass
		return 0, s.begin(asking, &known, pass{workers: workers})
	case known.Version == version:
		return s.takePart(ctx, &known)
	case s.fresh.IsZero():
		return later, nil
	}
	return soon, nil
}

// workers counts the workers that are alive, and reports whether all of them are ready for a version.
func (s *Service) workers(ctx context.Context, version string) (n int, same bool, err error) {
	alive, err := presence.List(ctx, s.cfg.Client)
	if err != nil {
		return 0, false, err
	}
	same = true
	for _, p := range alive {
		if p.ID == s.cfg.Process || !slices.Contains(p.Roles, "worker") {
			continue
		}
		var report struct {
			Ready string `json:"ready"`
		}
		_ = json.Unmarshal(p.Report, &report) // another version of pacer is not ready
		n, same = n+1, same && report.Ready == version
	}
	return n + 1, same, nil
}

// pass is one that is to be begun: by how many workers, whether all of them are ready for it, and whether nobody has to
// be woken.
type pass struct {
	workers            int
	everywhere, nobody bool
}

// begin begins a pass, unless somebody else has since known was read.
func (s *Service) begin(ctx context.Context, known *Progress, p pass) (err error) {
	users := 0
	if !p.nobody {
		if users, err = outlook.Of(s.cfg.Agendas).UsersWaiting(ctx); err != nil {
			return err
		}
	}
	begun, err := beginPass.Run(ctx, s.cfg.Client, []string{key}, known.pass, s.Ready(), flag(p.everywhere),
		s.cfg.Agendas.Partitions(), users, rate(users, p.workers, s.over, s.held), flag(users == 0)).Int()
	if err != nil {
		return fmt.Errorf("begin to reschedule waiting notifications: %w", err)
	}
	if begun == 1 && users > 0 {
		s.cfg.Log.InfoContext(ctx, "rescheduling waiting notifications under the new policy", "version", s.Ready(), "users", users,
			"on_every_process", p.everywhere)
	}
	return nil
}

// rate is how many users each worker wakes in a second. Those whom the pass lets go take as long as all would for whom
// something waits: when few are let go, the others need not wait for them.
func rate(users, workers int, over time.Duration, held int) int {
	if held > 0 && held < users {
		over = time.Duration(float64(over) * float64(held) / float64(users))
	}
	if over <= 0 {
		return Rate
	}
	return min(Rate, max(1, int(float64(users)/over.Seconds())/max(1, workers)))
}

// flag writes a truth value for a script.
func flag(b bool) string { return strconv.Itoa(map[bool]int{true: 1}[b]) }
