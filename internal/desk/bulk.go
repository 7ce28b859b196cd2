package desk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/plural"
)

// BulkOrder is what is posted to /bulk: what to do to which notifications. Without Confirm it only counts them; with
// the confirmation of a [BulkCount], and the filter that came with it, it begins a job.
//
//	{"action": "retry", "filter": "status=failed&category=chat&since=2h", "why": "provider is back"}
//	{"action": "move", "filter": "…", "channel": "email", "confirm": "4213-1772625600-9f86d081884c"}
type BulkOrder struct {
	// Action is retry, cancel or move.
	Action string `json:"action"`
	// Filter is a query as of GET /notifications, without limit and cursor. Without a status it selects all that the
	// action can be done to.
	Filter string `json:"filter"`
	// Channel is where a move leads.
	Channel string `json:"channel,omitempty"`
	// Why is for the audit log.
	Why string `json:"why,omitempty"`
	// Confirm says how many were counted, see [BulkCount].
	Confirm string `json:"confirm,omitempty"`
}

// BulkCount says what an order would do.
//
//	{"action": "retry", "filter": "category=chat&since=…&status=failed&until=…", "count": 4213,
//	  "confirm": "4213-1772625600-9f86d081884c"}
type BulkCount struct {
	Action  string `json:"action"`
	Channel string `json:"channel,omitempty"`
	// Filter is the order's with times instead of durations. It ends with what was accepted by now.
	Filter string `json:"filter"`
	// Count is how many there are at most; More that there are more than one job may change, or than could be counted
	// in time.
	Count int  `json:"count"`
	More  bool `json:"more,omitempty"`
	// Confirm begins the job, for an hour: an order with it changes at most Count, with exactly this filter.
	Confirm string `json:"confirm"`
}

// BulkJob is a job as it is shown.
//
//	{"id": "…", "action": "retry", "filter": "…", "by": "ada (127.0.0.1)", "at": "…", "status": "running",
//	  "count": 4213, "done": 1200, "skipped": 3, "refused": 1, "faults": ["n7 can't be sent again: …"]}
type BulkJob struct {
	ID      string    `json:"id"`
	Action  string    `json:"action"`
	Filter  string    `json:"filter"`
	Channel string    `json:"channel,omitempty"`
	By      string    `json:"by"`
	Why     string    `json:"why,omitempty"`
	At      time.Time `json:"at"`
	// Status is running, done or cancelled; Stopping says that it is running, and will be cancelled.
	Status   control.JobStatus `json:"status"`
	Stopping bool              `json:"stopping,omitempty"`
	// Count is how many were counted. Done were changed; Skipped were not to be changed any more, or had been before;
	// Refused could not be, and Faults are the latest reasons.
	Count   int       `json:"count"`
	Done    int       `json:"done"`
	Skipped int       `json:"skipped"`
	Refused int       `json:"refused"`
	Faults  []string  `json:"faults,omitempty"`
	EndedAt time.Time `json:"ended_at,omitzero"`
}

func shownJob(j *control.Job) *BulkJob {
	return &BulkJob{
		ID: j.ID, Action: j.Action, Filter: j.Filter, Channel: j.Channel, By: j.By, Why: j.Why, At: j.At,
		Status: j.Status, Stopping: j.Stopping && j.Status == control.JobRunning, Count: j.Counted, Done: j.Done,
		Skipped: j.Skipped, Refused: j.Refused, Faults: j.Faults, EndedAt: j.EndedAt,
	}
}

const (
	// MaxBulk is how many notifications one job changes at most.
	MaxBulk = 100_000
	// countPage is how many ids are counted at a time, countTime how long counting takes at most.
	countPage = 10_000
	countTime = 4 * time.Second
	// confirmLife is how long a confirmation holds.
	confirmLife = time.Hour
)

// CountBulk counts what an order would change. It changes nothing.
func (m *Many) CountBulk(ctx context.Context, o BulkOrder) (*BulkCount, error) {
	f, err := m.orderFilter(ctx, &o, time.Now())
	if err != nil {
		return nil, err
	}
	c := &BulkCount{Action: o.Action, Channel: o.Channel, Filter: formatFilter(&f)}
	if c.Count, c.More, err = m.count(ctx, f); err != nil {
		return nil, err
	}
	c.Confirm = confirmation(&o, c.Filter, c.Count, time.Now())
	return c, nil
}

