package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
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
	p.field("user", fmt.Sprintf("%s, partition %d", u.UserID, u.Partition))
	p.field("times in", zoneOf(time.Now()))
	p.field("policy", basis(u.PolicyVersion, u.Zone))
	p.field("standing", u.Standing)
	for _, pause := range u.Pauses {
		p.field("paused", fmt.Sprintf("%s by %s since %s %s", pause.Subject, pause.By, stamp(pause.At), pause.Why))
	}
	var free, unlimited []string
	for _, c := range u.Categories {
		if c.State == desk.StateFree && len(c.Waiting) == 0 && len(c.Admitted) == 0 {
			if c.MaySendNow {
				free = append(free, c.Category)
			} else {
				unlimited = append(unlimited, c.Category) // what keeps it from going stands above
			}
			continue
		}
		p.category(&c, strings.Contains(u.Standing, c.Standing))
	}
	if len(free) > 0 {
		p.field("free", strings.Join(free, ", ")+": may send now")
	}
	if len(unlimited) > 0 {
		p.field("free", strings.Join(unlimited, ", ")+": no limit holds the next back")
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

// category prints one category; said is true when its sentence stands on the page already.
func (p *page) category(c *desk.UserCategory, said bool) {
	if said {
		p.field("category", c.Category+": "+strings.ReplaceAll(string(c.State), "_", " "))
	} else {
		p.field("category", c.Category+": "+c.Standing)
	}
	for _, rule := range c.Limits.Rules {
		text := fmt.Sprintf("%s: %d used, %d left", strings.TrimPrefix(rule.Rule, "limit "), rule.Used, rule.Remaining)
		if rule.FreesAt != nil {
			text += ", the next free at " + stamp(*rule.FreesAt)
		}
		p.field("  limit", text)
	}
	if c.Limits.InForce == "user" {
		p.field("  own limits", fmt.Sprintf("%s hold in place of the policy's %s", strings.Join(c.Limits.Own, ", "),
			strings.Join(c.Limits.Policy, ", ")))
	}
	if n := len(c.Admitted); n > 0 {
		p.field("  counted", fmt.Sprintf("%d, the latest at %s", n, stamp(c.Admitted[n-1])))
	}
	for _, item := range c.Waiting {
		text := item.ID + " by " + item.Channel + ": " + item.WaitsFor
		if item.Ahead > 0 {
			text += fmt.Sprintf(", after %d of the user's notifications", item.Ahead)
		}
		p.field("  waits", text)
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
