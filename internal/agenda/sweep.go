package agenda

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// Sweep repairs a partition: it takes back notifications whose lease has ended, ends those that expired, and replaces
// wake-ups that did not come. Any number of processes may sweep at once. Each sweep shows the others that this process
// is alive.
func (s *Agendas) Sweep(ctx context.Context, partition int) (dispatch.Repairs, error) {
	reply, err := s.run(ctx, s.sweep, partition, []any{
		s.cfg.Process, s.retention, micros(s.cfg.Grace), micros(s.cfg.Presence),
		strconv.Itoa(s.cfg.MaxCrashes), strconv.Itoa(scriptLimit), micros(s.cfg.Truce), s.lease,
	})
	if err != nil {
		return dispatch.Repairs{}, fmt.Errorf("sweep partition %d: %w", partition, lost(err))
	}
	r := reader{fields: reply}
	swept := dispatch.Repairs{
		LeasesEnded: int(r.number(0)), Expired: int(r.number(1)), Woken: int(r.number(2)), More: r.number(3) == 1,
	}
	elsewhere := r.list(4)
	for i := 0; i+1 < len(elsewhere.fields); i += 2 {
		n, err := strconv.ParseInt(elsewhere.text(i+1), 10, 64)
		if err != nil {
			return dispatch.Repairs{}, fmt.Errorf("sweep partition %d: what others accepted: %w", partition, err)
		}
		swept.Accepted = append(swept.Accepted, dispatch.Accepted{Category: elsewhere.text(i), Count: n})
	}
	s.reportDeferrals(r.list(5))
	swept.ClockSetBack = time.Duration(r.number(6)) * time.Microsecond
	return swept, r.fault
}

// dueAtOnce is how many partitions one script looks at.
const dueAtOnce = 32

// Due lists the partitions in which a sweep would find something. Where anything waits or is in flight, it shows
// others that this process is alive, as a sweep does. On Redis Cluster, where partitions may be on several servers, a
// partition that can't be looked at is in the list: the sweep says why.
func (s *Agendas) Due(ctx context.Context) ([]int, error) {
	all := make([]int, s.cfg.Partitions)
	for partition := range all {
		all[partition] = partition
	}
	if !s.oneServer {
		return s.dueApart(ctx, all), nil
	}
	var due []int
	for some := range slices.Chunk(all, dueAtOnce) {
		found, err := s.dueOf(ctx, some...)
		if err != nil {
			return nil, fmt.Errorf("look for partitions to sweep: %w", err)
		}
		due = append(due, found...)
	}
	return due, nil
}

// duePatience is how long the partitions of several servers are waited for. The driver of one that stands still may
// wait for minutes.
const duePatience = 5 * time.Second

// dueApart looks at each partition by itself, at all of them at once. One that does not respond counts as due, and is
// not looked at again before it has.
func (s *Agendas) dueApart(ctx context.Context, all []int) []int {
	due, idle, asked := make([]bool, len(all)), make(chan int, len(all)), 0
	for _, partition := range all {
		due[partition] = true
		if !s.looking[partition].CompareAndSwap(false, true) {
			continue
		}
		asked++
		go func() {
			defer s.looking[partition].Store(false)
			found, err := s.dueOf(ctx, partition)
			if err != nil || len(found) > 0 {
				partition = -1
			}
			idle <- partition
		}()
	}
	patience := time.NewTimer(duePatience)
	defer patience.Stop()
waiting:
	for range asked {
		select {
		case partition := <-idle:
			if partition >= 0 {
				due[partition] = false
			}
		case <-patience.C:
			break waiting
		}
	}
	return slices.DeleteFunc(all, func(partition int) bool { return !due[partition] })
}

// dueOf looks at partitions in one script.
func (s *Agendas) dueOf(ctx context.Context, partitions ...int) ([]int, error) {
	keys := make([]string, 0, 2*len(partitions))
	for _, partition := range partitions {
		keys = append(keys, s.keys(partition)...)
	}
	places, err := s.due.Run(ctx, s.client, keys, s.cfg.Process, micros(s.cfg.Grace), micros(s.cfg.Truce)).Int64Slice()
	if err != nil {
		return nil, err
	}
	due := make([]int, len(places))
	for i, place := range places {
		if place < 1 || place > int64(len(keys)) {
			return nil, fmt.Errorf("the script returned the place %d of %d", place, len(keys))
		}
		due[i] = partitions[place/2]
	}
	return due, nil
}

// Clear forgets the windows of a user's category, of the user's cap and of the named caps that count the category. What
// waits may then go at once.
func (s *Agendas) Clear(ctx context.Context, b dispatch.Backlog) error {
	forget := []string{b.Category}
	for _, rules := range s.cfg.Settings(b.UserID, b.Category).Plan.NamedCaps() {
		forget = append(forget, rules[0].Cap)
	}
	_, err := s.wakeAll(ctx, b.Partition, strings.Join(forget, " "), false, b.UserID)
	return err
}

// Wake has the agendas of some users of one partition served again at once, because their limits may have changed.
func (s *Agendas) Wake(ctx context.Context, partition int, userIDs ...string) error {
	_, err := s.wakeAll(ctx, partition, "", false, userIDs...)
	return err
}

// WakePersonal is Wake for users whose preferences have changed. It returns for how many of them something waits.
func (s *Agendas) WakePersonal(ctx context.Context, partition int, userIDs ...string) (waiting int, err error) {
	return s.wakeAll(ctx, partition, "", true, userIDs...)
}

func (s *Agendas) wakeAll(ctx context.Context, partition int, forget string, personal bool, userIDs ...string,
) (waiting int, err error) {
	args := make([]any, 0, 2+len(userIDs))
	args = append(args, forget, flag(personal))
	for _, user := range userIDs {
		args = append(args, user)
	}
	waiting, err = s.wake.Run(ctx, s.client, s.keys(partition), args...).Int()
	if err != nil {
		return 0, fmt.Errorf("wake %d users of partition %d: %w", len(userIDs), partition, lost(err))
	}
	return waiting, nil
}

// Hurry has notifications of some users of one partition tried again at once that wait because their
// channel's credentials were refused. Where another store keeps the notifications, allow tells it first which these
// are; it may be nil. A script looks at a bounded number of notifications.
func (s *Agendas) Hurry(ctx context.Context, partition int, allow func(context.Context, []string) error,
	userIDs ...string,
) error {
	for at := 0; len(userIDs) > 0; {
		if allow != nil {
			_, _, ids, err := s.hurryOnce(ctx, partition, at, false, userIDs)
			if err == nil && len(ids) > 0 {
				err = allow(ctx, ids)
			}
			if err != nil {
				return err
			}
		}
		done, next, _, err := s.hurryOnce(ctx, partition, at, true, userIDs)
		if err != nil {
			return err
		}
		userIDs, at = userIDs[min(done, len(userIDs)):], next
	}
	return nil
}

func (s *Agendas) hurryOnce(ctx context.Context, partition, at int, move bool, userIDs []string) (
	done, next int, ids []string, err error,
) {
	args := []any{strconv.Itoa(scriptLimit), strconv.Itoa(at), flag(move)}
	for _, user := range userIDs {
		args = append(args, user)
	}
	reply, err := s.run(ctx, s.hurry, partition, args)
	if err != nil {
		return 0, 0, nil, fmt.Errorf("hurry %d users of partition %d: %w", len(userIDs), partition, lost(err))
	}
	r := reader{fields: reply}
	found := r.list(2)
	for i := range found.fields {
		ids = append(ids, found.text(i))
	}
	return int(r.number(0)), int(r.number(1)), ids, r.fault
}