// CountWaiting counts what waits in a category, up to [MaxBulk]; more says that there may be more.
func CountWaiting(ctx context.Context, store Lister, category string) (n int, more bool, err error) {
	return count(ctx, store, notification.Filter{Category: category, Statuses: []notification.Status{
		notification.StatusScheduled, notification.StatusQueued, notification.StatusDeferred,
		notification.StatusRetrying,
	}})
}

func (m *Many) count(ctx context.Context, f notification.Filter) (n int, more bool, err error) {
	return count(ctx, m.Store, f)
}

func count(ctx context.Context, store Lister, f notification.Filter) (n int, more bool, err error) {
	f.Limit = countPage
	known := seen{}
	for began := time.Now(); ; {
		found, err := store.Find(ctx, f)
		if err != nil {
			return 0, false, err
		}
		n += len(known.add(found.IDs))
		f.Cursor = found.Next
		switch {
		case n > MaxBulk:
			return MaxBulk, true, nil
		case f.Cursor == "":
			return n, false, nil
		case time.Since(began) > countTime:
			return n, true, nil
		}
	}
}

// seen are the notifications that came on a page: a store in Redis may list one on two pages.
type seen map[string]struct{}

// add returns the ids that had not been seen.
func (s seen) add(ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool {
		_, known := s[id]
		s[id] = struct{}{}
		return known
	})
}

// BeginBulk begins the job that an order confirms. An order that comes twice begins one job.
func (m *Many) BeginBulk(ctx context.Context, o BulkOrder, by string) (*BulkJob, error) {
	f, err := m.orderFilter(ctx, &o, time.Now())
	if err != nil {
		return nil, err
	}
	count, err := confirmed(&o, time.Now())
	if err != nil {
		return nil, err
	}
	j := control.Job{
		ID: "job-" + hashOf(o.Confirm, by)[:16], Action: o.Action, Filter: formatFilter(&f), Channel: o.Channel, By: by,
		Why: o.Why, Counted: count, Status: control.JobRunning,
	}
	if err := m.Control.AddJob(ctx, j); err != nil {
		return nil, err
	}
	m.note(ctx, control.Entry{
		By: by, Action: "bulk " + o.Action, Subject: j.Filter,
		Detail: strings.TrimSpace(fmt.Sprintf("%s, %s %s %s", plural.Of(count, "notification", "notifications"),
			j.ID, o.Channel, o.Why)),
	})
	return m.Job(ctx, j.ID)
}

// noteTimeout bounds the writing of a line of the audit log.
const noteTimeout = 3 * time.Second

// note writes a line of the audit log, also for somebody who has gone in the meantime. The job shows the same, so
// a line that can't be written is only logged.
func (m *Many) note(ctx context.Context, e control.Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	if err := m.Control.Note(ctx, e); err != nil {
		m.Log.ErrorContext(ctx, "could not write a bulk action to the audit log; the job goes on",
			"action", e.Action, "subject", e.Subject, "by", e.By, "error", err)
	}
}

// Jobs lists the jobs, newest first.
func (m *Many) Jobs(ctx context.Context) ([]BulkJob, error) {
	jobs, err := m.Control.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	shown := make([]BulkJob, len(jobs))
	for i := range jobs {
		shown[i] = *shownJob(&jobs[i])
	}
	return shown, nil
}

// Job returns a job, or [control.ErrNoJob].
func (m *Many) Job(ctx context.Context, id string) (*BulkJob, error) {
	jobs, err := m.Control.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(jobs, func(j control.Job) bool { return j.ID == id }); i >= 0 {
		return shownJob(&jobs[i]), nil
	}
	return nil, control.ErrNoJob
}

