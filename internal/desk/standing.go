package desk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/patience"
	"github.com/pacer-notify/pacer/internal/plural"
)

// State says in one word where a user stands in a category.
type State string

// The states. Of several that hold, the one that decides: people's orders first, then what the first in line waits for.
const (
	StateFree      State = "free"      // nothing waits, and the next may go at once
	StateLimited   State = "limited"   // nothing waits, and a limit makes the next wait
	StateQueued    State = "queued"    // the first goes as soon as a worker takes it
	StateDeferred  State = "deferred"  // the first waits for its slot
	StateScheduled State = "scheduled" // the first waits for its send_at
	StateRetrying  State = "retrying"  // the first waits for its next attempt
	StateHeld      State = "held"      // the first waits for its provider
	StateRemoved   State = "removed"   // the policy does not name the category
	StatePaused    State = "paused"    // operators paused it
	StateOptedOut  State = "opted_out" // the user does not want it
)

// situation is what decides about a user besides what waits.
type situation struct {
	now         time.Time
	userID      string
	partition   int
	pauses      []control.Pause
	preferences *notification.Preferences // nil where the store keeps none
	policy      Policy
	fleet       Fleet
	// redisAway says that Redis did not tell in time; nobody knows then what waits.
	redisAway bool
}

// situation reads what decides about a user besides what waits.
func (d *Desk) situation(ctx context.Context, userID string) (*situation, error) {
	s := &situation{
		now: d.cfg.Now(), userID: userID, partition: d.cfg.Agendas.PartitionOf(userID), policy: d.cfg.Policy,
		fleet: Fleet{Workers: 1},
	}
	var err error
	if s.pauses, err = d.cfg.Pauses(ctx); err != nil {
		return nil, err
	}
	if d.cfg.Users != nil {
		if s.preferences, err = d.cfg.Users.Preferences(ctx, userID); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// situationNow is the situation, and what the processes report.
func (d *Desk) situationNow(ctx context.Context, userID string) (*situation, error) {
	s, err := d.situation(ctx, userID)
	if err != nil {
		return nil, err
	}
	s.fleet, err = patience.Ask(ctx, d.cfg.RedisPatience, d.cfg.Fleet)
	s.redisAway = err != nil
	return s, nil
}

// hasPreferences reports whether the user ever set any.
func (s *situation) hasPreferences() bool {
	return s.preferences != nil && !s.preferences.UpdatedAt.IsZero()
}

// pauseOf returns the pause of a subject, or nil.
func (s *situation) pauseOf(kind control.Kind, name string) *control.Pause {
	for i, p := range s.pauses {
		if p.Kind == kind && p.Name == name {
			return &s.pauses[i]
		}
	}
	return nil
}

// pause returns what stops a category of the user and, unless it is "", a channel; nil when nothing does.
func (s *situation) pause(category, channel string) *control.Pause {
	return cmp.Or(s.pauseOf(control.Category, category), s.pauseOf(control.Partition, strconv.Itoa(s.partition)),
		s.pauseOf(control.Channel, channel))
}

// concerning lists the pauses that concern a user: every category's, that of the user's partition, and those of the
// channels of what waits and of the user's devices.
func (s *situation) concerning(u *User) []control.Pause {
	channels := map[string]bool{}
	for _, c := range u.Categories {
		for _, item := range c.Waiting {
			channels[item.Channel] = true
		}
	}
	for _, device := range u.Devices {
		channels[device.Channel] = true
	}
	concerning := []control.Pause{}
	for _, p := range s.pauses {
		if p.Kind == control.Category || p.Kind == control.Channel && channels[p.Name] ||
			p.Kind == control.Partition && p.Name == strconv.Itoa(s.partition) {
			p.At = utc(p.At)
			concerning = append(concerning, p)
		}
	}
	return concerning
}

// optedOut says what the user opted out of that a notification has; "" when of nothing. Without a channel it asks for
// the category only.
func (s *situation) optedOut(category, channel string) string {
	switch {
	case s.preferences == nil:
	case slices.Contains(s.preferences.OptOutCategories, category):
		return "the user opted out of category " + category
	case channel != "" && slices.Contains(s.preferences.OptOutChannels, channel):
		return "the user opted out of channel " + channel
	}
	return ""
}

// moment writes a time in a sentence. The command line finds these, and writes them in the reader's zone.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// removedWords tell why a category is held that the policy does not name.
const removedWords = "the policy does not name the category (" + notification.ReasonRemoved + ")"

// removed reports whether the policy does not name a category.
func (s *situation) removed(category string) bool {
	return s.policy.Settings(s.userID, category).Removed
}

// pausedBy says who paused what, since when and why.
func pausedBy(p *control.Pause) string {
	text := fmt.Sprintf("%s is paused by %s since %s", p.Subject, p.By, moment(p.At))
	if p.Why != "" {
		text += " (" + p.Why + ")"
	}
	return text
}

// category says where the user stands in a category.
func (s *situation) category(w outlook.UserWaiting, windows *outlook.UserWindows,
	views []*notification.View,
) UserCategory {
	c := UserCategory{
		Category: w.Category, Queued: w.Backlog - w.Deferred, Deferred: w.Deferred, Scheduled: w.Scheduled,
		Retrying: w.Retrying, Held: w.Held, Waiting: []WaitingItem{}, Limits: s.limits(w.Category, windows),
	}
	for _, at := range windows.Admitted {
		c.Admitted = append(c.Admitted, utc(at.Time()))
	}
	var first wait
	var firstID string
	for _, v := range views {
		if !v.Status.Waiting() {
			continue
		}
		one := s.waitOf(v)
		c.Waiting = append(c.Waiting, WaitingItem{
			ID: v.ID, Channel: string(v.Channel), Status: v.Status, DeliverAt: optional(one.at), Ahead: v.Ahead,
			WaitsFor: one.words,
		})
		if firstID == "" || first.at.IsZero() && !one.at.IsZero() || !one.at.IsZero() && one.at.Before(first.at) {
			first, firstID = one, v.ID
		}
	}
	s.conclude(&c, windows, first, firstID)
	return c
}

// conclude fills in the state, the sentence, and when the next goes.
func (s *situation) conclude(c *UserCategory, windows *outlook.UserWindows, first wait, firstID string) {
	out, p := s.optedOut(c.Category, ""), s.pause(c.Category, "")
	bypasses := s.policy.Settings(s.userID, c.Category).BypassFrom >= notification.PriorityLow
	switch {
	case out != "":
		c.State = StateOptedOut
		c.Standing = out + ": its notifications end as cancelled, reason " + notification.ReasonOptedOut
	case s.removed(c.Category):
		c.State, c.Standing = StateRemoved, removedWords+": nothing goes out until it is back"
		if c.Waits() > 0 {
			c.Standing += "; " + c.counts()
		}
	case p != nil:
		c.State, c.Standing = StatePaused, pausedBy(p)+": nothing goes out until somebody resumes it"
		if c.Waits() > 0 {
			c.Standing += "; " + c.counts()
		}
	case firstID != "":
		c.State, c.NextAt = first.state, optional(first.at)
		c.MaySendNow = first.state != StatePaused && first.state != StateOptedOut && c.Queued+c.Deferred == 0 &&
			(windows.Allowed || bypasses) && s.obstacle() == ""
		c.Standing = c.counts() + "; first " + firstID + ": " + first.words
		if first.state == StateDeferred {
			c.Standing += overused(windows)
		}
		if c.MaySendNow {
			c.Standing += "; a new one may go now"
		}
	case c.Waits() > 0:
		c.State, c.Standing = StateQueued, c.counts()
	case (bypasses || windows.Allowed) && s.obstacle() != "":
		c.State, c.Standing = StateFree, "no limit holds the next one back, but "+s.obstacle()
	case bypasses:
		c.State, c.Standing, c.MaySendNow = StateFree, "may send now: the category bypasses the limits", true
	case windows.Allowed:
		c.State, c.Standing, c.MaySendNow = StateFree, "may send now", true
	default:
		next := windows.At.Time()
		c.State, c.NextAt = StateLimited, optional(next)
		if windows.Cause.Closed && s.policy.Settings(s.userID, c.Category).Drops {
			c.Standing = "nothing waits; until " + moment(next) + " each new one ends as expired, because of " +
				s.because(c.Category, windows) + ", then: drop"
			break
		}
		c.Standing = "nothing waits; the next may go at " + moment(next) + ", because of " +
			s.because(c.Category, windows)
	}
}

// counts says how many wait, and for what.
func (c *UserCategory) counts() string {
	var parts []string
	for _, part := range []struct {
		n    int
		name string
	}{
		{c.Queued, "queued"},
		{c.Deferred, "deferred"},
		{c.Scheduled, "scheduled"},
		{c.Retrying, "retrying"},
		{c.Held, "held for the provider"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.name))
		}
	}
	return strings.Join(parts, ", ")
}

