package agenda

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/reply"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// eventLetters are the letters of the events that scripts write, by type.
var eventLetters = map[events.Type]string{
	events.Delivered: keyspace.States.Delivered, events.Failed: keyspace.States.Failed,
	events.Expired: keyspace.States.Expired, events.Cancelled: keyspace.States.Cancelled,
	events.Replaced: keyspace.States.Replaced, events.Deferred: keyspace.States.Deferred,
	events.Digested: keyspace.States.Digested, events.Overflow: keyspace.States.Overflow,
}

// onlyHere reports whether nobody but the scripts knows when events of a type happen. In a guarded store they write no
// others.
func onlyHere(of events.Type) bool { return of == events.Deferred || of == events.Overflow }

// eventsBatch is how many events are moved at once.
const eventsBatch = 1000

// unit separates the fields of an event, of which only the last may hold it.
const unit = "\x1f"

// Events are those that the scripts write, on their way to the log of the deployment.
type Events struct {
	agendas *Agendas
	wanted  atomic.Pointer[string] // the types, between commas
}

// Want says of which events somebody wants to be told. From then on the scripts write those; none, when there are no
// types.
func (e *Events) Want(types []string) error {
	told := "," + strings.Join(types, ",") + ","
	if before := e.wanted.Load(); before != nil && *before == told {
		return nil
	}
	var letters strings.Builder
	for _, of := range types {
		if !e.agendas.cfg.Guarded || onlyHere(of) {
			letters.WriteString(eventLetters[of])
		}
	}
	if err := e.agendas.load(letters.String()); err != nil {
		return err
	}
	e.wanted.Store(&told)
	return nil
}

// Wants reports whether somebody wants the events of a type.
func (e *Events) Wants(of string) bool { return strings.Contains(*e.wanted.Load(), ","+of+",") }

// Written reports whether the partitions may have events: somebody wants some that are written here.
func (e *Events) Written() bool {
	return *e.wanted.Load() != ",," && (!e.agendas.cfg.Guarded ||
		slices.ContainsFunc(events.Types, func(of events.Type) bool { return onlyHere(of) && e.Wants(of) }))
}

// Each calls move with the events of a partition, some at a time, oldest first, and a name for these. When a
// process dies before all is done, the same events come again under the same name.
func (e *Events) Each(ctx context.Context, partition int, move func(name string, some []events.Event) error) error {
	for moved := ""; ; {
		answer, err := e.agendas.Run(ctx, e.agendas.events, partition, []any{moved, rand.Text(), eventsBatch})
		if err != nil {
			return fmt.Errorf("read the events of partition %d: %w", partition, err)
		}
		if len(answer) == 0 {
			return nil
		}
		r := reply.Reader{Fields: answer}
		moved = r.Text(0)
		list := r.List(1)
		some := make([]events.Event, len(list.Fields))
		for i := range some {
			some[i] = e.read(list.Text(i))
		}
		if r.Adopt(list); r.Fault != nil {
			return fmt.Errorf("read the events of partition %d: %w", partition, r.Fault)
		}
		if err := move(moved, some); err != nil {
			return err
		}
	}
}

// read reads an event as scripts write it.
func (e *Events) read(text string) events.Event {
	f := append(strings.SplitN(text, unit, 8), make([]string, 8)...)
	micros, _ := strconv.ParseInt(f[1], 10, 64) // the scripts write nothing else
	of := events.Event{
		ID: uuid.NewSHA1(uuid.NameSpaceOID, []byte(text)).String(), At: time.UnixMicro(micros), UserID: f[3],
		Category: f[4], PolicyVersion: notification.ParseBasis(f[6]).PolicyVersion, Reason: f[7],
	}
	of.Attempt, _ = strconv.Atoi(f[5])
	for name, letter := range eventLetters {
		if letter == f[0] {
			of.Type, of.Status, of.NotificationID = name, events.StatusOf(name), f[2]
		}
	}
	switch of.Type {
	case "":
		of.Type, of.DeviceID = f[0], f[2]
	case events.Deferred:
		rule, _ := strconv.ParseInt(f[7], 10, 64)
		of.Reason = e.agendas.cfg.Settings(of.UserID, of.Category).RuleLabel(throttle.CauseOf(rule))
	}
	return of
}

// Key is the list of the events of a user's partition that are not in the log yet.
func (e *Events) Key(userID string) string { return e.agendas.PrefixOf(userID) + "events" }

// DeviceEvent is the event of a device that was deactivated, as [Events.Each] reads it.
func DeviceEvent(userID, deviceID, reason string, at time.Time) string {
	return strings.Join([]string{
		events.DeviceDeactivated, strconv.FormatInt(at.UnixMicro(), 10), deviceID, userID, "", "0", "", reason,
	}, unit)
}
