package agenda

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/reply"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// eventLetters are the letters of the events that scripts write, by type.
var eventLetters = map[string]string{
	"notification.delivered": keyspace.States.Delivered, "notification.failed": keyspace.States.Failed,
	"notification.expired": keyspace.States.Expired, "notification.cancelled": keyspace.States.Cancelled,
	"notification.replaced": keyspace.States.Replaced, eventDeferred: keyspace.States.Deferred,
}

// EventDeviceDeactivated is the type of [DeviceEvent].
const EventDeviceDeactivated = "device.deactivated"

// eventDeferred is the one type that scripts write in a guarded store, too: nobody else knows when it happens.
const eventDeferred = "notification.deferred"

// eventsBatch is how many events are moved at once.
const eventsBatch = 1000

// unit separates the fields of an event, of which only the last may hold it.
const unit = "\x1f"

// Event is something that happened to a notification or a device, on its way to the log of the deployment.
type Event struct {
	// ID is the same whenever the event is read.
	ID   string    `json:"id"`
	Type string    `json:"type"`
	At   time.Time `json:"-"`
	// NotificationID or DeviceID is what it is about.
	NotificationID string `json:"notification_id,omitempty"`
	DeviceID       string `json:"device_id,omitempty"`
	UserID         string `json:"user_id,omitempty"`
	Category       string `json:"category,omitempty"`
	Status         string `json:"status,omitempty"`
	Reason         string `json:"reason,omitempty"`
	Attempt        int    `json:"attempt,omitempty"`
	PolicyVersion  string `json:"policy_version,omitempty"`
}

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
		if !e.agendas.cfg.Guarded || of == eventDeferred {
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
	return *e.wanted.Load() != ",," && (!e.agendas.cfg.Guarded || e.Wants(eventDeferred))
}

// Each calls move with the events of a partition, some at a time, oldest first, and a name for these. When a
// process dies before all is done, the same events come again under the same name.
func (e *Events) Each(ctx context.Context, partition int, move func(name string, events []Event) error) error {
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
		events := make([]Event, len(list.Fields))
		for i := range events {
			events[i] = e.read(list.Text(i))
		}
		if r.Adopt(list); r.Fault != nil {
			return fmt.Errorf("read the events of partition %d: %w", partition, r.Fault)
		}
		if err := move(moved, events); err != nil {
			return err
		}
	}
}

// read reads an event as scripts write it.
func (e *Events) read(text string) Event {
	f := append(strings.SplitN(text, unit, 8), make([]string, 8)...)
	micros, _ := strconv.ParseInt(f[1], 10, 64) // the scripts write nothing else
	of := Event{
		ID: uuid.NewSHA1(uuid.NameSpaceOID, []byte(text)).String(), At: time.UnixMicro(micros), UserID: f[3],
		Category: f[4], PolicyVersion: notification.ParseBasis(f[6]).PolicyVersion, Reason: f[7],
	}
	of.Attempt, _ = strconv.Atoi(f[5])
	for name, letter := range eventLetters {
		if letter == f[0] {
			of.Type, of.Status, of.NotificationID = name, strings.TrimPrefix(name, "notification."), f[2]
		}
	}
	switch of.Type {
	case "":
		of.Type, of.DeviceID = f[0], f[2]
	case eventDeferred:
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
		EventDeviceDeactivated, strconv.FormatInt(at.UnixMicro(), 10), deviceID, userID, "", "0", "", reason,
	}, unit)
}
