package agenda

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/reply"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Entry is a notification as the agendas take it.
type Entry struct {
	ID       string
	UserID   string
	Category string
	Priority notification.Priority
	// SendAt is the moment at which it is due; zero for at once. Retrying says that it waits for that moment because an
	// attempt failed.
	SendAt      time.Time
	Retrying    bool
	ExpiresAt   time.Time
	CollapseKey string
	// Of is the notification, whose target and group key say, with the channel, what may go as one digest; nil for one
	// without either.
	Of *notification.Notification
	// Alone says that it goes in no digest: an attempt may have reached somebody.
	Alone bool
	// Payload comes back with the grant. It begins as [OnChannel] says, or a named cap takes it to be on any channel.
	Payload string
	// Arrival orders what another store accepted, however late the entry comes, and whatever the clocks say: a later
	// one has a higher number. 0 has the entry stand behind all others. Age is how long ago that was: the clock of
	// another store may be wrong.
	Arrival int64
	Age     time.Duration
	// Deferred says whether an entry that is restored was deferred before, so that its deferral is counted once.
	Deferred Deferred
	// InFlight is its delivery, when a worker was making it as the partition lost its state. It stands instead of a
	// place in the backlog. Only [Agendas.RestoreEntries] takes such an entry.
	InFlight *InFlight
}

// EntriesAtOnce is how many entries one script should take.
const EntriesAtOnce = 64

// EntryOf is a notification that was accepted so long ago, as its agenda takes it. Its arrival decides its place in the
// backlog, however late it gets there.
func EntryOf(n *notification.Notification, age time.Duration) Entry {
	return Entry{
		ID: n.ID, UserID: n.UserID, Category: n.Category, Priority: n.Priority, SendAt: n.SendAt,
		ExpiresAt: n.ExpiresAt, CollapseKey: n.CollapseKey, Of: n, Payload: OnChannel(n.Channel),
		Arrival: n.Arrival, Age: age,
	}
}

// RetriedAt is the entry if its retry is due at a moment, or was; zero for one that was never tried. That moment also
// counts when its retry was returned untried: it has not been deferred for longer than since then.
func (e Entry) RetriedAt(at time.Time, retrying bool) Entry {
	e.Retrying = retrying
	if at.After(e.SendAt) {
		e.SendAt = at
	}
	return e
}

// Deferred is what is known of whether a notification was deferred before its partition lost its state.
type Deferred string

const (
	// NotDeferred says that it was not.
	NotDeferred Deferred = ""
	// WasDeferred says that it was.
	WasDeferred Deferred = "1"
	// IfBlocked says that it was in its backlog: it was deferred if that was blocked. That is taken to be so if it is
	// blocked when it is served first.
	IfBlocked Deferred = "2"
)

// InFlight is a delivery that was in flight when its partition lost its state. After the rebuild its grant can be
// extended and settled like any other.
type InFlight struct {
	// Epoch, Generation and AdmittedAt are those of the grant, Attempt is its number.
	Epoch               int64
	Generation, Attempt int
	AdmittedAt          throttle.Micros
	// LeasedUntil is when the notification comes back into its backlog, unless it is settled.
	LeasedUntil time.Time
	// Carrier is the notification that it went with, as an item of a digest; empty for a delivery of its own. Nothing
	// else is known then.
	Carrier string
	Basis   notification.Basis
}

// state writes the delivery as the accept script reads it.
func (f *InFlight) state() string {
	return fmt.Sprintf("%s %d %d %d %d %d %s", keyspace.States.Sending, f.LeasedUntil.UnixMicro(), f.Generation,
		f.Attempt, f.AdmittedAt, f.Epoch, f.Basis)
}

// OnChannel is the payload of a notification of which another store keeps all but the channel. A payload with more in
// it is a JSON object that begins so.
func OnChannel(channel notification.Channel) string { return `{"c":"` + string(channel) + `"}` }

// ErrFull says that Redis has hardly any memory left.
var ErrFull = errors.New("Redis has hardly any memory left") //nolint:staticcheck // a name

// Placed says what Accept did with an entry.
type Placed struct {
	// AcceptedAt is when the entry, or an earlier one with its id, was accepted.
	AcceptedAt time.Time
	// First is the earlier one with its id; nil when there was none.
	First *First
	// Refused says that the category's overflow ladder did not let it in, Dropped that the ladder has ended it, or
	// First, as expired.
	Refused, Dropped bool
}

// First is an entry that was accepted before another with its id.
type First struct{ UserID, Category, Payload string }

// Accept stores entries of one partition, all in one step, and makes sure that their users have wake-ups. It returns
// one Placed for each, in order.
func (a *Agendas) Accept(ctx context.Context, partition int, entries []Entry) ([]Placed, error) {
	if a.cfg.Full() {
		return nil, fmt.Errorf("accept notifications in partition %d: %w", partition, ErrFull)
	}
	under := ""
	if a.cfg.Guarded {
		under = "epoch"
	}
	return a.acceptUnder(ctx, under, partition, entries)
}

// argsOfEntry is how many arguments the accept script takes for each entry.
const argsOfEntry = 12

