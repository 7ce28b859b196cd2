package agenda

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/agenda/reply"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// processedLife is how long asynq keeps the counter of a day.
const processedLife = 90 * 24 * time.Hour

// Take makes one round of a worker; see [dispatch.Store]. Its grants have to be claimed from the store that keeps the
// notifications.
func (a *Agendas) Take(ctx context.Context, r dispatch.TakeRequest) (dispatch.TakeResult, error) {
	day := time.Now().UTC()
	args := make([]any, 0, 64+8*len(r.Wakeups))
	args = append(args, r.ID, a.cfg.Process, a.lease, a.retention, strconv.Itoa(r.Capacity),
		strconv.Itoa(r.Pull), day.Format(time.DateOnly), strconv.FormatInt(day.Add(processedLife).Unix(), 10))
	a.rounds[r.Partition].RLock()
	defer a.rounds[r.Partition].RUnlock()
	args = a.takeArgs(args, r)
	fields, err := a.Run(ctx, a.take, r.Partition, args)
	if err != nil {
		return dispatch.TakeResult{}, fmt.Errorf("take from partition %d: %w", r.Partition, keyspace.Fault(err))
	}
	reply := takeReply{Cursor: reply.Cursor{Fields: fields}, agendas: a, partition: r.Partition}
	result := reply.read(r)
	if reply.Fault != nil {
		return dispatch.TakeResult{}, fmt.Errorf("read what was taken from partition %d: %w", r.Partition, reply.Fault)
	}
	return a.withoutOwnLimits(ctx, result), nil
}

// AwaitRounds returns when the rounds have ended that this process was making: every later one has the settings that
// are in force now.
func (a *Agendas) AwaitRounds() {
	for partition := range a.rounds {
		a.rounds[partition].Lock()
		a.rounds[partition].Unlock() //nolint:staticcheck // it is empty on purpose
	}
}

// withoutOwnLimits gives back what the script granted at once to users with limits of their own, which it did not know.
// It wakes these users, and then their own limits are used. A wake-up that this process holds already is asked for
// next.
func (a *Agendas) withoutOwnLimits(ctx context.Context, result dispatch.TakeResult) dispatch.TakeResult {
	result.Served = slices.DeleteFunc(result.Served, func(w dispatch.ServedWakeup) bool {
		if !a.cfg.Personal(w.UserID) {
			return false
		}
		// If this fails, the leases end, and the sweeper replaces the wake-up. The agenda is marked last: while it is
		// empty, it would forget the mark.
		ctx := context.WithoutCancel(ctx)
		for _, g := range w.Grants {
			_, _ = a.Settle(ctx, g, dispatch.Outcome{Disposition: dispatch.Returned, Refund: true})
		}
		_, _ = a.WakePersonal(ctx, a.PartitionOf(w.UserID), w.UserID)
		if w.Held {
			w.Wakeup.Categories = w.WakeupResult.Categories
			result.Pulled = append(result.Pulled, w.Wakeup)
		}
		return true
	})
	return result
}

// takeArgs appends the settings that a round needs, each once, and its wake-ups.
func (a *Agendas) takeArgs(args []any, r dispatch.TakeRequest) []any {
	var distinct []Settings
	number := func(userID, category string) string {
		settings := a.cfg.Settings(userID, category)
		if settings.Removed {
			settings.Paused = a.removed.hold(category)
		}
		i := slices.IndexFunc(distinct, settings.Same)
		if i < 0 {
			i, distinct = len(distinct), append(distinct, settings)
		}
		return strconv.Itoa(i + 1)
	}
	var common []string
	if r.Pull > 0 {
		common = a.cfg.Categories()
	}
	args = append(args, strconv.Itoa(len(common)))
	for _, category := range common {
		args = append(args, category, number("", category))
	}
	var requests []any
	for _, w := range r.Wakeups {
		requests = append(requests, w.UserID, strconv.FormatInt(w.Generation, 10), strconv.Itoa(len(w.Categories)))
		for _, category := range w.Categories {
			requests = append(requests, category, number(w.UserID, category))
		}
	}
	args = append(args, strconv.Itoa(len(distinct)))
	for _, settings := range distinct {
		args = settingsArgs(args, settings)
	}
	args = append(args, strconv.Itoa(len(r.Release)))
	for _, w := range r.Release {
		args = append(args, w.UserID, strconv.FormatInt(w.Generation, 10))
	}
	return append(args, requests...)
}

