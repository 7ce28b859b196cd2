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
func (s *Store) Serve(ctx context.Context, r dispatch.Round) (dispatch.Reply, error) {
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
	reply := reply{reader: &reader{fields: fields}, store: s, round: r, asked: asked, answered: time.Now()}
	served := reply.read()
	if reply.fault != nil {
		return dispatch.Reply{}, fmt.Errorf("read the answer of the serve script for partition %d: %w", r.Partition, reply.fault)
	}
	return s.withoutPersonal(ctx, served), nil
}

// withoutPersonal gives back what was granted at once to users with limits of their own, which the script did not know; they
// are woken, to be asked for with these.
func (s *Store) withoutPersonal(ctx context.Context, served dispatch.Reply) dispatch.Reply {
	served.Begun = slices.DeleteFunc(served.Begun, func(b dispatch.Begun) bool {
		if !s.cfg.Personal(b.UserID) {
			return false
		}
		// What can't be given back now its lease gives back, and the wake-up the sweeper. The agenda is marked last: before, it may
		// be empty, and forget the mark.
		ctx := context.WithoutCancel(ctx)
		for _, g := range b.Taken.Grants {
			_, _ = s.Settle(ctx, g, dispatch.Outcome{Fate: dispatch.Returned, Refund: true})
		}
		_ = s.WakePersonal(ctx, b.UserID)
		return true
	})
	return served
}

// roundArgs appends the settings that a round needs, each once, and its wake-ups.
func (s *Store) roundArgs(args []any, r dispatch.Round) []any {
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
	args = s.Plan.Args(append(args, "", micros(s.MaxDefer), strconv.Itoa(s.BypassFrom), micros(s.Paused)))
	args[size] = strconv.Itoa(len(args) - size - 1)
	return args
}

// reply is what the script answered.
type reply struct {
	*reader

	store           *Store
	round           dispatch.Round
	now             int64
	epoch           int64
	asked, answered time.Time
}

func (r *reply) read() dispatch.Reply {
	served := dispatch.Reply{Came: int(r.number(5))}
	r.now, r.epoch = r.number(0), Epoch(r.text(4)).number()
	taken := r.list(1)
	if len(taken.fields) != len(r.round.Wakeups) && r.fault == nil {
		r.fault = fmt.Errorf("it answers for %d of %d wake-ups", len(taken.fields), len(r.round.Wakeups))
		return served
	}
	for i, w := range r.round.Wakeups {
		served.Taken = append(served.Taken, r.taken(taken.list(i), w.UserID))
	}
	pulled := r.list(2)
	for i := range pulled.fields {
		one := pulled.list(i)
		w := one.wakeup()
		if answer := one.list(3); len(answer.fields) > 0 {
			served.Begun = append(served.Begun, dispatch.Begun{Wakeup: w, Taken: r.taken(answer, w.UserID)})
		} else {
			served.Pulled = append(served.Pulled, w)
		}
		r.join(one)
	}
	foreign := r.list(3)
	for i := range foreign.fields {
		one := foreign.list(i)
		served.Foreign = append(served.Foreign, dispatch.Task{ID: one.text(0), Message: one.text(1)})
		r.join(one)
	}
	r.join(taken)
	r.join(pulled)
	return served
}

// taken reads what one wake-up got.
func (r *reply) taken(a *reader, userID string) dispatch.Taken {
	how := a.number(0)
	t := dispatch.Taken{Held: how == 1, Again: how == 2}
	if t.Held {
		t.After = time.Duration(a.number(1)-r.now) * time.Microsecond
		t.Categories = a.list(4).texts()
	}
	if category := a.text(2); category != "" {
		t.Rule = ruleName(r.store.cfg.Settings(userID, category).Plan, a.number(3))
	}
	r.store.tell(a.list(5), userID)
	grants := a.list(6)
	for i := range grants.fields {
		one := grants.list(i)
		t.Grants = append(t.Grants, r.grant(one, userID))
		r.join(one)
	}
	r.join(a)
	return t
}

func (r *reply) grant(one *reader, userID string) *dispatch.Grant {
	at := one.number(2)
	return &dispatch.Grant{
		Backlog:      dispatch.Backlog{Lane: r.round.Partition, UserID: userID, Category: one.text(1)},
		Notification: &notification.Notification{ID: one.text(0)},
		AdmittedAt:   throttle.Micros(at).Time(),
		StartIn:      time.Duration(max(0, at-r.now)) * time.Microsecond,
		AskedAt:      r.asked, AnsweredAt: r.answered,
		Generation: int(one.number(4)), Attempt: int(one.number(5)), Failures: int(one.number(6)),
		ArrivedAt: throttle.Micros(one.number(7)).Time(), Payload: one.text(8),
		Deferrals: int(one.number(9)), History: one.text(10), Epoch: r.epoch,
	}
}

// wakeup reads a user, a generation and the categories.
func (r *reader) wakeup() dispatch.Wakeup {
	generation, err := strconv.ParseInt(r.text(1), 10, 64)
	if err != nil && r.fault == nil {
		r.fault = fmt.Errorf("read the generation of a wake-up: %w", err)
	}
	return dispatch.Wakeup{UserID: r.text(0), Generation: generation, Categories: r.list(2).texts()}
}

// texts reads all fields as text.
func (r *reader) texts() []string {
	all := make([]string, len(r.fields))
	for i := range r.fields {
		all[i] = r.text(i)
	}
	return all
}

// join takes over the fault of a reader of a part.
func (r *reader) join(part *reader) {
	if r.fault == nil {
		r.fault = part.fault
	}
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// reader picks typed fields out of a script's reply and remembers the first fault.
type reader struct {
	fields []any
	fault  error
}

func (r *reader) text(i int) string {
	if i < len(r.fields) {
		if s, ok := r.fields[i].(string); ok {
			return s
		}
	}
	r.miss(i, "text")
	return ""
}

func (r *reader) number(i int) int64 {
	if i < len(r.fields) {
		if n, ok := r.fields[i].(int64); ok {
			return n
		}
	}
	r.miss(i, "number")
	return 0
}

// list reads a list within the reply.
func (r *reader) list(i int) *reader {
	if i < len(r.fields) {
		if fields, ok := r.fields[i].([]any); ok {
			return &reader{fields: fields}
		}
	}
	r.miss(i, "list")
	return &reader{}
}

func (r *reader) miss(i int, want string) {
	if r.fault == nil {
		r.fault = fmt.Errorf("field %d is no %s: %v", i, want, r.fields)
	}
}
