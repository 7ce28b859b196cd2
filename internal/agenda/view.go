package agenda

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// State is what the agendas know of one notification.
type State struct {
	dispatch.Backlog

	ID         string
	Payload    string
	Priority   notification.Priority
	AcceptedAt time.Time
	// Arrival orders it among all of its partition: what was accepted later has a higher one.
	Arrival int64
	Status  notification.Status
	// Attempts is how often its delivery was tried, Deferrals how often it was deferred.
	Attempts, Deferrals int
	// Reason says why it waits or ended. Detail explains it: the provider's reply, the slot that came too late, or the
	// end of quiet hours.
	Reason, Detail string
	// Held is true when it waits for its provider, without an attempt.
	Held bool
	// DeliverAt is when it is expected to go; zero unless it waits.
	DeliverAt time.Time
	// Doomed says that it will not go: it will end for the Reason. Estimate says that DeliverAt is only the earliest
	// moment.
	Doomed, Estimate bool
	// Ahead is how many of the user's notifications go before it; 0 unless it is in its backlog.
	Ahead int
	// Generation counts its grants, Failures and Crashes how they ended. NotBefore is when its retry is due or, in its
	// backlog, when the back-off after its latest failure ended; zero without.
	Generation, Failures, Crashes int
	NotBefore                     time.Time
	// AdmittedAt is the moment of its last admission, EndedAt that of its end; zero when there was none.
	AdmittedAt, EndedAt time.Time
	// DigestID is the carrier of the digest that it is in, or went with; empty for none.
	DigestID string
	// Basis is that by which DeliverAt was found while it waits, and that of its last admission otherwise.
	Basis notification.Basis
	// History lists what happened besides accepting, sending and ending, oldest first. Lines is the text it was read
	// from.
	History []notification.Event
	Lines   string
}

// statuses are the statuses by the letters of the scripts. A notification in its backlog is queued or deferred:
// that follows from the backlog.
var statuses = map[string]notification.Status{
	keyspace.States.Queued: notification.StatusQueued, keyspace.States.Scheduled: notification.StatusScheduled,
	keyspace.States.Retrying: notification.StatusRetrying, keyspace.States.Sending: notification.StatusSending,
	keyspace.States.Delivered: notification.StatusDelivered, keyspace.States.Failed: notification.StatusFailed,
	keyspace.States.Expired: notification.StatusExpired, keyspace.States.Cancelled: notification.StatusCancelled,
	keyspace.States.Replaced: notification.StatusReplaced,
}

// StatusOf is the status that a letter of the scripts stands for; empty for any other text.
func StatusOf(letter string) notification.Status { return statuses[letter] }

// ClockTime writes a moment for people.
func ClockTime(at throttle.Micros) string { return at.Time().UTC().Format(time.RFC3339Nano) }

// SlotTooLate says that a slot would come after max_defer; orLater when it is the earliest possible.
func SlotTooLate(slot throttle.Micros, orLater bool, maxDefer time.Duration) string {
	or := ""
	if orLater {
		or = " or later"
	}
	return fmt.Sprintf("its slot would be %s%s, later than max_defer %s", ClockTime(slot), or, timespan.Text(maxDefer))
}

// ParseState reads the fields of a notification of a partition.
func (a *Agendas) ParseState(id string, partition int, fields map[string]string) *State {
	f := &keyspace.Fields
	integer := func(name string) int {
		n, _ := strconv.Atoi(fields[name]) // absent means 0
		return n
	}
	at := func(name string) time.Time {
		if n := integer(name); n > 0 {
			return time.UnixMicro(int64(n))
		}
		return time.Time{}
	}
	notBefore := at(f.BackedOff)
	if fields[f.State] == keyspace.States.Retrying {
		notBefore = at(f.RetryDue)
	}
	return &State{
		ID:         id,
		Backlog:    dispatch.Backlog{Partition: partition, UserID: fields[f.User], Category: fields[f.Category]},
		Payload:    fields[f.Payload],
		Priority:   notification.Priority(integer(f.Priority)),
		AcceptedAt: at(f.Accepted),
		Arrival:    int64(integer(f.Arrival)),
		Status:     StatusOf(fields[f.State]),
		Attempts:   integer(f.Generation) - integer(f.Returned),
		Generation: integer(f.Generation),
		Failures:   integer(f.Failures),
		Crashes:    integer(f.Crashes),
		NotBefore:  notBefore,
		Deferrals:  integer(f.Deferrals),
		Reason:     fields[f.Reason],
		Detail:     Explain(fields[f.Reason], fields[f.Detail]),
		Held:       fields[f.Held] != "",
		AdmittedAt: at(f.Admitted),
		EndedAt:    at(f.Ended),
		Basis:      notification.ParseBasis(fields[f.Basis]),
		DigestID:   fields[f.Digest],
		History:    a.HistoryOf(fields[f.User], fields[f.Category], fields[f.History]),
		Lines:      fields[f.History],
	}
}

