package mailbox

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Granted is an entry of a mailbox that may be delivered now.
type Granted struct {
	ID                           string
	Generation, Attempt, Failure int
	// At is the moment that the limiter counted, In how long after the answer it comes.
	At time.Time
	In time.Duration
	// ArrivedAt is when the notification was accepted.
	ArrivedAt time.Time
	Payload   string
	// Deferrals is how often it was sent back to wait; History tells of that, in lines as [ParseHistory] reads them.
	Deferrals int
	History   string
	// Epoch is the number under which the lane's state was built, in a guarded store.
	Epoch int64
}

// Answer to a tick: granted, wait, or neither when nothing is left to do.
type Answer struct {
	Granted *Granted
	Wait    *dispatch.Wait
	Extra   *dispatch.Alarm
}

// Take asks whether somebody of the tick's mailbox may run, and takes the head of the line if so.
func (s *Store) Take(ctx context.Context, q dispatch.Question) (Answer, error) {
	terms := s.cfg.Terms(q.UserID, q.Category)
	args := make([]any, 0, 32)
	args = append(args, q.Category, q.UserID, q.ID, q.Nonce, flag(q.Pulled), s.horizon, s.lease, micros(terms.MaxDefer),
		strconv.Itoa(terms.BypassFrom), s.retention, s.grace)
	reply, err := s.run(ctx, s.take, q.Lane, terms.Plan.Args(args))
	if err != nil {
		return Answer{}, lost(err)
	}
	r := reader{fields: reply}
	answer := Answer{}
	switch kind := r.text(0); kind {
	case "run":
		answer.Granted, answer.Extra = r.granted(q.Mailbox)
	case "wait":
		answer.Wait = &dispatch.Wait{
			For:  time.Duration(r.number(2)-r.number(1)) * time.Microsecond,
			Rule: ruleName(terms.Plan, r.number(3)),
		}
	case "done":
	default:
		r.fault = fmt.Errorf("unknown answer %q", kind)
	}
	if r.fault != nil {
		return Answer{}, fmt.Errorf("read the answer of the take script: %w", r.fault)
	}
	return answer, nil
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

func (r *reader) miss(i int, want string) {
	if r.fault == nil {
		r.fault = fmt.Errorf("field %d is no %s: %v", i, want, r.fields)
	}
}

func (r *reader) granted(box dispatch.Mailbox) (*Granted, *dispatch.Alarm) {
	now := r.number(1)
	g := &Granted{
		At:         throttle.Micros(r.number(2)).Time(),
		In:         time.Duration(max(0, r.number(2)-now)) * time.Microsecond,
		ID:         r.text(4),
		Generation: int(r.number(5)),
		Attempt:    int(r.number(6)),
		Failure:    int(r.number(7)),
		ArrivedAt:  throttle.Micros(r.number(8)).Time(),
		Payload:    r.text(9),
		Deferrals:  int(r.number(12)),
		History:    r.text(13),
		Epoch:      Epoch(r.text(14)).number(),
	}
	if id := r.text(10); id != "" {
		return g, &dispatch.Alarm{
			Tick:  dispatch.Tick{ID: id, Mailbox: box},
			After: time.Duration(max(0, r.number(11)-now)) * time.Microsecond,
		}
	}
	return g, nil
}
