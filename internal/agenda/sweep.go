package agenda

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/reply"
	"github.com/pacer-notify/pacer/internal/dispatch"
)

// Sweep repairs a partition: it takes back notifications whose lease has ended, ends those that expired, and replaces
// wake-ups that did not come. Any number of processes may sweep at once. Each sweep shows the others that this process
// is alive.
func (a *Agendas) Sweep(ctx context.Context, partition int) (dispatch.Repairs, error) {
	answer, err := a.Run(ctx, a.sweep, partition, []any{
		a.cfg.Process, a.retention, micros(a.cfg.Grace), micros(a.cfg.Presence),
		strconv.Itoa(a.cfg.MaxCrashes), strconv.Itoa(scriptLimit), micros(a.cfg.Truce), a.lease,
	})
	if err != nil {
		return dispatch.Repairs{}, fmt.Errorf("sweep partition %d: %w", partition, keyspace.Fault(err))
	}
	r := reply.Reader{Fields: answer}
	swept := dispatch.Repairs{
		LeasesEnded: int(r.Number(0)), Expired: int(r.Number(1)), Woken: int(r.Number(2)), More: r.Number(3) == 1,
	}
	elsewhere := r.List(4)
	for i := 0; i+1 < len(elsewhere.Fields); i += 2 {
		n, err := strconv.ParseInt(elsewhere.Text(i+1), 10, 64)
		if err != nil {
			return dispatch.Repairs{}, fmt.Errorf("sweep partition %d: what others accepted: %w", partition, err)
		}
		swept.Accepted = append(swept.Accepted, dispatch.Accepted{Category: elsewhere.Text(i), Count: n})
	}
	a.cfg.reportDeferrals(r.List(5))
	swept.ClockSetBack = time.Duration(r.Number(6)) * time.Microsecond
	return swept, r.Fault
}

// dueAtOnce is how many partitions one script looks at.
const dueAtOnce = 32

// Due lists the partitions in which a sweep would find something. Where anything waits or is in flight, it shows
// others that this process is alive, as a sweep does. On Redis Cluster, where partitions may be on several servers, a
// partition that can't be looked at is in the list: the sweep says why.
func (a *Agendas) Due(ctx context.Context) ([]int, error) {
	all := make([]int, a.Partitions())
	for partition := range all {
		all[partition] = partition
	}
	if !a.OneServer {
		return a.dueApart(ctx, all), nil
	}
	var due []int
	for some := range slices.Chunk(all, dueAtOnce) {
		found, err := a.dueOf(ctx, some...)
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
func (a *Agendas) dueApart(ctx context.Context, all []int) []int {
	due, idle, asked := make([]bool, len(all)), make(chan int, len(all)), 0
	for _, partition := range all {
		due[partition] = true
		if !a.looking[partition].CompareAndSwap(false, true) {
			continue
		}
		asked++
		go func() {
			defer a.looking[partition].Store(false)
			found, err := a.dueOf(ctx, partition)
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
func (a *Agendas) dueOf(ctx context.Context, partitions ...int) ([]int, error) {
	keys := make([]string, 0, 2*len(partitions))
	for _, partition := range partitions {
		keys = append(keys, a.ScriptKeys(partition)...)
	}
	places, err := a.due.Run(ctx, a.Client, keys, a.cfg.Process, micros(a.cfg.Grace), micros(a.cfg.Truce)).Int64Slice()
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
func (a *Agendas) Clear(ctx context.Context, b dispatch.Backlog) error {
	forget := []string{b.Category}
	for _, rules := range a.cfg.Settings(b.UserID, b.Category).Plan.NamedCaps() {
		forget = append(forget, rules[0].Cap)
	}
	_, err := a.wakeAll(ctx, b.Partition, strings.Join(forget, " "), false, b.UserID)
	return err
}

// Wake has the agendas of some users of one partition served again at once, because their limits may have changed.
func (a *Agendas) Wake(ctx context.Context, partition int, userIDs ...string) error {
	_, err := a.wakeAll(ctx, partition, "", false, userIDs...)
	return err
}

// WakePersonal is Wake for users whose preferences have changed. It returns for how many of them something waits.
func (a *Agendas) WakePersonal(ctx context.Context, partition int, userIDs ...string) (waiting int, err error) {
	return a.wakeAll(ctx, partition, "", true, userIDs...)
}

func (a *Agendas) wakeAll(ctx context.Context, partition int, forget string, personal bool, userIDs ...string,
) (waiting int, err error) {
	args := make([]any, 0, 2+len(userIDs))
	args = append(args, forget, Flag(personal))
	for _, user := range userIDs {
		args = append(args, user)
	}
	waiting, err = a.wake.Run(ctx, a.Client, a.ScriptKeys(partition), args...).Int()
	if err != nil {
		return 0, fmt.Errorf("wake users of partition %d: %w", partition, keyspace.Fault(err))
	}
	return waiting, nil
}

// Hurry has notifications of some users of one partition tried again at once that wait because their
// channel's credentials were refused. Where another store keeps the notifications, allow tells it first which these
// are; it may be nil. A script looks at a bounded number of notifications.
func (a *Agendas) Hurry(ctx context.Context, partition int, allow func(context.Context, []string) error,
	userIDs ...string,
) error {
	for at := 0; len(userIDs) > 0; {
		if allow != nil {
			_, _, ids, err := a.hurryOnce(ctx, partition, at, false, userIDs)
			if err == nil && len(ids) > 0 {
				err = allow(ctx, ids)
			}
			if err != nil {
				return err
			}
		}
		done, next, _, err := a.hurryOnce(ctx, partition, at, true, userIDs)
		if err != nil {
			return err
		}
		userIDs, at = userIDs[min(done, len(userIDs)):], next
	}
	return nil
}

func (a *Agendas) hurryOnce(ctx context.Context, partition, at int, move bool, userIDs []string) (
	done, next int, ids []string, err error,
) {
	args := []any{strconv.Itoa(scriptLimit), strconv.Itoa(at), Flag(move)}
	for _, user := range userIDs {
		args = append(args, user)
	}
	answer, err := a.Run(ctx, a.hurry, partition, args)
	if err != nil {
		return 0, 0, nil, fmt.Errorf("hurry users of partition %d: %w", partition, keyspace.Fault(err))
	}
	r := reply.Reader{Fields: answer}
	found := r.List(2)
	for i := range found.Fields {
		ids = append(ids, found.Text(i))
	}
	return int(r.Number(0)), int(r.Number(1)), ids, r.Fault
}

// Awake tells for each of some users whether they have a wake-up in time for what waits.
func (a *Agendas) Awake(ctx context.Context, userIDs []string) ([]bool, error) {
	awake := make([]bool, len(userIDs))
	user := func(i int) string { return userIDs[i] }
	return awake, a.InBatches(len(userIDs), user, func(partition int, part []int) error {
		args := make([]any, len(part))
		for n, i := range part {
			args[n] = userIDs[i]
		}
		reply, err := a.awake.Run(ctx, a.Client, a.ScriptKeys(partition), args...).Int64Slice()
		if err != nil {
			return fmt.Errorf("look for the wake-ups of users of partition %d: %w", partition, err)
		}
		for n, i := range part {
			awake[i] = reply[n] == 1
		}
		return nil
	})
}
