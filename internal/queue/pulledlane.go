package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// linger is how long an acknowledgement waits for others: nobody waits for it.
	linger = 10 * time.Millisecond
	// longestWait is how long asynq waits for a task at most: it counts the lease of what it gets from when it asked.
	longestWait = 500 * time.Millisecond
	// freshFor is how long what was taken may wait to be begun. What is older is given back: its lease goes on meanwhile.
	freshFor = 5 * time.Second
)

// errNotActive is what asynq's done answers for a task that is not active.
var errNotActive = errors.New("NOT FOUND")

// pulledLane is one lane of a puller.
type pulledLane struct {
	conn                                    redis.UniversalClient
	pending, paused, active, leases, prefix string
	room                                    int

	mu       sync.Mutex
	changed  chan struct{} // closed when anything below has changed, and replaced
	ready    []string      // messages that were taken and not begun, the oldest first
	fetched  time.Time     // when the latest of them were
	running  int           // handed out
	waiting  int           // callers that wait for something to come
	hot      bool          // there may be more in Redis
	fetching bool
	closed   bool

	acks []*ack
}

// ack is an acknowledgement that waits for others.
type ack struct {
	id    string
	keys  []string
	args  []any
	reply chan error // holds one
}

func newPulledLane(conn redis.UniversalClient, name string, room int) *pulledLane {
	key := func(of string) string { return "asynq:{" + name + "}:" + of }
	return &pulledLane{
		conn: conn, pending: key("pending"), paused: key("paused"), active: key("active"), leases: key("lease"), prefix: key("t:"),
		room: room, hot: true, changed: make(chan struct{}),
	}
}

// dequeue answers asynq's question for a task. While there is none it waits, so that asynq need not ask again and again.
func (l *pulledLane) dequeue(ctx context.Context) *redis.Cmd {
	answer := redis.NewCmd(ctx)
	message, err := l.take(ctx)
	switch {
	case err != nil:
		answer.SetErr(err)
	case message == "":
		answer.SetErr(redis.Nil)
	default:
		answer.SetVal(message)
	}
	return answer
}

// take gives a message, empty when none came in time or the lane is closed.
func (l *pulledLane) take(ctx context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for late := (<-chan time.Time)(nil); ; {
		switch {
		case l.closed:
			return "", nil
		case len(l.ready) > 0 && time.Since(l.fetched) > freshFor:
			l.giveBack() //nolint:contextcheck // asynq gives none that ends
		case len(l.ready) > 0:
			message := l.ready[0]
			l.ready = l.ready[1:]
			l.running++
			return message, nil
		case l.hot && !l.fetching:
			if err := l.fetch(ctx); err != nil {
				return "", err
			}
		default:
			if late == nil {
				late = time.After(longestWait)
			}
			if !l.wait(late) {
				return "", nil
			}
		}
	}
}

// wait gives l.mu up until something has changed; false when it is late.
func (l *pulledLane) wait(late <-chan time.Time) bool {
	changed := l.changed
	l.waiting++
	l.mu.Unlock()
	inTime := true
	select {
	case <-changed:
	case <-late:
		inTime = false
	}
	l.mu.Lock()
	l.waiting--
	return inTime
}

// tell wakes those who wait; the caller holds l.mu.
func (l *pulledLane) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// fetch takes as many as there is room for, with l.mu given up meanwhile.
func (l *pulledLane) fetch(ctx context.Context) error {
	n := max(1, min(fetchAtOnce, l.room-l.running))
	l.fetching = true
	l.mu.Unlock()
	now := time.Now()
	messages, err := fetchScript.Run(ctx, l.conn, []string{l.pending, l.paused, l.active, l.leases}, now.Add(leaseLife).Unix(), l.prefix, n).StringSlice()
	l.mu.Lock()
	l.fetching = false
	l.ready, l.fetched = append(l.ready, messages...), now
	l.hot = err != nil || len(messages) == n
	l.tell()
	if err != nil {
		return fmt.Errorf("take tasks of %s: %w", l.pending, err)
	}
	return nil
}

// wanted tells whether somebody waits although nothing is there.
func (l *pulledLane) wanted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting > 0 && !l.hot && !l.fetching
}

// wake has those who wait ask Redis again.
func (l *pulledLane) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hot = true
	l.tell()
}

// left counts tasks that are not at work any more.
func (l *pulledLane) left(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = max(0, l.running-n)
}

// done answers asynq's acknowledgement of a task, together with others.
func (l *pulledLane) done(ctx context.Context, keys []string, args []any) *redis.Cmd {
	answer := redis.NewCmd(ctx)
	id, _ := args[0].(string)
	a := &ack{id: id, keys: keys, args: args, reply: make(chan error, 1)}
	l.mu.Lock()
	l.acks = append(l.acks, a)
	switch {
	case len(l.acks) == fetchAtOnce || l.closed:
		acks := l.takeAcks()
		l.mu.Unlock()
		l.finish(acks) //nolint:contextcheck // of many callers
	default:
		if len(l.acks) == 1 {
			time.AfterFunc(linger, l.finishLate)
		}
		l.mu.Unlock()
	}
	if err := <-a.reply; err != nil {
		answer.SetErr(err)
	} else {
		answer.SetVal("OK")
	}
	return answer
}

// takeAcks takes what is to be acknowledged; the caller holds l.mu.
func (l *pulledLane) takeAcks() []*ack {
	acks := l.acks
	l.acks = nil
	l.running = max(0, l.running-len(acks))
	return acks
}

func (l *pulledLane) finishLate() {
	l.mu.Lock()
	acks := l.takeAcks()
	l.mu.Unlock()
	if len(acks) > 0 {
		l.finish(acks)
	}
}

// finish acknowledges many at once. A task that is not active any more has been taken from this process.
func (l *pulledLane) finish(acks []*ack) {
	// asynq gives keys and arguments of one: active, leases, its own key, the counters; its id, the counter's end, the limit.
	first := acks[0]
	args := make([]any, 0, 3+len(acks))
	args = append(args, l.prefix, first.args[1], first.args[2])
	for _, a := range acks {
		args = append(args, a.id)
	}
	found, err := finishScript.Run(context.Background(), l.conn, []string{l.active, l.leases, first.keys[3], first.keys[4]}, args...).Int64Slice()
	for i, a := range acks {
		switch {
		case err != nil:
			a.reply <- err
		case found[i] == 0:
			a.reply <- errNotActive
		default:
			a.reply <- nil
		}
	}
}

// close lets nobody wait any more, and gives back what was taken and not begun.
func (l *pulledLane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.tell()
	l.giveBack()
}

// giveBack puts what was taken and not begun back into the queue. The caller holds l.mu.
func (l *pulledLane) giveBack() {
	if len(l.ready) == 0 {
		return
	}
	args := []any{l.prefix}
	for _, message := range slices.Backward(l.ready) {
		args = append(args, taskID([]byte(message)))
	}
	l.ready, l.hot = nil, true
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	// Without an answer their leases end, and they come again.
	_ = givebackScript.Run(ctx, l.conn, []string{l.active, l.leases, l.pending}, args...).Err()
}

// taskID reads the id out of a message of asynq's.
func taskID(message []byte) string {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return ""
		}
		message = message[n:]
		if field == fieldID && kind == protowire.BytesType {
			id, _ := protowire.ConsumeString(message)
			return id
		}
		if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
			return ""
		}
		message = message[n:]
	}
	return ""
}
