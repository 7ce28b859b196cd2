package player

import (
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// ReasonOf names what decides when something may go, as programs read it: a rule of the plan, such as limit 10/1m, or
// [notification.ReasonQuietHours]; "" when nothing does.
func ReasonOf(plan throttle.Plan, by throttle.Cause) string {
	if by.Closed {
		return notification.ReasonQuietHours
	}
	return besideOf(plan, by)
}

// besideOf names the rule that decides, or would decide without closed intervals.
func besideOf(plan throttle.Plan, by throttle.Cause) string {
	if by.Rule == throttle.DigestRule {
		return notification.ReasonDigest
	}
	if by.Rule < 0 || by.Rule >= len(plan.Rules) { // the plan may have changed since
		return ""
	}
	return plan.Rules[by.Rule].String()
}

// The labels of users' own limits, and of their own gaps.
const (
	ownLimit = "own limit"
	ownGap   = "own min_gap"
)

// RuleLabel is [ReasonOf] for metrics. Users' own rules have one label of each kind: each user may have others,
// and with a label of each the series would never end.
func (s Settings) RuleLabel(by throttle.Cause) string {
	if s.OwnLimits && !by.Closed && by.Rule >= 0 && by.Rule < len(s.Plan.CategoryRules()) {
		if s.Plan.Rules[by.Rule].Kind == throttle.KindGap {
			return ownGap
		}
		return ownLimit
	}
	return ReasonOf(s.Plan, by)
}

// Explain says what a reason does not: until when quiet hours last, by the clock of the user, and which rule would
// decide without them. Of a rule there is no more to say.
func (s Settings) Explain(by throttle.Cause, now, until time.Time) string {
	if !by.Closed {
		return ""
	}
	return "quiet hours until " + s.wallClock(now, until) + s.then(by)
}

// ExplainDrop says that quiet hours until a moment will end what is due in them.
func (s Settings) ExplainDrop(now, due, until time.Time) string {
	return "due at " + due.UTC().Format(time.RFC3339Nano) + ", in quiet hours until " + s.wallClock(now, until) +
		", which end it: then: drop"
}

// then names the rule that would decide without closed intervals, after what is said of these.
func (s Settings) then(by throttle.Cause) string {
	if beside := besideOf(s.Plan, by); by.Closed && beside != "" {
		return "; then " + beside
	}
	return ""
}

// wallClock writes a moment as the user's clock shows it: 08:04 Europe/Vienna within a day, else with the date.
func (s Settings) wallClock(now, at time.Time) string {
	zone := s.Zone
	if zone == nil {
		zone = time.UTC
	}
	layout := "15:04 "
	if at.Sub(now) >= 24*time.Hour {
		layout = "Mon 2006-01-02 15:04 "
	}
	return at.In(zone).Format(layout) + zone.String()
}

// DeferralWords say of a deferral until when it was, and by what.
func (s Settings) DeferralWords(by throttle.Cause, at, until time.Time) string {
	words := "until " + until.UTC().Format(time.RFC3339Nano)
	if by.Closed {
		words += ", " + s.wallClock(at, until)
	}
	return words + ": " + ReasonOf(s.Plan, by) + s.then(by)
}
