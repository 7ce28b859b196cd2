package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/desk"
)

// The page of a user begins with the cause, names the limits as they were written, and folds what needs no attention.
func TestTheCauseComesFirst(t *testing.T) {
	t.Parallel()
	next := time.Date(2026, 5, 1, 8, 5, 46, 0, time.Local)
	u := desk.User{
		UserID: "ada", Standing: "1 waits. chat: 1 deferred; first n1: deferred by limit 2/day",
		Categories: []desk.UserCategory{
			{
				Category: "chat", State: desk.StateDeferred, Deferred: 1, NextAt: &next,
				Limits: desk.CategoryLimits{
					InForce: "user", Own: []string{"limit 2/day"}, Policy: []string{"limit 9/day"},
					Rules: []desk.RuleUse{{Rule: "limit 2/day"}, {Rule: "user_cap 20/1h", Remaining: 18}},
				},
				Waiting: []desk.WaitingItem{{ID: "n1", Channel: "log", WaitsFor: "deferred by limit 2/day"}},
			},
			{Category: "default", State: desk.StateFree, MaySendNow: true},
			{Category: "mail", State: desk.StateFree},
		},
	}
	var text strings.Builder
	if err := writePage(&text, func(p *page) { p.user(&u) }); err != nil {
		t.Fatal(err)
	}
	const own = "the user's own limit 2/day for the policy's limit 9/day"
	want := `ada: 1 waits. chat: 1 deferred; first n1: deferred by limit 2/day

CATEGORY  WAIT  STATE     NEXT                 LIMITS
chat      1     deferred  2026-05-01 08:05:46  2/day (0 left), user_cap 20/1h (18 left); ` + own + `
(2 more categories: nothing waits)

`
	rest, found := strings.CutPrefix(text.String(), want)
	if !found || !strings.Contains(rest, "waits         n1 by log: ") {
		t.Errorf("the page is\n%swant first\n%s", text.String(), want)
	}
}