// HistoryOf reads lines of "µs kind detail" of a user's category, and after a tab the provider's reply. After another
// tab, a line about an attempt that failed has the moment of its admission, its number and its basis.
func (a *Agendas) HistoryOf(userID, category, lines string) []notification.Event {
	return parseHistory(a.cfg.Settings(userID, category), lines)
}

func parseHistory(s Settings, lines string) []notification.Event {
	var events []notification.Event
	for line := range strings.Lines(lines) {
		at, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		kind, detail, _ := strings.Cut(rest, " ")
		detail, reply, _ := strings.Cut(detail, "\t")
		reply, attempt, tried := strings.Cut(reply, "\t")
		when, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			continue
		}
		if event, ok := failedAttempt(when, kind, detail, reply, attempt); tried && ok {
			events = append(events, event)
			continue
		}
		events = append(events, notification.Event{
			At: time.UnixMicro(when), Kind: kind, Detail: describe(s, when, kind, detail), Reply: reply,
		})
	}
	return events
}

// failedAttempt reads "admitted number basis" of an attempt that ended at a moment, with "until reason". Earlier
// versions wrote no basis.
func failedAttempt(ended int64, kind, detail, reply, attempt string) (notification.Event, bool) {
	from, number, _ := strings.Cut(attempt, " ")
	number, basis, _ := strings.Cut(number, " ")
	admitted, err := strconv.ParseInt(from, 10, 64)
	n, err2 := strconv.Atoi(number)
	if err != nil || err2 != nil {
		return notification.Event{}, false
	}
	_, reason, _ := strings.Cut(detail, " ")
	a := &notification.Attempt{
		Number: n, Outcome: kind, Reason: reason,
		Took:  time.Duration(max(0, ended-admitted)) * time.Microsecond,
		Basis: notification.ParseBasis(basis),
	}
	return a.Event(time.UnixMicro(admitted), reply), true
}

// Deferral is one deferral of a notification.
type Deferral struct {
	At, Until time.Time
	// By is what decided, in the plan that was in force then.
	By throttle.Cause
}

// ParseDeferrals reads the deferrals out of the lines that [Agendas.HistoryOf] reads.
func ParseDeferrals(lines string) []Deferral {
	var deferrals []Deferral
	for line := range strings.Lines(lines) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[1] != string(notification.StatusDeferred) {
			continue
		}
		at, err := strconv.ParseInt(fields[0], 10, 64)
		until, err2 := strconv.ParseInt(fields[2], 10, 64)
		by, err3 := strconv.ParseInt(fields[3], 10, 64)
		if err == nil && err2 == nil && err3 == nil {
			deferrals = append(deferrals, Deferral{
				At: time.UnixMicro(at), Until: time.UnixMicro(until), By: throttle.CauseOf(by),
			})
		}
	}
	return deferrals
}

// describe turns "µs reason" of a deferral or retry at a moment into words. The reason of a deferral is the number of
// what decides.
func describe(s Settings, when int64, kind, detail string) string {
	at, reason, _ := strings.Cut(detail, " ")
	until, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return detail
	}
	if kind == string(notification.StatusDeferred) {
		if number, err := strconv.ParseInt(reason, 10, 64); err == nil {
			return s.DeferralWords(throttle.CauseOf(number), time.UnixMicro(when), time.UnixMicro(until))
		}
	}
	return "until " + time.UnixMicro(until).UTC().Format(time.RFC3339Nano) + ": " + reason
}

// reasonDelivered is that of a delivery without a fault: what explained an earlier attempt does not explain it.
const reasonDelivered = "delivered"