// StopJob has a running job end early. What it has changed stays changed.
func (m *Many) StopJob(ctx context.Context, id, by string) (*BulkJob, error) {
	j, err := m.Control.ChangeJob(ctx, id, func(j *control.Job, _ time.Time) error {
		if j.Status != control.JobRunning {
			return refuse("%s is already %s", id, j.Status)
		}
		j.Stopping = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.note(ctx, control.Entry{By: by, Action: "bulk stop", Subject: id, Detail: j.Filter})
	return shownJob(j), nil
}

// orderFilter checks an order and reads its filter, which ends with what was accepted by now.
func (m *Many) orderFilter(ctx context.Context, o *BulkOrder, now time.Time) (notification.Filter, error) {
	fault := func(field, format string, args ...any) error {
		return &notification.FieldError{Field: field, Message: fmt.Sprintf(format, args...)}
	}
	query, err := url.ParseQuery(o.Filter)
	if err != nil {
		return notification.Filter{}, fault("filter", "is not a query such as status=failed&category=chat: %v", err)
	}
	names := m.Names()
	allowed := map[string][]notification.Status{
		ActionRetry: givenUp, ActionCancel: waiting, ActionMove: slices.Concat(waiting, givenUp),
	}[o.Action]
	switch {
	case allowed == nil:
		return notification.Filter{}, fault("action", "%v",
			oneOf("action", o.Action, []string{ActionRetry, ActionCancel, ActionMove}))
	case query.Has("limit") || query.Has("cursor"):
		return notification.Filter{}, fault("filter", "must have no limit and no cursor: a job goes through all pages")
	case o.Action != ActionMove && o.Channel != "":
		return notification.Filter{}, fault("channel", "is only for a move; to select by channel, put channel= into the filter")
	case o.Action == ActionMove:
		if err := oneOf("channel", o.Channel, names.Channels); err != nil {
			return notification.Filter{}, fault("channel", "%v", err)
		}
	}
	f, err := ParseFilter(ctx, m.Store, query, names, now)
	if err != nil {
		return f, err
	}
	if len(f.Statuses) == 0 {
		f.Statuses = defaultStatuses(o.Action)
	}
	for _, s := range f.Statuses {
		if !slices.Contains(allowed, s) {
			return f, fault("status", "%s can't be changed by %s, which is for %s", s, o.Action, join(allowed))
		}
	}
	if f.Until.IsZero() || f.Until.After(now) {
		f.Until = now.Truncate(time.Microsecond)
	}
	return f, nil
}

// defaultStatuses are those that an action is for when the filter names none.
func defaultStatuses(action string) []notification.Status {
	if action == ActionRetry {
		return givenUp
	}
	return waiting
}

// formatFilter writes a filter as a query that [ParseFilter] reads, the same for the same filter.
func formatFilter(f *notification.Filter) string {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	var statuses []string
	for _, s := range f.Statuses {
		statuses = append(statuses, string(s))
	}
	set("user", f.UserID)
	set("status", strings.Join(statuses, ","))
	set("category", f.Category)
	set("channel", string(f.Channel))
	set("reason", f.Reason)
	set("host", f.Host)
	set("text", f.Text)
	for name, at := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !at.IsZero() {
			set(name, Stamp(at))
		}
	}
	return query.Encode()
}

// hashOf tells texts apart.
func hashOf(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// confirmation binds an order to its filter, the count and the moment of counting.
func confirmation(o *BulkOrder, filter string, count int, at time.Time) string {
	seen := fmt.Sprintf("%d-%d", count, at.Unix())
	return seen + "-" + hashOf(o.Action, filter, o.Channel, seen)[:12]
}

// confirmed reads how many an order's confirmation is for.
func confirmed(o *BulkOrder, now time.Time) (int, error) {
	parts := strings.Split(o.Confirm, "-")
	if len(parts) == 3 {
		count, err := strconv.Atoi(parts[0])
		seconds, err2 := strconv.ParseInt(parts[1], 10, 64)
		at := time.Unix(seconds, 0)
		if errors.Join(err, err2) == nil && confirmation(o, o.Filter, count, at) == o.Confirm {
			if now.Sub(at) > confirmLife {
				return 0, refuse("the count was made at %s, more than %s ago: count again", at.UTC().Format(time.RFC3339),
					confirmLife)
			}
			return count, nil
		}
	}
	return 0, refuse("the confirmation is for another action or filter: count first, then send back confirm and filter unchanged")
}

// join lists statuses in a sentence.
func join(statuses []notification.Status) string {
	names := make([]string, len(statuses))
	for i, s := range statuses {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}
