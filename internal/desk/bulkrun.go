package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/beat"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/notification"
)

const (
	// lookForJobs is how often a process looks whether there is a job to run.
	lookForJobs = time.Second
	// jobLease is how long a process has a job to itself. It tells that it is alive after each batch.
	jobLease = 15 * time.Second
	// jobBatch is how many notifications are changed between two such signs at most, jobAtOnce how many of them at a
	// time. At a slow rate they are as many as may be changed within batchPause, well within the lease.
	jobBatch, jobAtOnce = 50, 8
	batchPause          = 5 * time.Second
	// batchTime bounds a batch, so that a process does not work long after its lease.
	batchTime = 10 * time.Second
	// faultsKept is how many reasons of refusals a job shows.
	faultsKept = 10
)

// Run runs the jobs of the deployment, one after the other, until ctx ends. Of the processes that do so, one has a job
// at a time.
func (m *Many) Run(ctx context.Context) {
	ticker := beat.NewTicker(lookForJobs)
	defer ticker.Stop()
	for {
		for {
			if ran, err := m.RunJob(ctx); err != nil || !ran {
				break
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Next()
		}
	}
}

// RunJob runs the oldest job that has not ended to its end. It returns false when there is none, or another process has
// it.
func (m *Many) RunJob(ctx context.Context) (bool, error) {
	j, err := m.takeJob(ctx)
	if j == nil || err != nil {
		return false, err
	}
	id := j.ID
	if j, err = m.work(ctx, j); err != nil {
		if ctx.Err() == nil {
			m.Log.WarnContext(ctx, "a bulk job was interrupted; retrying", "job", id, "error", err)
		}
		return false, err
	}
	m.Log.InfoContext(ctx, "a bulk job has ended", "job", j.ID, "action", j.Action, "filter", j.Filter,
		"status", j.Status, "done", j.Done, "skipped", j.Skipped, "refused", j.Refused)
	m.note(ctx, control.Entry{
		By: j.By, Action: "bulk " + j.Action + " " + string(j.Status), Subject: j.Filter,
		Detail: fmt.Sprintf("%s: %d done, %d skipped, %d refused", j.ID, j.Done, j.Skipped, j.Refused),
	})
	return true, nil
}

// work makes the changes of a job, a batch at a time, until it has ended.
func (m *Many) work(ctx context.Context, j *control.Job) (_ *control.Job, err error) {
	known := seen{}
	for redo := len(j.Batch) > 0; j.Status == control.JobRunning; redo = redo && len(j.Batch) > 0 {
		began := time.Now()
		if len(j.Batch) == 0 {
			if j, err = m.nextBatch(ctx, j, known); err != nil {
				return nil, err
			}
		}
		n := len(j.Batch)
		if j, err = m.changeBatch(ctx, j, redo); err != nil {
			return nil, err
		}
		n -= len(j.Batch)
		if !sleep(ctx, time.Duration(n)*time.Second/time.Duration(max(1, m.Rate))-time.Since(began)) {
			return nil, ctx.Err()
		}
	}
	return j, nil
}

// sleep waits, and returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// errTaken says that another process has the job.
var errTaken = errors.New("another process has taken the job over")

// takeJob takes the oldest job that has not ended, unless another process that is alive has it. Jobs run one after the
// other, so that their rate holds for the deployment.
func (m *Many) takeJob(ctx context.Context) (*control.Job, error) {
	jobs, err := m.Control.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	for i := range slices.Backward(jobs) {
		if jobs[i].Status != control.JobRunning {
			continue
		}
		j, err := m.Control.ChangeJob(ctx, jobs[i].ID, func(j *control.Job, now time.Time) error {
			if j.Status != control.JobRunning || j.Holder != m.Process && now.Before(j.HeldUntil) {
				return errTaken
			}
			j.Holder, j.HeldUntil = m.Process, now.Add(jobLease)
			return nil
		})
		if errors.Is(err, errTaken) {
			return nil, nil //nolint:nilnil // another process has it: nothing to run, no fault
		}
		return j, err
	}
	return nil, nil //nolint:nilnil // there is no job, which is no fault
}

// save changes a job that this process has, and extends its lease.
func (m *Many) save(ctx context.Context, id string, change func(j *control.Job, now time.Time)) (*control.Job, error) {
	return m.Control.ChangeJob(ctx, id, func(j *control.Job, now time.Time) error {
		if j.Holder != m.Process || j.Status != control.JobRunning {
			return errTaken
		}
		j.HeldUntil = now.Add(jobLease)
		change(j, now)
		return nil
	})
}

// nextBatch finds the notifications that a job changes next, and writes them down before anything is changed: a process
// that takes the job over finishes them, although the filter may not select them any more. Without any the job ends.
// Those that this process has changed are left out.
func (m *Many) nextBatch(ctx context.Context, j *control.Job, known seen) (*control.Job, error) {
	f, err := m.jobFilter(ctx, j)
	if err != nil {
		return nil, err
	}
	found := &notification.Found{}
	remaining := j.Counted - j.Done - j.Refused
	if !j.Stopping && !j.Exhausted && remaining > 0 {
		f.Cursor, f.Limit = j.Cursor, min(jobBatch, remaining, max(1, m.Rate)*int(batchPause/time.Second))
		if found, err = m.Store.Find(ctx, f); err != nil {
			return nil, err
		}
		found.IDs = known.add(found.IDs)
	}
	return m.save(ctx, j.ID, func(j *control.Job, now time.Time) {
		switch {
		case j.Stopping:
			endJob(j, control.JobCancelled, now)
		case j.Exhausted || remaining <= 0:
			endJob(j, control.JobDone, now)
		default:
			j.Batch, j.Cursor, j.Exhausted = found.IDs, found.Next, found.Next == ""
		}
	})
}

func endJob(j *control.Job, status control.JobStatus, now time.Time) {
	j.Status, j.EndedAt, j.Holder = status, now, ""
}

func addFault(j *control.Job, fault string) {
	if j.Faults = append(j.Faults, fault); len(j.Faults) > faultsKept {
		j.Faults = j.Faults[len(j.Faults)-faultsKept:]
	}
}

// changeBatch changes the batch of a job, and counts what became of it. It may be repeated: a store that could not be
// reached, or a process that died, leaves the batch as it is. redo says that this may be a repeat: then what was done
// since the job began counts as done. What there was no time for stays in the batch.
func (m *Many) changeBatch(ctx context.Context, j *control.Job, redo bool) (*control.Job, error) {
	if len(j.Batch) == 0 {
		return j, nil
	}
	outcomes, err := m.changeAll(ctx, j, redo)
	if err != nil {
		return m.giveUp(ctx, j, fmt.Errorf("%s: %w", j.ID, err))
	}
	return m.save(ctx, j.ID, func(j *control.Job, _ time.Time) {
		j.Batch = slices.DeleteFunc(j.Batch, func(id string) bool {
			outcome, changed := outcomes[id]
			switch {
			case !changed:
			case outcome == nil:
				j.Done++
			case errors.Is(outcome, errSkipped):
				j.Skipped++
			default:
				j.Refused++
				addFault(j, outcome.Error())
			}
			return changed
		})
	})
}

// giveUp ends a job that somebody stops and whose batch can't be changed, so that those behind it run. Any other job
// stays as it is, to be repeated here or by another process once its lease is over: giveUp returns why.
func (m *Many) giveUp(ctx context.Context, j *control.Job, why error) (*control.Job, error) {
	ended, err := m.Control.ChangeJob(ctx, j.ID, func(j *control.Job, now time.Time) error {
		if !j.Stopping || j.Holder != m.Process || j.Status != control.JobRunning {
			return errTaken
		}
		addFault(j, fmt.Sprintf("some of the last %d may have been changed before the job stopped: %v", len(j.Batch), why))
		j.Batch = nil
		endJob(j, control.JobCancelled, now)
		return nil
	})
	if err != nil {
		return nil, why
	}
	return ended, nil
}

// changeAll takes a job's action on its batch, on each user's notifications one after the other, oldest first: they go
// on in the order in which they came. It returns what became of each that it had time for. One of which it is not known
// whether the filter still selects it is left for later, and what is behind it; without any other the batch is too.
func (m *Many) changeAll(ctx context.Context, j *control.Job, redo bool) (map[string]error, error) {
	f, err := m.jobFilter(ctx, j)
	if err != nil {
		return nil, err
	}
	stop := time.Now().Add(batchTime / 2)
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	users, outcomes, err := m.byUser(ctx, j.Batch)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var changing errgroup.Group
	changing.SetLimit(jobAtOnce)
	for _, views := range users {
		changing.Go(func() error {
			for i := 0; i < len(views) && (i == 0 || time.Now().Before(stop)); i++ {
				if !f.Decides(views[i]) {
					return nil // those behind it stay behind it
				}
				outcome := m.changeOne(ctx, j, views[i], &f, redo)
				if outcome != nil && !final(outcome) {
					return outcome
				}
				mu.Lock()
				outcomes[views[i].ID] = outcome
				mu.Unlock()
			}
			return nil
		})
	}
	if err := changing.Wait(); err != nil || len(outcomes) > 0 {
		return outcomes, err
	}
	return nil, errUntold
}

// errUntold says that a job can't go on, since it depends on what Redis tells whether the filter selects its
// notifications.
var errUntold = errors.New("Redis did not say in time what the notifications wait for") //nolint:staticcheck // a name

// byUser reads notifications, and returns those of each user, oldest first. Those that are no longer known are skipped.
func (m *Many) byUser(ctx context.Context, ids []string) (
	users map[string][]*notification.View, skipped map[string]error, err error,
) {
	views := make([]*notification.View, len(ids))
	var reading errgroup.Group
	reading.SetLimit(jobAtOnce)
	for i, id := range ids {
		reading.Go(func() error {
			view, err := m.Store.View(ctx, id)
			if !errors.Is(err, notification.ErrNotFound) {
				views[i] = view
				return err
			}
			return nil
		})
	}
	if err := reading.Wait(); err != nil {
		return nil, nil, err
	}
	users, skipped = map[string][]*notification.View{}, map[string]error{}
	for i, view := range views {
		if view == nil {
			skipped[ids[i]] = errSkipped
			continue
		}
		users[view.UserID] = append(users[view.UserID], view)
	}
	for _, of := range users {
		slices.SortFunc(of, func(a, b *notification.View) int {
			return cmp.Or(cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.ID, b.ID))
		})
	}
	return users, skipped, nil
}

