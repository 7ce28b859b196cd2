package mailbox

import (
	"context"
	"fmt"
	"slices"
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
	// AskedAt is when the script was sent, on this process's clock.
	AskedAt time.Time
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

// takeAtOnce is how many questions one script answers at most: one that has to wait costs it some 50 µs.
const takeAtOnce = 32

// taken is what one question got.
type taken struct {
	answer Answer
	err    error
}

// Take asks whether somebody of the tick's mailbox may run, and takes the head of the line if so. What is asked of a lane
// while a script of it is under way goes into the next together.
func (s *Store) Take(ctx context.Context, q dispatch.Question) (Answer, error) {
	t, err := s.takes[q.Lane].Ask(ctx, q)
	if err != nil {
		return Answer{}, lost(err)
	}
	return t.answer, t.err
}

// takeAll asks the questions of a lane in one script.
func (s *Store) takeAll(ctx context.Context, lane int, questions []dispatch.Question) ([]taken, error) {
	terms := make([]Terms, len(questions))
	args := make([]any, 0, 16+8*len(questions))
	args = append(args, s.horizon, s.lease, s.retention, s.grace, "")
	numbers := make([]string, len(questions))
	var distinct []int // by their first question
	for i, q := range questions {
		terms[i] = s.cfg.Terms(q.UserID, q.Category)
		number := slices.IndexFunc(distinct, func(first int) bool { return terms[first].same(terms[i]) })
		if number < 0 {
			number, distinct = len(distinct), append(distinct, i)
			args = terms[i].args(args)
		}
		numbers[i] = strconv.Itoa(number + 1)
	}
	args[4] = strconv.Itoa(len(distinct))
	for i, q := range questions {
		args = append(args, q.Category, q.UserID, q.ID, q.Nonce, flag(q.Pulled), numbers[i])
	}
	asked := time.Now()
	replies, err := s.run(ctx, s.take, lane, args)
	if err != nil {
		return nil, err
	}
	if len(replies) != len(questions) {
		return nil, fmt.Errorf("the take script answered %d of %d questions", len(replies), len(questions))
	}
	answers := make([]taken, len(questions))
	for i, q := range questions {
		answers[i].answer, answers[i].err = answerOf(replies[i], q.Mailbox, terms[i].Plan)
		if g := answers[i].answer.Granted; g != nil {
			g.AskedAt = asked
		}
	}
	return answers, nil
}

// same tells whether both are written alike; plans of one category and policy share their rules.
func (t Terms) same(o Terms) bool {
	return t.MaxDefer == o.MaxDefer && t.BypassFrom == o.BypassFrom && t.Plan.Equal(o.Plan)
}

// args appends the terms as the script reads them.
func (t Terms) args(args []any) []any {
	size := len(args)
	args = t.Plan.Args(append(args, "", micros(t.MaxDefer), strconv.Itoa(t.BypassFrom)))
	args[size] = strconv.Itoa(len(args) - size - 1)
	return args
}

// answerOf reads the reply to one question.
func answerOf(reply any, box dispatch.Mailbox, plan throttle.Plan) (Answer, error) {
	fields, _ := reply.([]any)
	r := reader{fields: fields}
	answer := Answer{}
	switch kind := r.text(0); kind {
	case "run":
		answer.Granted, answer.Extra = r.granted(box)
	case "wait":
		answer.Wait = &dispatch.Wait{
			For:  time.Duration(r.number(2)-r.number(1)) * time.Microsecond,
			Rule: ruleName(plan, r.number(3)),
		}
	case "done":
	case "error":
		return Answer{}, lost(fmt.Errorf("the take script failed: %s", r.text(1)))
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
