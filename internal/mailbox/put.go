package mailbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Entry is a notification as a mailbox sees it.
type Entry struct {
	ID       string
	UserID   string
	Category string
	Priority notification.Priority
	// SendAt is the moment before which it is not due; Retrying tells that it waits for that because an attempt failed.
	SendAt      time.Time
	Retrying    bool
	ExpiresAt   time.Time
	CollapseKey string
	// Payload comes back with the grant.
	Payload string
	// Arrival is when it was accepted, for one whose record is elsewhere; zero for now. It gives the place in line, however
	// late the entry comes.
	Arrival time.Time
}

// ErrFull says that Redis has hardly any memory left.
var ErrFull = errors.New("Redis has hardly any memory left") //nolint:staticcheck // a name

// Placed tells what Put did with an entry.
type Placed struct {
	// AcceptedAt is when it, or the first with its id, was accepted.
	AcceptedAt time.Time
	// Known is true when the id had been accepted before.
	Known bool
	// DueIn is how long its tick has to wait; 0 when it comes at once.
	DueIn time.Duration
}

// Put accepts entries of one lane, all in one step, and gives one answer each, in order.
func (s *Store) Put(ctx context.Context, lane int, entries []Entry) ([]Placed, error) {
	if s.cfg.Full() {
		return nil, fmt.Errorf("put %d notifications into lane %d: %w", len(entries), lane, ErrFull)
	}
	under := ""
	if s.cfg.Guarded {
		under = "epoch"
	}
	return s.putUnder(ctx, under, lane, entries)
}

func (s *Store) putUnder(ctx context.Context, under string, lane int, entries []Entry) ([]Placed, error) {
	args := make([]any, 0, 4+10*len(entries))
	args = append(args, s.grace, s.retention, under, flag(s.cfg.Apart && !s.cfg.Guarded))
	for _, e := range entries {
		state, arrival := "t", "0"
		if e.Retrying {
			state = "r"
		}
		if !e.Arrival.IsZero() {
			arrival = strconv.FormatInt(e.Arrival.UnixMicro()-arrivalEpoch, 10)
		}
		args = append(args, e.ID, e.Category, e.UserID, strconv.Itoa(int(e.Priority)), moment(e.SendAt), moment(e.ExpiresAt),
			e.CollapseKey, e.Payload, arrival, state)
	}
	reply, err := s.put.Run(ctx, s.client, s.keys(lane), args...).Int64Slice()
	if err != nil {
		return nil, fmt.Errorf("put %d notifications into lane %d: %w", len(entries), lane, lost(err))
	}
	if len(reply) != 2*len(entries) {
		return nil, fmt.Errorf("put %d notifications into lane %d: the script answered %d numbers", len(entries), lane, len(reply))
	}
	placed := make([]Placed, len(entries))
	for i := range placed {
		at, due := reply[2*i], reply[2*i+1]
		placed[i] = Placed{AcceptedAt: throttle.Micros(max(at, -at)).Time(), Known: at < 0}
		if due > 0 {
			placed[i].DueIn = time.Duration(due-max(at, -at)) * time.Microsecond
		}
	}
	return placed, nil
}
