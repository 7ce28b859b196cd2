package agenda

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// processedLife is how long asynq keeps the counter of a day.
const processedLife = 90 * 24 * time.Hour

// Serve answers a round of a worker; see [dispatch.Store]. Its grants have to be claimed by the store that knows the
// notifications.
func (s *Agendas) Serve(ctx context.Context, r dispatch.Round) (dispatch.Reply, error) {
	day := time.Now().UTC()
	args := make([]any, 0, 64+8*len(r.Wakeups))
	args = append(args, r.ID, s.cfg.Process, s.horizon, s.lease, s.retention, strconv.Itoa(r.Room), strconv.Itoa(r.Pull),
		day.Format(time.DateOnly), strconv.FormatInt(day.Add(processedLife).Unix(), 10))
	args = s.roundArgs(args, r)
	asked := time.Now()
	fields, err := s.run(ctx, s.serve, r.Partition, args)
	if err != nil {
		return dispatch.Reply{}, fmt.Errorf("serve partition %d: %w", r.Partition, lost(err))
	}
	reply := reply{cursor: cursor{fields: fields}, store: s, round: r, asked: asked, answered: time.Now()}
	served := reply.read()
	if reply.fault != nil {
		return dispatch.Reply{}, fmt.Errorf("read the answer of the serve script for partition %d: %w", r.Partition, reply.fault)
	}
	return s.withoutPersonal(ctx, served), nil
}

// withoutPersonal gives back what was granted at once to users with limits of their own, which the script did not know; they
// are woken, to be asked for with these.
func (s *Agendas) withoutPersonal(ctx context.Context, served dispatch.Reply) dispatch.Reply {
	served.Begun = slices.DeleteFunc(served.Begun, func(b dispatch.Begun) bool {
		if !s.cfg.Personal(b.UserID) {
			return false
		}
		// What can't be given back now its lease gives back, and the wake-up the sweeper. The agenda is marked last: before, it may
		// be empty, and forget the mark.
		ctx := context.WithoutCancel(ctx)
		for _, g := range b.Taken.Grants {
			_, _ = s.Settle(ctx, g, dispatch.Outcome{Disposition: dispatch.Returned, Refund: true})
		}
		_ = s.WakePersonal(ctx, b.UserID)
		return true
	})
	return served
}

// roundArgs appends the settings that a round needs, each once, and its wake-ups.
func (s *Agendas) roundArgs(args []any, r dispatch.Round) []any {
	var distinct []Settings
	number := func(userID, category string) string {
		settings := s.cfg.Settings(userID, category)
		i := slices.IndexFunc(distinct, settings.same)
		if i < 0 {
			i, distinct = len(distinct), append(distinct, settings)
		}
		return strconv.Itoa(i + 1)
	}
	var common []string
	if r.Pull > 0 {
		common = s.cfg.Categories()
	}
	args = append(args, strconv.Itoa(len(common)))
	for _, category := range common {
		args = append(args, category, number("", category))
	}
	var asks []any
	for _, w := range r.Wakeups {
		asks = append(asks, w.UserID, strconv.FormatInt(w.Generation, 10), strconv.Itoa(len(w.Categories)))
		for _, category := range w.Categories {
			asks = append(asks, category, number(w.UserID, category))
		}
	}
	args = append(args, strconv.Itoa(len(distinct)))
	for _, settings := range distinct {
		args = settings.args(args)
	}
	args = append(args, strconv.Itoa(len(r.Release)))
	for _, w := range r.Release {
		args = append(args, w.UserID, strconv.FormatInt(w.Generation, 10))
	}
	return append(args, asks...)
}

// same tells whether both are written alike; plans of one category and policy share their rules.
func (s Settings) same(o Settings) bool {
	return s.MaxDefer == o.MaxDefer && s.BypassFrom == o.BypassFrom && s.Paused == o.Paused && s.Plan.Equal(o.Plan)
}

// args appends the settings as the script reads them.
func (s Settings) args(args []any) []any {
	size := len(args)
	args = s.Plan.Args(append(args, "", micros(s.MaxDefer), strconv.Itoa(int(s.BypassFrom)), micros(s.Paused)))
	args[size] = strconv.Itoa(len(args) - size - 1)
	return args
}

// reply is what the script answered.
type reply struct {
	cursor

	store           *Agendas
	round           dispatch.Round
	now             int64
	epoch           int64
	asked, answered time.Time
}

func (r *reply) read() dispatch.Reply {
	var served dispatch.Reply
	r.now, r.epoch = r.number(), Epoch(r.text()).number()
	served.Came = int(r.number())
	for _, w := range r.round.Wakeups {
		served.Taken = append(served.Taken, r.taken(w.UserID))
	}
	for range r.count() {
		w := dispatch.Wakeup{UserID: r.text(), Generation: r.parsed()}
		if begun := r.number() == 1; begun {
			served.Begun = append(served.Begun, dispatch.Begun{Wakeup: w, Taken: r.taken(w.UserID)})
		} else {
			w.Categories = r.texts()
			served.Pulled = append(served.Pulled, w)
		}
	}
	for range r.count() {
		served.Foreign = append(served.Foreign, dispatch.Task{ID: r.text(), Message: r.text()})
	}
	r.end()
	return served
}

// Where the script says that a wake-up is.
const (
	wakeupHeld  = 1
	wakeupAgain = 2
)

// taken reads what one wake-up got.
func (r *reply) taken(userID string) dispatch.Taken {
	var t dispatch.Taken
	for range r.count() {
		t.Grants = append(t.Grants, r.grant(userID))
	}
	for range r.count() / 3 {
		category, n, rule := r.text(), r.number(), r.number()
		r.store.tellOf(userID, category, n, rule)
	}
	how := r.number()
	t.Held, t.Again = how == wakeupHeld, how == wakeupAgain
	if !t.Held {
		return t
	}
	t.After = time.Duration(r.number()-r.now) * time.Microsecond
	if category, rule := r.text(), r.number(); category != "" {
		t.Rule = ruleName(r.store.cfg.Settings(userID, category).Plan, rule)
	}
	t.Categories = r.texts()
	return t
}

func (r *reply) grant(userID string) *dispatch.Grant {
	id, category, at, _ := r.text(), r.text(), r.number(), r.number()
	return &dispatch.Grant{
		Backlog:      dispatch.Backlog{Partition: r.round.Partition, UserID: userID, Category: category},
		Notification: &notification.Notification{ID: id},
		AdmittedAt:   throttle.Micros(at).Time(),
		StartIn:      time.Duration(max(0, at-r.now)) * time.Microsecond,
		AskedAt:      r.asked, AnsweredAt: r.answered,
		Generation: int(r.number()), Attempt: int(r.number()), Failures: int(r.number()),
		ArrivedAt: throttle.Micros(r.number()).Time(), Payload: r.text(),
		Deferrals: int(r.number()), History: r.text(), Epoch: r.epoch,
	}
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