// overused names the rules that count more than they allow; "" when none does.
func overused(windows *outlook.UserWindows) (text string) {
	for _, r := range windows.Rules {
		if r.Used > r.Rule.Max {
			text += fmt.Sprintf("; %s counts %d: some bypassed the limits", r.Rule, r.Used)
		}
	}
	return text
}

// because names what makes the next wait.
func (s *situation) because(category string, windows *outlook.UserWindows) string {
	settings := s.policy.Settings(s.userID, category)
	return cmp.Or(settings.Explain(windows.Cause, windows.Now.Time(), windows.At.Time()),
		player.ReasonOf(settings.Plan, windows.Cause), "the limits")
}

// limits shows the rules in force, and those of the policy and of the user.
func (s *situation) limits(category string, windows *outlook.UserWindows) CategoryLimits {
	l := CategoryLimits{InForce: "policy", Rules: []RuleUse{}, Policy: []string{}}
	for _, r := range windows.Rules {
		rule := RuleUse{Rule: r.Rule.String(), Used: r.Used, Remaining: r.Remaining()}
		if r.FreesAt > 0 {
			rule.FreesAt = optional(r.FreesAt.Time())
		}
		l.Rules = append(l.Rules, rule)
	}
	of, own := s.policy.Settings("", category).Plan, s.policy.Settings(s.userID, category).Plan
	for _, r := range of.CategoryRules() {
		l.Policy = append(l.Policy, r.String())
	}
	if !slices.Equal(of.Rules, own.Rules) {
		l.InForce = "user"
		for _, r := range own.CategoryRules() {
			l.Own = append(l.Own, r.String())
		}
	}
	return l
}

