package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/plural"
)

const (
	// bulkPoll is how often a running job is looked at.
	bulkPoll = 300 * time.Millisecond
	// bulkPatience is for how long the looks at it may fail: a store may be slow, or a dispatcher begin anew.
	bulkPatience = time.Minute
)

// bulkVerbs say what a job does, and has done, to its notifications.
var bulkVerbs = map[string][2]string{
	desk.ActionRetry: {"Send again", "sent again"}, desk.ActionCancel: {"Cancel", "cancelled"},
	desk.ActionMove: {"Move", "moved"},
}

// changeMany counts the notifications that a filter selects. Once that is confirmed, it begins the job that changes
// them, and follows it.
func (o *operator) changeMany(ctx context.Context, to streams, s *some, order desk.BulkOrder) error {
	order.Filter, order.Why = s.query().Encode(), s.Why
	var found desk.BulkCount
	if err := o.postBulk(ctx, order, &found); err != nil {
		return err
	}
	size := plural.Of(found.Count, "notification", "notifications")
	if found.More {
		size = "the first " + size + " (there are more; run the command again for these)"
	}
	verb := bulkVerbs[order.Action]
	if found.Count == 0 || s.DryRun {
		_, err := fmt.Fprintf(to.out, "%s would be %s: %s\n", size, verb[1], readable(found.Filter))
		return err
	}
	if prompt := fmt.Sprintf("%s %s (%s)?", verb[0], size, readable(found.Filter)); !o.Yes && !sure(to, prompt) {
		return errNotSure
	}
	order.Filter, order.Confirm = found.Filter, found.Confirm
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
		return refused("not done", status, reply)
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
	for seen := time.Now(); job.Status == control.JobRunning; {
		if live {
			_, _ = fmt.Fprintf(to.err, "\r%s\x1b[K", progress(job)) // likewise
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(bulkPoll):
		}
		again, err := o.look(ctx, job)
		switch {
		case err == nil:
			seen = time.Now()
		case !again || time.Since(seen) > bulkPatience:
			return fmt.Errorf("could not read how far %s has got; dispatcher jobs shows it: %w", job.ID, err)
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
		return fmt.Errorf("%d could not be %s; the latest reasons are above", job.Refused, bulkVerbs[job.Action][1])
	}
	return nil
}

// look reads how far a job is. When it can't, it reports whether to try again.
func (o *operator) look(ctx context.Context, job *desk.BulkJob) (again bool, err error) {
	status, reply, err := o.get(ctx, "/bulk/"+url.PathEscape(job.ID))
	if err != nil {
		return ctx.Err() == nil, err
	}
	return status >= http.StatusInternalServerError, readBulk(status, reply, job)
}

// progress says in a line how far a job is.
func progress(job *desk.BulkJob) string {
	line := fmt.Sprintf("%d of %d %s", job.Done, job.Count, bulkVerbs[job.Action][1])
	if job.Skipped > 0 {
		line += fmt.Sprintf(", %d skipped: no longer matching, or done before", job.Skipped)
	}
	if job.Refused > 0 {
		line += fmt.Sprintf(", %d refused", job.Refused)
	}
	return line
}

type jobsCommand struct {
	operator
	Stop string `name:"stop" env:"-" placeholder:"ID" help:"End this job early. What it has changed stays changed."`
	JSON bool   `name:"json" env:"-" help:"Print JSON, for programs."`
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
	if c.JSON {
		_, err = to.out.Write(reply)
		return err
	}
	if len(jobs) == 0 {
		_, err = fmt.Fprintln(to.err, "There are no jobs: retry, cancel and move with a filter begin one.")
		return err
	}
	t := table{}
	t.add("BEGUN", "STATUS", "ID", "BY", "PROGRESS", "FILTER")
	for i := range jobs {
		j := &jobs[i]
		t.add(second(j.At), string(j.Status), j.ID, printable(j.By), progress(j), printable(readable(j.Filter)))
	}
	return t.write(to.out)
}
