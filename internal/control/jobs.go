package control

import (
	"context"
	"errors"
	"time"
)

// Job is a change of many notifications. It goes on until it has ended, whichever process runs it.
type Job struct {
	ID string
	// Action is what is done to each: retry, cancel or move.
	Action string
	// Filter selects the notifications, as a query; Channel is where a move leads.
	Filter, Channel string
	// By is who began it, Why what he said.
	By, Why string
	At      time.Time
	// Counted is how many it was begun for: it changes no more than these.
	Counted int
	Status  JobStatus
	// Stopping says that somebody ended it early: it finishes what it has begun, and no more.
	Stopping bool
	// Done counts the notifications that it changed, Skipped those that were not to be changed any more, Refused those
	// that could not be. Faults are the latest reasons of refusals.
	Done, Skipped, Refused int
	Faults                 []string
	EndedAt                time.Time

	// Cursor is where it looks for the next notifications; Exhausted says that there are none. Batch are those that it
	// is changing: they are written down first, so that the next process can finish them.
	Cursor    string
	Exhausted bool
	Batch     []string
	// Holder is the process that runs it, until HeldUntil.
	Holder    string
	HeldUntil time.Time
}

// JobStatus is how far a job is.
type JobStatus string

// The statuses of a job. All but the first are ends.
const (
	JobRunning   JobStatus = "running"
	JobDone      JobStatus = "done"
	JobCancelled JobStatus = "cancelled"
)

// ErrNoJob says that there is no job with that id. It never was, or it is one of the oldest.
var ErrNoJob = errors.New("no such job")

// Jobs keeps the jobs of a deployment.
type Jobs interface {
	// AddJob adds a job that begins now, unless there is one with its id. The oldest that have ended are forgotten.
	AddJob(ctx context.Context, j Job) error
	// Jobs lists the jobs, newest first.
	Jobs(ctx context.Context) ([]Job, error)
	// ChangeJob changes a job, alone: no other change comes between. now is the store's time. An error of change is
	// returned, and nothing is changed. Without such a job it returns [ErrNoJob].
	ChangeJob(ctx context.Context, id string, change func(j *Job, now time.Time) error) (*Job, error)
}

// jobsKept is how many jobs are kept at least.
const jobsKept = 100

// forgotten returns the ids of the jobs to forget. jobs are all, newest first.
func forgotten(jobs []Job) []string {
	var ids []string
	for _, j := range jobs[min(len(jobs), jobsKept):] {
		if j.Status != JobRunning {
			ids = append(ids, j.ID)
		}
	}
	return ids
}