// severity orders the states of categories: what people ordered, then what goes wrong, then what waits.
var severity = []State{
	StateRemoved, StatePaused, StateOptedOut, StateHeld, StateRetrying, StateDeferred, StateQueued, StateScheduled,
	StateLimited,
}

// standingsShown is how many categories the user's own sentence names.
const standingsShown = 3

// standing says first how many wait, then in a sentence what holds the user's notifications back, or went wrong last.
func (u *User) standing(s *situation) string {
	var parts []string
	if n := u.waiting(); n > 0 {
		parts = append(parts, plural.Of(n, "waits", "wait"))
	}
	if obstacle := s.obstacle(); obstacle != "" {
		parts = append(parts, obstacle)
	}
	if p := u.pauseOfPartition(); p != nil {
		parts = append(parts, "partition "+p.Name+", which has all notifications of this user: "+pausedBy(p)+
			": nothing goes out until somebody resumes it")
	} else {
		parts = append(parts, u.worst()...)
	}
	if device := u.lacksDevices(); device != "" {
		parts = append(parts, device)
	}
	if last := u.lastFault(); last != "" {
		parts = append(parts, last)
	}
	if clocks := s.fleet.clocks(); clocks != "" {
		parts = append(parts, clocks)
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ". ")
	case !u.Known:
		return "nothing is known about a user with this id: nothing waits, nothing was sent lately, no devices, no preferences"
	}
	return "nothing waits, and nothing holds this user's notifications back"
}

func (u *User) pauseOfPartition() *control.Pause {
	for i, p := range u.Pauses {
		if p.Kind == control.Partition {
			return &u.Pauses[i]
		}
	}
	return nil
}

// waiting counts what waits in all categories.
func (u *User) waiting() (n int) {
	for _, c := range u.Categories {
		n += c.Waits()
	}
	return n
}

// worst returns the sentences of the categories that are not free, the worst first. A pause or an opt-out of a category
// counts whether something waits in it or not; what a limit would do with the next one, only while nothing waits.
func (u *User) worst() (parts []string) {
	left := 0
	for _, state := range severity {
		for _, c := range u.Categories {
			switch {
			case c.State != state:
			case state == StateLimited && (!u.Known || u.waiting() > 0): // quiet hours hold for unknown ones, too
			case len(parts) < standingsShown:
				parts = append(parts, c.Category+": "+c.Standing)
			default:
				left++
			}
		}
	}
	if left > 0 {
		parts = append(parts, plural.Of(left, "more category holds something back",
			"more categories hold something back"))
	}
	return parts
}

// lacksDevices names the channels on which all devices are gone.
func (u *User) lacksDevices() string {
	active, gone := map[string]bool{}, map[string]bool{}
	for _, device := range u.Devices {
		active[device.Channel] = active[device.Channel] || device.Active
		gone[device.Channel] = gone[device.Channel] || !device.Active
	}
	var without []string
	for channel := range gone {
		if !active[channel] {
			without = append(without, channel)
		}
	}
	if len(without) == 0 {
		return ""
	}
	slices.Sort(without)
	return "no active device on " + strings.Join(without, ", ") + ": a notification without a target fails there, reason " +
		"permanent: no_device"
}

// lastFault reports how the latest notification ended, when it was not delivered.
func (u *User) lastFault() string {
	for _, v := range u.Latest {
		if !v.Status.Ended() {
			continue
		}
		if v.Status == notification.StatusDelivered || v.Status == notification.StatusReplaced {
			return ""
		}
		text := fmt.Sprintf("last ended: %s, %s", v.ID, v.Status)
		if v.Reason != string(v.Status) {
			text += ": " + v.Reason
		}
		if more := v.Detail + v.Reply; more != "" {
			text += " (" + more + ")"
		}
		return text
	}
	return ""
}
