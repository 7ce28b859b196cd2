package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/plural"
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
	p.categories(u.Categories)
	p.field("times in", zoneOf(time.Now()))
	p.field("policy", basis(u.PolicyVersion, u.Zone))
	p.field("partition", strconv.Itoa(u.Partition))
	for _, c := range u.Categories {
		p.waiting(&c)
	}
	for _, pause := range u.Pauses {
		p.field("paused", fmt.Sprintf("%s by %s since %s %s", pause.Subject, pause.By, stamp(pause.At), pause.Why))
	}
	for _, d := range u.Devices {
		p.device(&d)
	}
	p.preferences(u.Preferences)
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

// categories prints a line for each category in which something waits, or a limit is used, and counts the others.
func (p *page) categories(all []desk.UserCategory) {
	shown := table{rows: [][]string{{"CATEGORY", "WAIT", "STATE", "NEXT", "LIMITS"}}}
	folded := 0
	for _, c := range all {
		if c.State == desk.StateFree && !c.Used() {
			folded++
			continue
		}
		next := "–"
		if c.NextAt != nil {
			next = second(*c.NextAt)
		} else if c.MaySendNow {
			next = "now"
		}
		state := strings.ReplaceAll(string(c.State), "_", " ")
		shown.add(c.Category, strconv.Itoa(c.Waits()), state, next, limitsOf(&c))
	}
	if len(shown.rows) > 1 {
		_ = shown.writeWithin(p.w, p.width) // Flush tells
	}
	if folded > 0 {
		_, _ = fmt.Fprintf(p.w, "(%s: nothing waits)\n", plural.Of(folded, "more category", "more categories"))
	}
	_, _ = fmt.Fprintln(p.w)
}

// limitsOf names the limits of a category as they were written, with what is left of each.
func limitsOf(c *desk.UserCategory) string {
	var all []string
	for _, rule := range c.Limits.Rules {
		text := fmt.Sprintf("%s (%d left", strings.TrimPrefix(rule.Rule, "limit "), rule.Remaining)
		if rule.FreesAt != nil && rule.Remaining == 0 {
			text += " until " + second(*rule.FreesAt)
		}
		all = append(all, text+")")
	}
	text := strings.Join(all, ", ")
	if c.Limits.InForce == "user" {
		text += fmt.Sprintf("; the user's own %s for the policy's %s", strings.Join(c.Limits.Own, ", "),
			strings.Join(c.Limits.Policy, ", "))
	}
	return text
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

// device prints one device.
func (p *page) device(d *desk.UserDevice) {
	text := fmt.Sprintf("%s by %s: active", d.ID, d.Channel)
	if !d.Active {
		text = fmt.Sprintf("%s by %s: not active, the provider said %s", d.ID, d.Channel, d.Reason)
		if d.DeactivatedAt != nil {
			text += " at " + stamp(*d.DeactivatedAt)
		}
	}
	if d.Last != nil {
		text += fmt.Sprintf("; last %s at %s with %s", d.Last.Outcome, stamp(d.Last.At), d.Last.NotificationID)
	}
	p.field("device", text)
	if d.Last != nil {
		p.field("", verbatim(d.Last.Reply))
	}
}

// preferences prints what the user wants.
func (p *page) preferences(of *desk.UserPreferences) {
	if of == nil {
		return
	}
	for _, part := range []struct {
		name  string
		names []string
	}{{"categories", of.OptOutCategories}, {"channels", of.OptOutChannels}} {
		if len(part.names) > 0 {
			p.field("opted out", "of the "+part.name+" "+strings.Join(part.names, ", "))
		}
	}
	if of.TimeZone != "" {
		p.field("time zone", of.TimeZone)
	}
	if len(of.QuietHours) > 0 {
		p.field("quiet hours", string(of.QuietHours))
	}
	if of.QuietUntil != nil {
		p.field("quiet until", stamp(*of.QuietUntil))
	}
}

// latest prints one of the latest notifications.
func (p *page) latest(name string, v *desk.Brief) {
	text := fmt.Sprintf("%s %s %s by %s: %s", stamp(v.AcceptedAt), v.ID, v.Category, v.Channel, v.Status)
	if v.Reason != "" && v.Reason != string(v.Status) {
		text += ", " + v.Reason
	}
	p.field(name, text)
	p.field("", v.Detail)
	p.field("", verbatim(v.Reply))
}
