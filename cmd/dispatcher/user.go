package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/desk"
)

type userCommand struct {
	opsClient
	User string `arg:"" help:"Id of the user."`
	JSON bool   `help:"Print JSON, with times in UTC."`
}

// Run shows everything that decides whether a user's notifications go out.
func (c *userCommand) Run(ctx context.Context, to streams) error {
	body, err := c.look(ctx, "user", "/user/", c.User, "")
	if err != nil {
		return err
	}
	if c.JSON {
		_, err = to.out.Write(body)
		return err
	}
	var u desk.User
	if err := json.Unmarshal(body, &u); err != nil {
		return fmt.Errorf("read what is known of user %s: %w", c.User, err)
	}
	return writePage(to.out, func(p *page) { p.user(&u) })
}

func (p *page) user(u *desk.User) {
	p.cause(u.UserID, u.Standing)
	p.categories(u)
	p.field("times in", zoneOf(time.Now()))
	p.field("policy", basis(u.PolicyVersion, u.Zone))
	p.field("partition", strconv.Itoa(u.Partition))
	for _, c := range u.Categories {
		p.waiting(&c)
	}
	for _, fact := range u.Facts() {
		p.field(fact.Name, fact.Text)
		p.field("", verbatim(fact.Reply))
	}
	for i, v := range u.Latest {
		name := ""
		if i == 0 {
			name = "latest"
		}
		p.latest(name, &v)
	}
	for _, note := range u.Notes {
		p.field("note", note)
	}
}

// categories prints a line for each category in use, and counts the others.
func (p *page) categories(u *desk.User) {
	shown := table{rows: [][]string{{"CATEGORY", "WAIT", "STATE", "NEXT", "LIMITS"}}}
	for _, c := range u.InUse() {
		next := "–"
		if c.NextAt != nil {
			next = second(*c.NextAt)
		} else if c.MaySendNow {
			next = "now"
		}
		shown.add(c.Category, strconv.Itoa(c.Waits()), c.State.Words(), next, localTimes(c.LimitsText()))
	}
	if len(shown.rows) > 1 {
		_ = shown.writeWithin(p.w, p.width) // Flush tells
	}
	if folded := u.Folded(); folded != "" {
		_, _ = fmt.Fprintf(p.w, "(%s)\n", folded)
	}
	_, _ = fmt.Fprintln(p.w)
}

// waiting prints the first of what waits in a category.
func (p *page) waiting(c *desk.UserCategory) {
	for _, item := range c.Waiting {
		text := item.ID + " by " + item.Channel + ": " + item.WaitsFor
		if item.Ahead > 0 {
			text += fmt.Sprintf(", after %d of the user's notifications", item.Ahead)
		}
		p.field("waits", text)
	}
}

// latest prints one of the latest notifications.
func (p *page) latest(name string, v *desk.Brief) {
	text := fmt.Sprintf("%s %s %s by %s: %s", desk.Stamp(v.AcceptedAt), v.ID, v.Category, v.Channel, v.Status)
	if v.Reason != "" && v.Reason != string(v.Status) {
		text += ", " + v.Reason
	}
	p.field(name, text)
	p.field("", v.Detail)
	p.field("", verbatim(v.Reply))
}
