package chaos_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// schedule is a setting and the moves played in it.
type schedule struct {
	setting
	moves []move
}

// String is the schedule as [readSchedule] reads it.
func (s schedule) String() string {
	var text strings.Builder
	head, err := json.Marshal(s.setting)
	if err != nil {
		return err.Error()
	}
	text.Write(append(head, '\n'))
	for _, m := range s.moves {
		text.WriteString(m.String() + "\n")
	}
	return text.String()
}

// readSchedule reads what String wrote. Lines that begin with # are for people.
func readSchedule(r io.Reader) (schedule, error) {
	var s schedule
	lines, first := bufio.NewScanner(r), true
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if first {
			if err := json.Unmarshal([]byte(line), &s.setting); err != nil {
				return s, fmt.Errorf("read the setting %q: %w", line, err)
			}
			first = false
			continue
		}
		var m move
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			return s, fmt.Errorf("read the move %q: %w", line, err)
		}
		s.moves = append(s.moves, m)
	}
	return s, lines.Err()
}

// stage is the stores on which schedules are played, one after the other.
type stage struct {
	redis    *server
	database *database
	// mutation switches a protection off.
	mutation string
}

// verdicts of a played schedule.
type played struct {
	schedule
	broken []string
	missed []string // the steps at which operations were to stop and to which they did not come
	story  []string
	faults map[string]int
	steps  int
	took   time.Duration // on the world's clock
}

// source gives the moves of a schedule, one after the other; false at its end.
type source interface {
	next(w *world) (move, bool)
}

// script plays what is written.
type script struct{ moves []move }

func (s *script) next(*world) (move, bool) {
	if len(s.moves) == 0 {
		return move{}, false
	}
	first := s.moves[0]
	s.moves = s.moves[1:]
	return first, true
}

// play plays a schedule in a new world, and checks it. It must be called in a bubble.
func (st *stage) play(set setting, moves source) (p *played, err error) {
	nextEpoch()
	w := &world{
		setting: set, redis: st.redis, ops: map[int]*operation{}, ledger: newLedger(), faults: map[string]int{},
		shardDown: -1,
		paused:    map[int]bool{}, mutation: st.mutation, idle: map[string]time.Time{},
	}
	if set.Durable {
		w.database = st.database
	}
	if err := w.clear(); err != nil {
		return nil, err
	}
	defer w.tearDown()
	for number := range set.Procs {
		p, err := w.newProcess(number)
		if err != nil {
			return nil, err
		}
		w.procs = append(w.procs, p)
	}
	if set.Durable {
		if _, err := w.procs[0].relay.RebuildLost(context.Background()); err != nil {
			return nil, fmt.Errorf("build the partitions: %w", err)
		}
	}
	p = &played{schedule: schedule{setting: set}, faults: w.faults}
	for {
		m, ok := moves.next(w)
		if !ok {
			break
		}
		p.moves = append(p.moves, m)
		w.lastOp = max(w.lastOp, m.Op)
		if err := w.play(m); err != nil {
			return nil, err
		}
	}
	w.lastOp += 1000
	if err := w.settle(); err != nil {
		return nil, err
	}
	p.broken, p.story, p.steps, p.took, p.missed = w.check(), w.told, w.steps.made, time.Since(w.began()), w.missed
	return p, nil
}

// clear empties the stores.
func (w *world) clear() error {
	var err error
	w.peek(func(ctx context.Context, client *redis.Client) { err = client.FlushDB(ctx).Err() })
	w.redis.now = time.Time{}
	w.redis.identity = 1
	if err == nil {
		err = w.redis.run(time.Now(), redis.NewCmd(context.Background(), "ping"))
	}
	if err != nil || w.database == nil {
		return err
	}
	if err := w.database.begin(time.Now()); err != nil {
		return err
	}
	return w.database.empty(time.Now())
}

// tearDown ends all processes and what they left.
func (w *world) tearDown() {
	all := append(slices.Clone(w.graves), w.procs...)
	for _, p := range all {
		p.die()
	}
	w.mu.Lock()
	w.lates = nil
	w.mu.Unlock()
	for _, p := range all {
		p.close()
	}
}
