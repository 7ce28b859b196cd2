package night_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// nightNow is a policy whose quiet hours have begun an hour ago, and last for three more.
func nightNow() string {
	now := time.Now().UTC()
	return fmt.Sprintf("version: 1\ncategories:\n  default: {}\nwindows: {night: {closed: [{from: %q, to: %q}]}}\n"+
		"quiet_hours: {window: night}\n", now.Add(-time.Hour).Format("15:04"), now.Add(3*time.Hour).Format("15:04"))
}

// ordered are the cases in which somebody wanted it so: an operator, the user, the policy or the producer.
func ordered() []*night {
	return []*night{
		{
			title: "A category is paused", happens: "An operator paused the category chat.",
			trouble: func(d *deployment) {
				d.operate("category chat is paused", "pause", "category", "chat", "--why", "too noisy", "--yes")
				d.post("n1", `,"category":"chat"`)
			},
			user:    "chat: category chat is paused by OPERATOR since TIME (too noisy): nothing goes out until somebody resumes it; 1 queued",
			explain: "category chat is paused by OPERATOR since TIME (too noisy): it waits until somebody resumes it",
			dashboard: []string{
				"Paused: category chat, by OPERATOR DURATION ago: too noisy.",
			},
			alerts: []string{"PacerPausedLong"},
			do:     "Ask who paused it, then `dispatcher resume category chat`.",
		},
		{
			title: "A channel is paused", happens: "An operator paused the channel webhook.",
			trouble: func(d *deployment) {
				d.operate("channel webhook is paused", "pause", "channel", "webhook", "--yes", "--why",
					"the provider moves")
				d.post("n1", "")
			},
			user:    "default: 1 held for the provider; first n1: channel webhook is paused by OPERATOR since TIME (the provider moves): it waits until somebody resumes it",
			explain: "channel webhook is paused by OPERATOR since TIME (the provider moves): it waits until somebody resumes it",
			dashboard: []string{
				"Paused: channel webhook, by OPERATOR DURATION ago: the provider moves.",
			},
			alerts: []string{"PacerPausedLong"},
			do:     "Ask who paused it, then `dispatcher resume channel webhook`.",
		},
		{
			title: "A queue is paused with asynq's tools", happens: "Somebody paused the user's queue with asynq's own tools.",
			prepare: func(d *deployment) { d.env = append(d.env, "PACER_PARTITIONS=1") },
			trouble: func(d *deployment) {
				d.asynqPauses(0)
				d.post("n1", "")
			},
			user:    "partition 0, which has all notifications of this user: partition 0 is paused by asynq's tools since TIME: nothing goes out until somebody resumes it",
			explain: "partition 0 is paused by asynq's tools since TIME: it waits until somebody resumes it",
			dashboard: []string{
				"Paused: partition 0, by asynq's tools DURATION ago.",
			},
			alerts: []string{"PacerPausedLong"},
			do:     "`dispatcher resume partition 0`.",
		},
		{
			title: "The user opted out", happens: "The user does not want the category chat.", postgres: true,
			trouble: func(d *deployment) {
				d.call(http.MethodPut, "/v1/users/ada/preferences", `{"opt_out":{"categories":["chat"]}}`)
				d.post("n1", `,"category":"chat"`)
				d.is("n1", "cancelled")
			},
			calm:    "the user wants it so",
			user:    "chat: the user opted out of category chat: its notifications end as cancelled, reason opted_out. last ended: n1, cancelled: opted_out",
			explain: "cancelled: opted_out",
			do:      "Nothing.",
		},
		{
			title: "The user has a limit of one's own", happens: "The user allows one notification of the category default an hour.",
			postgres: true,
			trouble: func(d *deployment) {
				d.call(http.MethodPut, "/v1/users/ada/preferences", `{"limits":{"default":{"limits":[{"max":1,"per":"1h"}]}}}`)
				d.await("the own limit is in force", func() bool {
					return strings.Contains(d.dispatcher("user", "ada", "--json"), `"in_force": "user"`)
				})
				d.post("n0", "")
				d.is("n0", "delivered")
				d.post("n1", "")
			},
			calm:    "the user wants it so",
			user:    "default: 1 deferred; first n1: deferred by the user's own limit 1/1h, goes out at TIME",
			explain: "deferred by the user's own limit 1/1h, goes out at TIME",
			dashboard: []string{
				"Most deferred: ada, default, 1",
			},
			do: "Nothing.",
		},
		{
			title: "The gap between two is not over", happens: "The category has `min_gap: 1h`, and one has just gone out.",
			policy: "version: 1\ncategories:\n  default: {min_gap: 1h}\n",
			trouble: func(d *deployment) {
				d.post("n0", "")
				d.is("n0", "delivered")
				d.post("n1", "")
			},
			calm:    "the policy wants it so",
			user:    "default: 1 deferred; first n1: deferred by min_gap 1h, goes out at TIME",
			explain: "deferred by min_gap 1h, goes out at TIME",
			dashboard: []string{
				"Most deferred: ada, default, 1",
			},
			do: "Nothing, or shorten the gap in the policy.",
		},
		{
			title: "Quiet hours hold it", happens: "The policy has quiet hours, and it is night where the user is.",
			policy: nightNow(),
			trouble: func(d *deployment) {
				d.post("n1", "")
			},
			calm:    "the policy wants it so",
			user:    "default: 1 deferred; first n1: deferred by quiet hours until CLOCK UTC, goes out at TIME",
			explain: "deferred by quiet hours until CLOCK UTC, goes out at TIME",
			dashboard: []string{
				"Most deferred: ada, default, 1",
			},
			do: "Nothing. What must go at night has a category with `quiet_hours: {then: off}`, or the priority of `exempt_priority`.",
		},
		{
			title: "It is scheduled", happens: "The producer asked for a time that is still to come.",
			trouble: func(d *deployment) {
				d.post("n1", fmt.Sprintf(`,"send_at":%q`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
			},
			calm:    "the producer wants it so",
			user:    "default: 1 scheduled; first n1: scheduled, goes out at TIME; a new one may go now",
			explain: "scheduled, goes out at TIME",
			do:      "Nothing.",
		},
		{
			title: "The user cap is full", happens: "The user has had as many as `user_cap` allows, in other categories.",
			policy: "version: 1\ncategories:\n  default: {}\n  chat: {}\nuser_cap: {limits: [{max: 2, per: 1h}]}\n",
			trouble: func(d *deployment) {
				for _, id := range []string{"c1", "c2"} {
					d.post(id, `,"category":"chat"`)
					d.is(id, "delivered")
				}
				d.post("n1", "")
			},
			calm:    "the policy wants it so",
			user:    "default: 1 deferred; first n1: deferred by user_cap 2/1h, goes out at TIME. chat: nothing waits; the next may go at TIME, because of user_cap 2/1h",
			explain: "deferred by user_cap 2/1h, goes out at TIME",
			dashboard: []string{
				"Most deferred: ada, default, 1",
			},
			do: "Nothing, or loosen `user_cap`.",
		},
		{
			title: "A flood that bypasses the limits", happens: "A producer floods a category with `bypass`, which fills the user cap for all others.",
			policy: "version: 1\ncategories:\n  default: {}\n  security: {bypass: true}\nuser_cap: {limits: [{max: 5, per: 1h}]}\n",
			trouble: func(d *deployment) {
				for i := range 20 {
					id := fmt.Sprint("s", i)
					d.post(id, `,"category":"security"`)
					d.is(id, "delivered")
				}
				d.post("n1", "")
			},
			user:    "default: 1 deferred; first n1: deferred by user_cap 5/1h, goes out at TIME; user_cap 5/1h counts 20: some bypassed the limits",
			explain: "deferred by user_cap 5/1h, goes out at TIME; user_cap 5/1h counts 20: some bypassed the limits",
			dashboard: []string{
				"Most deferred: ada, default, 1",
			},
			calm: "the policy wants it so; `pacer_accepted_total` by category shows the flood",
			do:   "Stop the producer, or take `bypass` from the category.",
		},
		{
			title: "One user is flooded", happens: "A producer sends one user more than a limit lets out.",
			trouble: func(d *deployment) {
				d.post("n0", `,"category":"chat"`)
				d.is("n0", "delivered")
				for i := range 20 {
					d.post(fmt.Sprint("f", i), `,"category":"chat"`)
				}
				d.post("n1", `,"category":"chat"`)
			},
			user:    "chat: 21 deferred; first f0: deferred by limit 1/1h, goes out at TIME",
			explain: "deferred by limit 1/1h, goes out at TIME",
			dashboard: []string{
				"Most deferred: ada, chat, 21",
			},
			calm: "others are not held up; [PacerDeferredTooLong](runbook.md#pacerdeferredtoolong) fires once one has waited for half of `max_defer`",
			do:   "Find the producer, and slow it down; `dispatcher cancel --user ada --category chat` takes back what waits.",
		},
		{
			title: "An operator cancelled it", happens: "An operator cancelled the notification while it waited.",
			trouble: func(d *deployment) {
				d.post("n0", `,"category":"chat"`)
				d.is("n0", "delivered")
				d.post("n1", `,"category":"chat"`)
				d.operate("n1 is cancelled", "cancel", "n1", "--yes")
			},
			calm:    "an operator wants it so",
			user:    "chat: nothing waits; the next may go at TIME, because of limit 1/1h. last ended: n1, cancelled",
			explain: "cancelled by OPERATOR",
			do:      "The audit log says who did it. `dispatcher retry n1` sends it as a new one.",
		},
		{
			title: "A newer one took its place", happens: "A newer notification with the same `collapse_key` came while it waited.",
			trouble: func(d *deployment) {
				d.post("n0", `,"category":"chat"`)
				d.is("n0", "delivered")
				d.post("n1", `,"category":"chat","collapse_key":"score"`)
				d.post("n2", `,"category":"chat","collapse_key":"score"`)
			},
			calm:    "the producer wants it so",
			user:    "chat: 1 deferred; first n2: deferred by limit 1/1h, goes out at TIME",
			explain: "replaced: a newer notification with the same collapse_key took its place",
			dashboard: []string{
				"Most deferred: ada, chat, 1",
			},
			do: "Nothing.",
		},
		{
			title: "Nothing was sent", happens: "The producer sent nothing for this user, or used another id.",
			trouble: func(*deployment) {},
			calm:    "nothing is wrong here",
			user:    "nothing is known about a user with this id: nothing waits, nothing was sent lately, no devices, no preferences",
			explain: "dispatcher: explain n1: no such notification: \"n1\" was never accepted, or ended so long ago that it is no longer kept",
			do:      "Look at the producer: does it send, and with which `user_id`?",
		},
	}
}