// jobFilter reads the filter of a job. Its names were checked when the job began, whatever the policy says by now.
func (m *Many) jobFilter(ctx context.Context, j *control.Job) (notification.Filter, error) {
	query, err := url.ParseQuery(j.Filter)
	if err != nil {
		return notification.Filter{}, fmt.Errorf("read the filter of %s: %w", j.ID, err)
	}
	names := Names{Categories: []string{query.Get("category")}, Channels: []string{query.Get("channel")}}
	f, err := ParseFilter(ctx, m.Store, query, names, j.At)
	if err != nil {
		return f, fmt.Errorf("read the filter of %s: %w", j.ID, err)
	}
	return f, nil
}

// errSkipped says that a notification was not to be changed, or had been before.
var errSkipped = errors.New("skipped")

// final reports whether the outcome of an action would be the same if it was repeated.
func final(outcome error) bool {
	_, refused := errors.AsType[*RefusalError](outcome)
	_, partial := errors.AsType[*PartialError](outcome)
	return refused || partial || errors.Is(outcome, errSkipped)
}

// changeOne takes a job's action on one notification.
func (m *Many) changeOne(ctx context.Context, j *control.Job, view *notification.View, f *notification.Filter,
	redo bool,
) error {
	done, err := m.changeSeen(ctx, j.Action, view, j.Channel, f)
	switch {
	case errors.Is(err, notification.ErrNotFound), errors.Is(err, notification.ErrNotWaiting),
		errors.Is(err, errNoLonger),
		err == nil && done.known && !(redo && done.since(j.At)):
		return errSkipped
	}
	return err
}
