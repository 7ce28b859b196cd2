package deployment

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/redismemory"
	"github.com/pacer-notify/pacer/internal/settings"
)

// Desk reports what is asked of the deployment. Besides the pauses that the deployment was told of, it knows those from
// outside that the follower sees, unless that is nil.
func (d *Deployment) Desk(follower *control.Follower) *desk.Desk {
	know := &informant{d.Redis.Client, d.Control, follower, d.Memory}
	return desk.New(desk.Config{
		Store: d.Store, Users: d.Store, Agendas: outlook.Of(d.Agendas), Policy: d.Rules,
		Pauses: know.pauses, Fleet: know.fleet,
		CancelledBy: know.cancelledBy, Endpoint: d.cfg.Directory.Words,
	})
}

// informant tells what processes report, and what operators did.
type informant struct {
	client   redis.UniversalClient
	control  control.Store
	follower *control.Follower // nil where nobody follows
	memory   *redismemory.Watch
}

// pauses are those that the deployment was told of, and those from outside.
func (i *informant) pauses(ctx context.Context) ([]control.Pause, error) {
	pauses, err := i.control.Pauses(ctx)
	if i.follower != nil {
		pauses = append(pauses, i.follower.FromOutside()...)
	}
	return pauses, err
}

// fleet sums up what the processes report. While no process is listed at all, the one that asks has only just started;
// nothing is known then.
func (i *informant) fleet(ctx context.Context) (desk.Fleet, error) {
	listed, err := presence.List(ctx, i.client)
	if err != nil || len(listed) == 0 {
		return desk.Fleet{Workers: 1}, err
	}
	all := desk.Fleet{RedisFull: i.memory != nil && i.memory.Full()}
	for _, p := range listed {
		var report processReport
		if json.Unmarshal(p.Report, &report) != nil {
			report = processReport{} // another version may tell something else
		}
		if slices.Contains(p.Roles, string(settings.RoleWorker)) {
			all.Workers++
			all.InFlight += p.InFlight
			all.Concurrency += report.Concurrency
		}
		if ahead := time.Duration(p.ClockAhead * float64(time.Second)); ahead.Abs() > all.ClockAhead.Abs() {
			all.ClockAhead = ahead
		}
		all.Troubles = append(all.Troubles, report.troubles()...)
	}
	return all, nil
}

// processReport is what this package reads of what a process reports of itself.
type processReport struct {
	Concurrency int
	Channels    []struct {
		Channel string
		Hosts   []push.Host
	}
}

// troubles are the hosts that the process does not call.
func (r *processReport) troubles() (all []desk.Trouble) {
	for _, c := range r.Channels {
		for _, h := range c.Hosts {
			if words := h.Trouble(time.Now()); words != "" {
				all = append(all, desk.Trouble{Channel: c.Channel, Host: h.Host, Words: words})
			}
		}
	}
	return all
}

// cancelledBy looks into the audit log for the operator who cancelled a notification.
func (i *informant) cancelledBy(ctx context.Context, id string) (string, error) {
	entries, err := i.control.Audit(ctx, auditRead)
	for _, e := range entries {
		if e.Action == desk.ActionCancel && e.Subject == id {
			return e.By, nil
		}
	}
	return "", err
}

// auditRead is how many entries of the audit log are searched.
const auditRead = 1000