// passesOf says for a script what a priority does not wait for: 1 for nothing, 2 for closed intervals, 3 for what it
// comes before, 4 for both.
func passesOf(s Settings, p notification.Priority) any {
	exempt, overtakes := len(s.Plan.Closed) > 0 && p.AtLeast(s.ExemptFrom), s.Overtakes(p)
	switch {
	case p.AtLeast(s.BypassFrom):
		return "1"
	case exempt && overtakes:
		return "4"
	case overtakes:
		return "3"
	case exempt:
		return "2"
	}
	return "0"
}

// settingsArgs appends the settings in the form that the script reads.
func settingsArgs(args []any, s Settings) []any {
	size := len(args)
	args = s.Plan.Args(append(args, "", micros(s.MaxDefer), strconv.Itoa(int(s.BypassFrom)), strconv.Itoa(int(s.ExemptFrom)),
		micros(s.Paused), dropsOf(s), s.Digest.Text(), s.Basis.String()))
	args[size] = strconv.Itoa(len(args) - size - 1)
	return args
}

// dropsOf says whether what is due in a closed interval ends, and how the overflow ladder judges waits.
func dropsOf(s Settings) any {
	drops := Flag(s.Drops)
	if len(s.Overflow) > 0 {
		if ladder := s.WaitLadder(); ladder != "" {
			return fmt.Sprint(drops, " ", ladder)
		}
	}
	return drops
}

// takeReply reads the reply of the take script.
type takeReply struct {
	reply.Cursor

	agendas   *Agendas
	partition int
	now       int64
	epoch     int64
}

func (r *takeReply) read(request dispatch.TakeRequest) dispatch.TakeResult {
	var result dispatch.TakeResult
	r.now, r.epoch = r.Number(), keyspace.Epoch(r.Text()).Number()
	result.PulledCount = int(r.Number())
	for _, w := range request.Wakeups {
		result.Results = append(result.Results, r.wakeup(w.UserID))
	}
	for range r.Count() {
		w := dispatch.Wakeup{UserID: r.Text(), Generation: r.Parsed()}
		if served := r.Number() == 1; served {
			result.Served = append(result.Served, dispatch.ServedWakeup{Wakeup: w, WakeupResult: r.wakeup(w.UserID)})
		} else {
			w.Categories = r.Texts()
			result.Pulled = append(result.Pulled, w)
		}
	}
	for range r.Count() {
		result.Foreign = append(result.Foreign, dispatch.Task{ID: r.Text(), Message: r.Text()})
	}
	r.End()
	return result
}

// The states of a wake-up in the reply; 0 when it is neither.
const (
	wakeupHeld  = 1
	wakeupAgain = 2
)

// wakeup reads the result of one wake-up.
func (r *takeReply) wakeup(userID string) dispatch.WakeupResult {
	var w dispatch.WakeupResult
	for range r.Count() {
		w.Grants = append(w.Grants, r.grant(userID))
	}
	deferrals := r.List(r.Count())
	r.agendas.cfg.reportDeferrals(deferrals)
	r.Fault = cmp.Or(r.Fault, deferrals.Fault)
	state := r.Number()
	w.Held, w.Again = state == wakeupHeld, state == wakeupAgain
	if !w.Held {
		return w
	}
	w.After = time.Duration(r.Number()-r.now) * time.Microsecond
	if category, rule := r.Text(), r.Number(); category != "" {
		w.Rule = player.ReasonOf(r.agendas.cfg.Settings(userID, category).Plan, throttle.CauseOf(rule))
	}
	w.Categories = r.Texts()
	return w
}

func (r *takeReply) grant(userID string) *dispatch.Grant {
	id, category, at, slot := r.Text(), r.Text(), r.Number(), r.Number()
	r.agendas.cfg.reportShadows(userID, category, r.Number())
	id, items, carries := strings.Cut(id, " ")
	g := &dispatch.Grant{
		Backlog:      dispatch.Backlog{Partition: r.partition, UserID: userID, Category: category},
		Notification: &notification.Notification{ID: id},
		AdmittedAt:   throttle.Micros(at).Time(),
		StartIn:      time.Duration(max(0, at-r.now)) * time.Microsecond,
		SlotIn:       time.Duration(slot-r.now) * time.Microsecond,
		Generation:   int(r.Number()), Attempt: int(r.Number()), Failures: int(r.Number()),
		ArrivedAt: throttle.Micros(r.Number()).Time(), Payload: r.Text(),
		Deferrals: int(r.Number()), History: r.Text(), WaitsSince: throttle.Micros(r.Number()).Time(),
		Basis: notification.ParseBasis(r.Text()), Epoch: r.epoch,
	}
	if carries {
		items, g.Frozen = strings.CutPrefix(items, "+ ")
		g.Items = strings.Fields(items)
	}
	return g
}
