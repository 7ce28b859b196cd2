package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
)

// bulkPoll is how often a running job is looked at.
const bulkPoll = 300 * time.Millisecond

// bulkVerbs say what a job does, and has done, to its notifications.
var bulkVerbs = map[string][2]string{
	desk.ActionRetry: {"Send again", "sent again"}, desk.ActionCancel: {"Cancel", "cancelled"},
	desk.ActionMove: {"Move", "moved"},
}

// changeMany counts the notifications that a filter selects. Once that is confirmed, it begins the job that changes
// them, and follows it.
func (o *operator) changeMany(ctx context.Context, to streams, s *some, order desk.BulkOrder) error {
	order.Filter, order.Why = s.query().Encode(), s.Why
	var count desk.BulkCount
	if err := o.postBulk(ctx, order, &count); err != nil {
		return err
	}
	size := fmt.Sprintf("%d notifications", count.Count)
	if count.More {
		size = fmt.Sprintf("the first %d notifications (there are more; run the command again for these)", count.Count)
	}
	verb := bulkVerbs[order.Action]
	if count.Count == 0 || s.DryRun {
		_, err := fmt.Fprintf(to.out, "%s would be %s: %s\n", size, verb[1], readable(count.Filter))
		return err
	}
	if prompt := fmt.Sprintf("%s %s (%s)?", verb[0], size, readable(count.Filter)); !o.Yes && !sure(to, prompt) {
		return errNotSure
	}
	order.Filter, order.Confirm = count.Filter, count.Confirm
	var job desk.BulkJob
	if err := o.postBulk(ctx, order, &job); err != nil {
		return err
	}
	return o.follow(ctx, to, &job)
}

// readable shows a filter as people write it.
func readable(query string) string {
	if text, err := url.QueryUnescape(query); err == nil {
		return strings.ReplaceAll(text, "&", " ")
	}
	return query
}

// postBulk posts an order, and reads the reply into what is given.
func (o *operator) postBulk(ctx context.Context, order desk.BulkOrder, into any) error {
	body, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("encode the order: %w", err)
	}
	status, reply, err := o.post(ctx, "/bulk", body)
	if err != nil {
		return err
	}
	return readBulk(status, reply, into)
}

func readBulk(status int, reply []byte, into any) error {
	if status != http.StatusOK {
		return fmt.Errorf("not done: %s", strings.TrimSpace(string(reply)))
	}
	if err := json.Unmarshal(reply, into); err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	return nil
}

// follow shows the progress of a job until it ends. Who interrupts it interrupts the showing only.
func (o *operator) follow(ctx context.Context, to streams, job *desk.BulkJob) error {
	file, isFile := to.err.(*os.File)
	live := isFile && term.IsTerminal(int(file.Fd()))
	_, _ = fmt.Fprintf(to.err, "%s goes on whatever becomes of this command; dispatcher jobs --stop %s ends it early.\n",
		job.ID, job.ID) // the job runs whether this is read or not
	for job.Status == control.JobRunning {
		if live {
			_, _ = fmt.Fprintf(to.err, "\r%s\x1b[K", progress(job)) // likewise
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(bulkPoll):
		}
		status, reply, err := o.get(ctx, "/bulk/"+url.PathEscape(job.ID))
		if err != nil {
			return err
		}
		if err := readBulk(status, reply, job); err != nil {
			return err
		}
	}
	if live {
		_, _ = fmt.Fprint(to.err, "\r\x1b[K") // likewise
	}
	for _, fault := range job.Faults {
		_, _ = fmt.Fprintln(to.err, fault) // likewise
	}
	if _, err := fmt.Fprintf(to.out, "%s: %s\n", job.Status, progress(job)); err != nil {
		return err
	}
	if job.Refused > 0 {
		return fmt.Errorf("%d could not be %s; the latest reasons stand above", job.Refused, bulkVerbs[job.Action][1])
	}
	return nil
}

// progress says in a line how far a job is.
func progress(job *desk.BulkJob) string {
	line := fmt.Sprintf("%d of %d %s", job.Done, job.Count, bulkVerbs[job.Action][1])
	if job.Skipped > 0 {
		line += fmt.Sprintf(", %d skipped: no longer one of these, or done before", job.Skipped)
	}
	if job.Refused > 0 {
		line += fmt.Sprintf(", %d refused", job.Refused)
	}
	return line
}

type jobsCommand struct {
	operator
	Stop string `name:"stop" env:"-" placeholder:"ID" help:"End this job early. What it has changed stays changed."`
}

// Run lists the jobs, or stops one.
func (c *jobsCommand) Run(ctx context.Context, to streams) error {
	if c.Stop != "" {
		status, reply, err := c.post(ctx, "/bulk/"+url.PathEscape(c.Stop)+"/cancel", nil)
		if err != nil {
			return err
		}
		var job desk.BulkJob
		if err := readBulk(status, reply, &job); err != nil {
			return err
		}
		_, err = fmt.Fprintf(to.out, "%s ends: %s\n", job.ID, progress(&job))
		return err
	}
	status, reply, err := c.get(ctx, "/bulk")
	if err != nil {
		return err
	}
	var jobs []desk.BulkJob
	if err := readBulk(status, reply, &jobs); err != nil {
		return err
	}
	w := tabwriter.NewWriter(to.out, 0, 0, 2, ' ', 0)
	for i := range jobs {
		j := &jobs[i]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", clock(j.At), j.Status, j.ID, progress(j), j.By,
			readable(j.Filter)) // Flush tells
	}
	return w.Flush()
}
