package desk

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/policy"
)

const (
	// diffUsers is of how many users a comparison looks at what waits, at most.
	diffUsers = 400
	// diffPatience is how long it looks.
	diffPatience = 6 * time.Second
	// diffTolerance is by how much two expected moments may differ and be the same.
	diffTolerance = time.Second
)

// PolicyDiff reports what another policy would change.
type PolicyDiff struct {
	// Version is that of the other policy, InForce of the one in force.
	Version string              `json:"version"`
	InForce string              `json:"in_force"`
	Rules   []policy.Difference `json:"rules"`
	// Users is for how many something waits, Looked of how many of them the figures are. Of the others the figures are
	// estimated.
	Users  int `json:"users"`
	Looked int `json:"looked"`
	// Waiting are the categories in which something waits, by name.
	Waiting []WaitingDiff `json:"waiting"`
	// Refused is why the other policy can't come into force now; empty when it can.
	Refused string `json:"refused,omitempty"`
}

// WaitingDiff reports what another policy would change for what waits in a category.
type WaitingDiff struct {
	Category string `json:"category"`
	// Waiting is how many wait; Sooner, Later, Same and Ended are how many of them would go when, or end undelivered.
	Waiting int `json:"waiting"`
	Sooner  int `json:"sooner"`
	Later   int `json:"later"`
	Same    int `json:"same"`
	Ended   int `json:"ended"`
	// MostSooner and MostLater are the extremes; nil when none goes sooner or later.
	MostSooner *Moved `json:"most_sooner,omitempty"`
	MostLater  *Moved `json:"most_later,omitempty"`
}

// Moved is one notification that would go at another moment.
type Moved struct {
	ID     string    `json:"id"`
	Before time.Time `json:"before"`
	After  time.Time `json:"after"`
}

// by is by how much it would go later.
func (m *Moved) by() time.Duration { return m.After.Sub(m.Before) }

// Diff compares the policy in force with another by what waits: before and after are the same agendas under either. It
// changes nothing. It looks at a few places of each backlog of some hundred users at random, from the first to the
// last, and at all of them when there are no more. So it costs the same however many wait.
func Diff(ctx context.Context, before, after *agenda.Agendas) (*PolicyDiff, error) {
	d := differ{before: outlook.Of(before), after: outlook.Of(after), waiting: map[string]*tally{}}
	users, err := d.before.UsersWaiting(ctx)
	if err != nil {
		return nil, err
	}
	d.Users = users
	until := time.Now().Add(diffPatience)
	for partition := range before.Partitions() {
		share := int(math.Ceil(diffUsers / float64(before.Partitions())))
		some, err := d.before.SampleUsers(ctx, partition, share)
		if err != nil {
			return nil, err
		}
		for _, user := range some {
			if time.Now().After(until) {
				break
			}
			d.Looked++
			if err := d.user(ctx, user); err != nil {
				return nil, err
			}
		}
	}
	d.sum()
	return &d.PolicyDiff, nil
}

// differ is a comparison under way.
type differ struct {
	PolicyDiff

	before, after *outlook.Agendas
	waiting       map[string]*tally
}

// tally is what was found in a category; each of its figures stands for several notifications.
type tally struct {
	waiting, sooner, later, same, ended float64
	mostSooner, mostLater               *Moved
}

// user plays what waits for a user under both policies.
func (d *differ) user(ctx context.Context, user string) error {
	backlogs, err := d.before.Backlogs(ctx, user)
	if err != nil {
		return err
	}
	var ids []string
	weights := map[string]float64{} // for how many one of a category stands
	for _, b := range backlogs {
		if d.waiting[b.Category] == nil {
			d.waiting[b.Category] = &tally{}
		}
		d.waiting[b.Category].waiting += float64(b.Size)
		weights[b.Category] = float64(b.Size) / float64(len(b.IDs))
		ids = append(ids, b.IDs...)
	}
	partition := d.before.PartitionOf(user)
	was, err := d.before.LookupAll(ctx, partition, ids)
	if err != nil {
		return err
	}
	will, err := d.after.LookupAll(ctx, partition, ids)
	if err != nil {
		return err
	}
	after := map[string]*agenda.State{}
	for _, s := range will {
		after[s.ID] = s
	}
	for _, s := range was {
		d.one(s, after[s.ID], weights[s.Category])
	}
	return nil
}