// Explain puts into words what the scripts keep to explain a reason.
func Explain(reason, detail string) string {
	switch reason {
	case reasonDelivered:
		return ""
	case notification.ReasonMaxDefer:
		return explainMaxDefer(detail)
	case notification.ReasonQuietHours:
		return explainDropped(detail)
	case notification.ReasonOverflow:
		return explainOverflow(detail)
	}
	return detail
}

// explainMaxDefer puts "slot max_defer" into words, in µs, with a + after a slot that is the earliest possible.
func explainMaxDefer(detail string) string {
	at, limit, _ := strings.Cut(detail, " ")
	at, earliest := strings.CutSuffix(at, "+")
	slot, err := strconv.ParseInt(at, 10, 64)
	most, err2 := strconv.ParseInt(limit, 10, 64)
	if err != nil || err2 != nil {
		return ""
	}
	return SlotTooLate(throttle.Micros(slot), earliest, time.Duration(most)*time.Microsecond)
}

// explainDropped puts "slot end" into words, in µs: the slot was in a closed interval, which ends then.
func explainDropped(detail string) string {
	at, end, _ := strings.Cut(detail, " ")
	slot, err := strconv.ParseInt(at, 10, 64)
	until, err2 := strconv.ParseInt(end, 10, 64)
	if err != nil || err2 != nil {
		return ""
	}
	return fmt.Sprintf("its slot %s was in quiet hours, which last until %s and end it: then: drop",
		time.UnixMicro(slot).UTC().Format(time.RFC3339Nano), time.UnixMicro(until).UTC().Format(time.RFC3339Nano))
}

// explainOverflow puts "waiting 5 drop_oldest" into words, or "wait 3600000000 drop_new" with µs.
func explainOverflow(detail string) string {
	kind, rest, _ := strings.Cut(detail, " ")
	number, action, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil:
		return detail
	case kind == "waiting":
		return fmt.Sprintf("more than %d waited in its category: %s", n, action)
	}
	return fmt.Sprintf("its slot was further away than %s: %s", timespan.Text(time.Duration(n)*time.Microsecond), action)
}

// Cancel ends a notification that still waits. It returns [notification.ErrNotFound] or [notification.ErrNotWaiting]
// when there is none.
func (a *Agendas) Cancel(ctx context.Context, id string) error {
	partition, err := a.Locate(ctx, id)
	if err != nil {
		return err
	}
	return a.CancelIn(ctx, partition, id, notification.ReasonCancelled)
}

// CancelIn is [Agendas.Cancel] for a notification whose partition is known, with a reason.
func (a *Agendas) CancelIn(ctx context.Context, partition int, id, reason string) error {
	done, err := a.cancel.Run(ctx, a.Client, a.ScriptKeys(partition), id, a.retention, reason).Int()
	switch {
	case err != nil:
		return fmt.Errorf("cancel notification %s: %w", id, keyspace.Fault(err))
	case done < 0:
		return notification.ErrNotFound
	case done == 0:
		return notification.ErrNotWaiting
	}
	return nil
}

// Superseded reports whether a newer notification with the user, category and collapse key of n was accepted, whatever
// became of it. It is remembered for as long as n can be sent again, which ends with the retention.
func (a *Agendas) Superseded(ctx context.Context, n *notification.Notification) (bool, error) {
	keys := a.ScriptKeys(a.PartitionOf(n.UserID))
	superseded, err := a.superseded.Run(ctx, a.Client, keys, n.ID, n.Category, n.UserID).Bool()
	if err != nil {
		return false, fmt.Errorf("look for a newer one with the collapse key of notification %s: %w", n.ID,
			keyspace.Fault(err))
	}
	return superseded, nil
}

// IsCategory reports whether a field of an agenda is the name of a category; see agenda.lua for the others.
func IsCategory(field string) bool { return field != "" && field != "+" && field != "!" }

// Moments returns the moments of the admissions in a log.
func Moments(log *redis.ZSliceCmd) []throttle.Micros {
	var at []throttle.Micros
	for _, entry := range log.Val() {
		if entry.Score > 0 { // the others say how much the log must remember
			at = append(at, throttle.Micros(entry.Score))
		}
	}
	return at
}
