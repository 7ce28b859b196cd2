package ops

import (
	"context"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// backlogShown is how many waiting notifications of a category the user page lists.
const backlogShown = 50

// User tells, for each category, what fills the user's windows and what waits.
func (r *Reader) User(ctx context.Context, userID string) ([]UserCategory, error) {
	var categories []UserCategory
	for _, name := range r.Categories() {
		in, err := r.Agendas.Inspect(ctx, dispatch.BacklogOf(userID, name, r.Agendas.Partitions()), backlogShown)
		if err != nil {
			return nil, err
		}
		categories = append(categories, userCategory(name, in))
	}
	return categories, nil
}

func userCategory(name string, in agenda.Inspection) UserCategory {
	c := UserCategory{
		Category: name, Allowed: in.Allowed, NextAllowedAt: in.At.Time().UTC(), Waiting: in.Waiting,
		Deferred: in.Deferred,
	}
	if in.Rule != throttle.NoRule {
		c.Reason = in.Rules[in.Rule].Rule.String()
	}
	for _, r := range in.Rules {
		rule := Rule{Rule: r.Rule.String(), Used: r.Used, Remaining: r.Remaining()}
		if r.FreesAt > 0 {
			rule.FreesAt = r.FreesAt.Time().UTC()
		}
		c.Rules = append(c.Rules, rule)
	}
	for _, at := range in.Admitted {
		c.Admitted = append(c.Admitted, at.Time().UTC())
	}
	for _, waiting := range in.Expected {
		at := waiting.DeliverAt.Time().UTC()
		c.Backlog = append(c.Backlog, Waiting{ID: waiting.ID, DeliverAt: at, Ahead: waiting.Ahead})
	}
	return c
}
