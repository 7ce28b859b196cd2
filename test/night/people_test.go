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
			title: "A category is paused",
			trouble: func(d *deployment) {
				d.operate("category chat is paused", "pause", "category", "chat", "--why", "too noisy", "--yes")
				d.post("n1", `,"category":"chat"`)
			},
			alerts: []string{"PacerPausedLong"},
			do:     "Ask the person, then run `dispatcher resume category NAME`.",
		},
		{
			title: "Its category was removed from the policy",
			trouble: func(d *deployment) {
				d.behind(`,"category":"chat"`)
				d.dispatcher("policy", "apply", d.file("without.yaml", withoutChat), "--force", "--yes")
				d.await("it is held", func() bool { return strings.Contains(d.explain("n1"), "category_removed") })
			},
			alerts: []string{"PacerPausedLong"},
			do:     "Put the category back, or cancel what waits: `dispatcher cancel --category NAME`.",
		},
		{
			title: "A channel is paused",
			trouble: func(d *deployment) {
				d.operate("channel webhook is paused", "pause", "channel", "webhook", "--yes", "--why",
					"the provider moves")
				d.post("n1", "")
			},
			alerts: []string{"PacerPausedLong"},
			do:     "Ask the person, then run `dispatcher resume channel NAME`.",
		},
		{
			title:   "A queue is paused with asynq's tools",
			prepare: func(d *deployment) { d.env = append(d.env, "PACER_PARTITIONS=1") },
			trouble: func(d *deployment) {
				d.asynqPauses(0)
				d.post("n1", "")
			},
			alerts: []string{"PacerPausedLong"},
			do:     "Run `dispatcher resume partition N`.",
		},
		{
			title: "The user opted out", postgres: true,
			trouble: func(d *deployment) {
				d.call(http.MethodPut, "/v1/users/ada/preferences", `{"opt_out":{"categories":["chat"]}}`)
				d.post("n1", `,"category":"chat"`)
				d.is("n1", "cancelled")
			},
			do: "Nothing: the user wants it so.",
		},
		{
			title:    "The user's own limit is reached",
			postgres: true,
			trouble: func(d *deployment) {
				d.call(http.MethodPut, "/v1/users/ada/preferences", `{"limits":{"default":{"limits":[{"max":1,"per":"1h"}]}}}`)
				d.await("the own limit is in force", func() bool {
					return strings.Contains(d.dispatcher("user", "ada", "--json"), `"in_force": "user"`)
				})
				d.behind("")
			},
			do: "Nothing: the user wants it so.",
		},
		{
			title:   "The minimum gap is not over",
			policy:  "version: 1\ncategories:\n  default: {min_gap: 1h}\n",
			trouble: func(d *deployment) { d.behind("") },
			do:      "Nothing, or shorten `min_gap` in the policy.",
		},
		{
			title:   "Quiet hours hold it",
			policy:  nightNow(),
			trouble: func(d *deployment) { d.post("n1", "") },
			do:      "Nothing. To send at night, give the category `quiet_hours: {then: off}`, or the notification the priority in `exempt_priority`.",
		},
		{
			title: "It is scheduled for later",
			trouble: func(d *deployment) {
				d.post("n1", fmt.Sprintf(`,"send_at":%q`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
			},
			do: "Nothing: the producer set `send_at`.",
		},
		{
			title:   "A digest waits for more to come",
			policy:  "version: 1\ncategories:\n  default: {digest: {wait: 1h}}\n",
			trouble: func(d *deployment) { d.post("n1", "") },
			do:      "Nothing, or shorten `wait` of the category's `digest` in the policy.",
		},
		{
			title:  "The user cap is reached",
			policy: "version: 1\ncategories:\n  default: {}\n  chat: {}\nuser_cap: {limits: [{max: 2, per: 1h}]}\n",
			trouble: func(d *deployment) {
				for _, id := range []string{"c1", "c2"} {
					d.delivered(id, `,"category":"chat"`)
				}
				d.post("n1", "")
			},
			do: "Nothing, or raise `user_cap` in the policy.",
		},
		{
			title:  "A flood bypasses the limits and fills the user cap",
			policy: "version: 1\ncategories:\n  default: {}\n  security: {bypass: true}\nuser_cap: {limits: [{max: 5, per: 1h}]}\n",
			trouble: func(d *deployment) {
				for i := range 20 {
					id := fmt.Sprint("s", i)
					d.delivered(id, `,"category":"security"`)
				}
				d.post("n1", "")
			},
			do: "Stop the producer: `pacer_accepted_total` by category shows the flood. Or take `bypass` from the category.",
		},
		{
			title: "A limit is reached",
			trouble: func(d *deployment) {
				d.delivered("n0", `,"category":"chat"`)
				for i := range 20 {
					d.post(fmt.Sprint("f", i), `,"category":"chat"`)
				}
				d.post("n1", `,"category":"chat"`)
			},
			do: "Nothing. If a producer floods the user, slow it down; " +
				"`dispatcher cancel --user USER --category NAME` drops what waits, for good.",
		},
		{
			title: "An operator cancelled it",
			trouble: func(d *deployment) {
				d.behind(`,"category":"chat"`)
				d.operate("n1 is cancelled", "cancel", "n1", "--yes")
			},
			do: "Ask the person. `dispatcher retry ID` sends it again, as a new notification.",
		},
		{
			title: "A newer notification replaced it",
			trouble: func(d *deployment) {
				d.delivered("n0", `,"category":"chat"`)
				d.post("n1", `,"category":"chat","collapse_key":"score"`)
				d.post("n2", `,"category":"chat","collapse_key":"score"`)
			},
			do: "Nothing: the newer one is delivered.",
		},
		{
			title:   "Nothing was accepted for the user",
			trouble: func(*deployment) {},
			do:      "Check that the producer sends, and with this id. Refusals are only in the producer's log.",
		},
	}
}
