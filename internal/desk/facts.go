package desk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/plural"
)

// Fact is something that is known of a user, for people: a sentence, and what it is about.
type Fact struct {
	Name, Text string
	// Reply is what a provider said, word for word; "" for nothing.
	Reply string
}

// Facts are what operators and the user want, and the user's devices.
func (u *User) Facts() []Fact {
	var all []Fact
	for _, pause := range u.Pauses {
		text := fmt.Sprintf("%s by %s since %s %s", pause.Subject, pause.By, Stamp(pause.At), pause.Why)
		all = append(all, Fact{Name: "paused", Text: strings.TrimSpace(text)})
	}
	for _, d := range u.Devices {
		all = append(all, d.fact())
	}
	return append(all, u.Preferences.facts()...)
}

func (d *UserDevice) fact() Fact {
	text, reply := fmt.Sprintf("%s by %s: active", d.ID, d.Channel), ""
	if !d.Active {
		text = fmt.Sprintf("%s by %s: not active, the provider said %s", d.ID, d.Channel, d.Reason)
		if d.DeactivatedAt != nil {
			text += " at " + Stamp(*d.DeactivatedAt)
		}
	}
	if d.Last != nil {
		text += fmt.Sprintf("; last %s at %s with %s", d.Last.Outcome, Stamp(d.Last.At), d.Last.NotificationID)
		reply = d.Last.Reply
	}
	return Fact{Name: "device", Text: text, Reply: reply}
}

func (p *UserPreferences) facts() (all []Fact) {
	if p == nil {
		return nil
	}
	add := func(name, text string) { all = append(all, Fact{Name: name, Text: text}) }
	if len(p.OptOutCategories) > 0 {
		add("opted out", "of the categories "+strings.Join(p.OptOutCategories, ", "))
	}
	if len(p.OptOutChannels) > 0 {
		add("opted out", "of the channels "+strings.Join(p.OptOutChannels, ", "))
	}
	if p.TimeZone != "" {
		add("time zone", p.TimeZone)
	}
	if len(p.QuietHours) > 0 {
		add("quiet hours", string(p.QuietHours))
	}
	if p.QuietUntil != nil {
		add("quiet until", Stamp(*p.QuietUntil))
	}
	return all
}

// InUse are the categories in which something waits, or that are not free, or whose limits count something.
func (u *User) InUse() []UserCategory {
	return slices.DeleteFunc(slices.Clone(u.Categories), func(c UserCategory) bool {
		return c.State == StateFree && !c.Used()
	})
}

// Folded counts the other categories; "" when there are none.
func (u *User) Folded() string {
	if n := len(u.Categories) - len(u.InUse()); n > 0 {
		return plural.Of(n, "more category", "more categories") + ": nothing waits"
	}
	return ""
}

// Words is the state as people write it.
func (s State) Words() string { return strings.ReplaceAll(string(s), "_", " ") }

// LimitsText names the limits of a category as they were written, with what is left of each.
func (c UserCategory) LimitsText() string {
	var all []string
	for _, rule := range c.Limits.Rules {
		text := fmt.Sprintf("%s (%d left", strings.TrimPrefix(rule.Rule, "limit "), rule.Remaining)
		if rule.FreesAt != nil && rule.Remaining == 0 {
			text += " until " + Stamp(rule.FreesAt.Truncate(time.Second))
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

// Stamp writes a moment for a sentence. Whoever shows the sentence writes it by the reader's clock.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