func (a *Agendas) acceptUnder(ctx context.Context, under string, partition int, entries []Entry) ([]Placed, error) {
	args := make([]any, 0, 3+argsOfEntry*len(entries))
	args = append(args, a.retention, under, Flag(a.cfg.Apart && !a.cfg.Guarded))
	judged := under == "" || under == "epoch" // what a rebuild puts back was judged when it came
	for i := range entries {
		args = a.cfg.entryArgs(args, &entries[i], judged)
	}
	answer, err := a.Run(ctx, a.accept, partition, args)
	if err != nil {
		return nil, fmt.Errorf("accept notifications in partition %d: %w", partition, keyspace.Fault(err))
	}
	if len(answer) != 2+len(entries) {
		return nil, fmt.Errorf("accept notifications (%d) in partition %d: the script returned %d fields",
			len(entries), partition, len(answer))
	}
	r := reply.Reader{Fields: answer}
	a.cfg.reportDeferrals(r.List(0))
	if r.Number(1) == 1 {
		a.cfg.Pending(partition)
	}
	placed := make([]Placed, len(entries))
	for i := range placed {
		placed[i] = readPlaced(&r, i+2)
	}
	return placed, r.Fault
}

// entryArgs appends an entry as the accept script reads it.
func (c Config) entryArgs(args []any, e *Entry, judged bool) []any {
	arrival := number(e.Arrival)
	if e.Age > 0 { // a clock that was set back makes it negative
		arrival = fmt.Sprintf("%d %d", e.Arrival, e.Age.Microseconds())
	}
	settings, personal := c.Settings(e.UserID, e.Category), Flag(c.Personal(e.UserID))
	if group := e.group(settings); group != "" { // it has no argument of its own: few have one
		personal = fmt.Sprint(personal, group)
	}
	passes := passesOf(settings, e.Priority)
	if len(settings.Overflow) > 0 {
		if !judged {
			settings.Overflow = settings.Overflow.Growing()
		}
		if ladder := settings.LadderFor(e.Priority); ladder != "" {
			passes = fmt.Sprint(passes, " ", ladder)
		}
	}
	return append(args, e.ID, e.Category, e.UserID, number(int64(e.Priority)), instant(e.SendAt), instant(e.ExpiresAt),
		e.CollapseKey, e.Payload, arrival, e.state(), passes, personal)
}

// group is the same for what may go as one digest: what has the channel, the target and the group key. It is empty
// where the category has no digests.
func (e *Entry) group(s Settings) string {
	if s.Digest == nil || e.Alone {
		return ""
	}
	channel, _, _ := strings.Cut(strings.TrimPrefix(e.Payload, `{"c":"`), `"`)
	of := cmp.Or(e.Of, &notification.Notification{})
	return GroupOf(channel, of.To, of.GroupKey)
}

// GroupOf is a short name of what may go as one: of a channel, a target and a group key.
func GroupOf(channel, target, key string) string {
	sum := sha256.Sum256([]byte(channel + "\x00" + target + "\x00" + key))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// scheduled is a state as an argument, so that not every entry makes one.
var scheduled any = keyspace.States.Scheduled

// state is what becomes of an entry until it is due, as the accept script reads it.
func (e *Entry) state() any {
	switch {
	case e.InFlight != nil && e.InFlight.Carrier != "":
		return keyspace.States.Sending + " with " + e.InFlight.Carrier
	case e.InFlight != nil:
		state := e.InFlight.state()
		return state[:1] + string(e.Deferred) + state[1:]
	case e.Retrying:
		return keyspace.States.Retrying + string(e.Deferred)
	case e.Deferred != NotDeferred:
		return keyspace.States.Scheduled + string(e.Deferred)
	}
	return scheduled
}

// readPlaced reads what the script says of one entry: when it was accepted, or what has its id.
func readPlaced(r *reply.Reader, i int) Placed {
	if _, known := r.Fields[i].([]any); !known {
		at := r.Number(i)
		return Placed{AcceptedAt: throttle.Micros(max(at, -at)).Time(), Refused: at == 0, Dropped: at < 0}
	}
	known := r.List(i)
	at := known.Number(0)
	placed := Placed{
		AcceptedAt: throttle.Micros(max(at, -at)).Time(), Dropped: at < 0,
		First: &First{UserID: known.Text(1), Category: known.Text(2), Payload: known.Text(3)},
	}
	r.Fault = cmp.Or(r.Fault, known.Fault)
	return placed
}

// reportDeferrals reports the deferrals that a script decided: user, category, count, rule, and so on. Those with a
// word for the rule are what overflow ladders did, see overflow.lua.
func (c Config) reportDeferrals(deferrals *reply.Reader) {
	for i := 0; i+3 < len(deferrals.Fields); i += 4 {
		user, category := deferrals.Text(i), deferrals.Text(i+1)
		if action, overflow := deferrals.Fields[i+3].(string); overflow {
			if id := deferrals.Text(i + 2); id != "" || len(c.Settings(user, category).Overflow) == 0 {
				c.Overflowed(category, action)
			}
			continue
		}
		c.reportDeferral(user, category, deferrals.Number(i+2), deferrals.Number(i+3))
	}
}

// reportShadows reports the shadow rules that would have had a grant wait, a bit for each.
func (c Config) reportShadows(userID, category string, which int64) {
	if which == 0 {
		return
	}
	for i, rule := range c.Settings(userID, category).Plan.Shadow {
		if which&(1<<i) != 0 {
			c.Shadowed(category, rule.String())
		}
	}
}

// reportDeferral reports that n notifications were deferred, by the number of what decides.
func (c Config) reportDeferral(userID, category string, n, rule int64) {
	c.Deferred(category, c.Settings(userID, category).RuleLabel(throttle.CauseOf(rule)), int(n))
}
