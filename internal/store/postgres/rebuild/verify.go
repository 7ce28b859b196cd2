package rebuild

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/stream"
)

// The ways in which Redis can differ from what Postgres says.
const (
	// DiffEpoch is a partition that has lost its state, or was built on another server. It grants nothing until it is
	// rebuilt.
	DiffEpoch = "epoch"
	// DiffMissing is a notification that has not ended and is not in Redis.
	DiffMissing = "missing"
	// DiffSurplus is a notification that waits in Redis, but has ended or never existed.
	DiffSurplus = "surplus"
	// DiffWindow is an admission that Redis should count and does not.
	DiffWindow = "window"
	// DiffWakeup is a user for whom something waits, without a wake-up that comes in time.
	DiffWakeup = "wake-up"
)

// Difference is a difference between Redis and the database.
type Difference struct {
	// What is one of the constants above.
	What string
	// ID is the id of the notification. For a window it is category:user, or user_cap:user for a user cap; for a
	// wake-up it is the user; for an epoch it is the partition.
	ID string
	// Detail is a sentence for people.
	Detail string
}

// waitingPage is how many notifications that wait in Redis are compared at a time.
const waitingPage = 1000

// Verify compares Redis with the database and calls found with every difference. It changes nothing, and may run while
// the deployment works: what differs is looked at again until it is sure, see [doubts].
func (r *Rebuilder) Verify(ctx context.Context, found func(Difference) error) error {
	v := &verifier{db: r.stores.DB, agendas: r.stores.Agendas, windows: r.windows, found: found}
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error { return r.verifyEpochs(ctx, found) },
		v.verifyOpen, v.verifyWaiting, v.verifyWindows,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// verifyEpochs finds partitions that are not in the state that the database knows.
func (r *Rebuilder) verifyEpochs(ctx context.Context, found func(Difference) error) error {
	identity, err := r.stores.Agendas.Identity(ctx)
	if err != nil {
		return err
	}
	_, partitions, err := r.lost(ctx, identity, false)
	if err != nil {
		return err
	}
	for _, partition := range partitions {
		detail := "has lost its state, or was built on another server or from another database; it is about to be rebuilt"
		if err := found(Difference{What: DiffEpoch, ID: strconv.Itoa(partition), Detail: detail}); err != nil {
			return err
		}
	}
	return nil
}

// verifier compares what the partitions hold.
type verifier struct {
	db      limited.DB
	agendas *maintenance.Agendas
	windows func(userID string) time.Duration
	found   func(Difference) error
	// inFlight are the admissions of deliveries that were in flight when verifyOpen came by.
	inFlight []stream.Admission
}

// report reports a difference about a notification or a user.
func (v *verifier) report(what, id, detail string) error {
	return v.found(Difference{What: what, ID: id, Detail: detail})
}

// displacement is a notification that has not ended, and where it stands in Redis: in no place that leads to its end.
type displacement struct {
	stream.Open
	standing maintenance.Standing
}

// verifyOpen finds notifications that have not ended and are not in Redis.
func (v *verifier) verifyOpen(ctx context.Context) error {
	missing := doubts[displacement]{look: v.displacedAgain, found: func(d displacement) error {
		detail := fmt.Sprintf("is %s in Postgres, unknown to Redis", d.Status)
		if d.standing.Status != "" {
			detail = fmt.Sprintf(
				"is %s in Postgres; its entry in Redis says %s, but it is in no backlog and no worker has it",
				d.Status, d.standing.Status)
		}
		return v.report(DiffMissing, d.ID, detail)
	}}
	if err := stream.EachOpen(ctx, v.db, func(page []stream.Open) error {
		v.inFlight = append(v.inFlight, stream.InFlight(page)...)
		displaced, err := v.displaced(ctx, page)
		if err != nil {
			return err
		}
		return missing.add(ctx, displaced...)
	}); err != nil {
		return err
	}
	return missing.settle(ctx)
}

// displaced returns the notifications, of some that have not ended, that should be in Redis and are not.
func (v *verifier) displaced(ctx context.Context, all []stream.Open) (displaced []displacement, err error) {
	all = slices.DeleteFunc(all, func(o stream.Open) bool { return o.Unchecked || o.Coming || o.Status.Ended() })
	entries := make([]agenda.Entry, len(all))
	for i := range all {
		entries[i] = all[i].Entry
	}
	standings, err := v.agendas.Find(ctx, entries)
	for i, s := range standings {
		if !s.Placed() {
			displaced = append(displaced, displacement{all[i], s})
		}
	}
	return displaced, err
}

// displacedAgain returns those that are still displaced. It reads their rows before and after it looks at Redis:
// Postgres learns of a step first, so one whose row is the same at both times took none that Redis could know of.
func (v *verifier) displacedAgain(ctx context.Context, suspects []displacement) ([]displacement, error) {
	ids := make([]string, len(suspects))
	for i := range suspects {
		ids[i] = suspects[i].ID
	}
	before, err := stream.LookUp(ctx, v.db, ids, true)
	if err != nil {
		return nil, err
	}
	displaced, err := v.displaced(ctx, before)
	if err != nil || len(displaced) == 0 {
		return nil, err
	}
	after, err := stream.LookUp(ctx, v.db, ids, true)
	if err != nil {
		return nil, err
	}
	versions := make(map[string]string, len(after))
	for i := range after {
		if !after[i].Status.Ended() {
			versions[after[i].ID] = after[i].Version
		}
	}
	return slices.DeleteFunc(displaced, func(d displacement) bool { return versions[d.ID] != d.Version }), nil
}

// surplus is a notification that waits in Redis, and its status in Postgres, where it has ended.
type surplus struct {
	agenda.Entry
	status notification.Status
}

// verifyWaiting finds notifications that wait in Redis although they have ended, and users without a wake-up.
func (v *verifier) verifyWaiting(ctx context.Context) error {
	ended := doubts[surplus]{look: v.surplusAgain, found: func(s surplus) error {
		return v.report(DiffSurplus, s.ID, fmt.Sprintf("waits in Redis, is %s in Postgres", s.status))
	}}
	asleep := doubts[string]{look: v.asleep, found: func(user string) error {
		return v.report(DiffWakeup, user, "something waits, but no wake-up is set for it in time")
	}}
	err := v.agendas.EachWaiting(ctx, waitingPage, func(page []maintenance.Waiting) error {
		some, err := v.ended(ctx, page)
		if err != nil {
			return err
		}
		var users []string
		for _, w := range page {
			if !slices.Contains(users, w.UserID) && !slices.Contains(asleep.suspects, w.UserID) {
				users = append(users, w.UserID)
			}
		}
		if users, err = v.asleep(ctx, users); err != nil {
			return err
		}
		if err := ended.add(ctx, some...); err != nil {
			return err
		}
		return asleep.add(ctx, users...)
	})
	if err != nil {
		return err
	}
	if err := ended.settle(ctx); err != nil {
		return err
	}
	return asleep.settle(ctx)
}

// ended returns those that have ended or never existed. What is in the outbox the relay removes.
func (v *verifier) ended(ctx context.Context, page []maintenance.Waiting) (all []surplus, err error) {
	ids := make([]string, len(page))
	for i := range page {
		ids[i] = page[i].ID
	}
	rows, err := stream.LookUp(ctx, v.db, ids, false)
	if err != nil {
		return nil, err
	}
	known := make(map[string]*stream.Open, len(rows))
	for i := range rows {
		known[rows[i].ID] = &rows[i]
	}
	for _, w := range page {
		entry := agenda.Entry{ID: w.ID, UserID: w.UserID, Category: w.Category}
		switch o := known[w.ID]; {
		case o == nil:
			all = append(all, surplus{entry, "unknown"})
		case o.Status.Ended() && !o.Coming:
			all = append(all, surplus{entry, o.Status})
		}
	}
	return all, nil
}

// surplusAgain returns those that still wait in Redis. An end in Postgres is for ever.
func (v *verifier) surplusAgain(ctx context.Context, suspects []surplus) (still []surplus, err error) {
	entries := make([]agenda.Entry, len(suspects))
	for i := range suspects {
		entries[i] = suspects[i].Entry
	}
	standings, err := v.agendas.Find(ctx, entries)
	for i, s := range standings {
		if s.InLine || s.Later {
			still = append(still, suspects[i])
		}
	}
	return still, err
}

// asleep returns the users, of some, who have no wake-up that comes in time.
func (v *verifier) asleep(ctx context.Context, users []string) (asleep []string, err error) {
	awake, err := v.agendas.Awake(ctx, users)
	for i, well := range awake {
		if !well {
			asleep = append(asleep, users[i])
		}
	}
	return asleep, err
}