// one compares what becomes of one notification, which stands for so many.
func (d *differ) one(was, will *agenda.State, many float64) {
	of := d.waiting[was.Category]
	if will == nil || !was.Status.Waiting() || !will.Status.Waiting() {
		of.same += many // it has gone meanwhile
		return
	}
	moved := &Moved{ID: was.ID, Before: was.DeliverAt.UTC(), After: will.DeliverAt.UTC()}
	switch {
	case was.Doomed && will.Doomed:
		of.same += many
	case will.Doomed:
		of.ended += many
	case will.DeliverAt.IsZero() && !was.DeliverAt.IsZero(): // its category is gone, until it is back
		of.later += many
	case was.DeliverAt.IsZero() && !will.DeliverAt.IsZero():
		of.sooner += many
	case moved.by().Abs() <= diffTolerance:
		of.same += many
	case moved.by() < 0:
		of.sooner += many
		if of.mostSooner == nil || moved.by() < of.mostSooner.by() {
			of.mostSooner = moved
		}
	default:
		of.later += many
		if of.mostLater == nil || moved.by() > of.mostLater.by() {
			of.mostLater = moved
		}
	}
}

// sum makes the figures of those of the users that were looked at.
func (d *differ) sum() {
	share := 1.0
	if d.Looked > 0 {
		share = math.Max(1, float64(d.Users)/float64(d.Looked))
	}
	all := func(n float64) int { return int(math.Round(n * share)) }
	for category, t := range d.waiting {
		d.Waiting = append(d.Waiting, WaitingDiff{
			Category: category, Waiting: all(t.waiting), Sooner: all(t.sooner), Later: all(t.later), Same: all(t.same),
			Ended: all(t.ended), MostSooner: t.mostSooner, MostLater: t.mostLater,
		})
	}
	slices.SortFunc(d.Waiting, func(a, b WaitingDiff) int { return cmp.Compare(a.Category, b.Category) })
}

// String is the comparison for people, in lines.
func (d *PolicyDiff) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "in force  %s\nFILE      %s\n", d.InForce, d.Version)
	for _, r := range d.Rules {
		fmt.Fprintf(&text, "\n%s\n", cmp.Or(r.Category, "all categories"))
		if r.Before != "" {
			fmt.Fprintf(&text, "  - %s\n", r.Before)
		}
		if r.After != "" {
			fmt.Fprintf(&text, "  + %s\n", r.After)
		}
	}
	if len(d.Rules) == 0 {
		text.WriteString("\nThe limits are the same.\n")
	}
	if len(d.Waiting) == 0 {
		text.WriteString("\nNothing waits.\n")
		return text.String()
	}
	fmt.Fprintf(&text, "\n%-16s %9s %9s %9s %9s %9s\n", "WAITING IN", "ALL", "SOONER", "LATER", "SAME", "ENDED")
	for _, w := range d.Waiting {
		fmt.Fprintf(&text, "%-16s %9d %9d %9d %9d %9d\n", w.Category, w.Waiting, w.Sooner, w.Later, w.Same, w.Ended)
	}
	for _, w := range d.Waiting {
		for _, m := range []*Moved{w.MostSooner, w.MostLater} {
			if m != nil {
				fmt.Fprintf(&text, "%s: %s would go at %s instead of %s\n", w.Category, m.ID, moment(m.After), moment(m.Before))
			}
		}
	}
	if d.Looked < d.Users {
		fmt.Fprintf(&text, "Estimated from %d of %s, picked at random.\n", d.Looked, plural.Of(d.Users, "user", "users"))
	}
	if d.Refused != "" {
		fmt.Fprintf(&text, "\nRefused for now: %s\n", d.Refused)
	}
	return text.String()
}
