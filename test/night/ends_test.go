package night_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// ends are the cases in which a notification ended undelivered.
func ends() []*night {
	return []*night{
		{
			title: "It would have come too late", happens: "More waits than the limit lets out within `max_defer`.",
			trouble: func(d *deployment) {
				d.post("n0", `,"category":"alarm"`)
				d.is("n0", "delivered")
				d.post("n1", `,"category":"alarm"`)
				d.is("n1", "expired")
			},
			user:    "alarm: nothing waits; the next may go at TIME, because of limit 1/1h. last ended: n1, expired: max_defer (its slot would be TIME, later than max_defer 10m)",
			explain: "expired: max_defer: its slot would be TIME, later than max_defer 10m",
			dashboard: []string{
				"Failed 0, expired 1 (expired: max_defer)",
			},
			alerts: []string{"PacerExpiring"},
			do:     "Slow the producer down, loosen the limit, or raise `max_defer`.",
		},
		{
			title: "It expired while it waited", happens: "Its `expires_at` came before its slot.",
			trouble: func(d *deployment) {
				d.post("n0", `,"category":"chat"`)
				d.is("n0", "delivered")
				d.post("first", `,"category":"chat"`)
				d.is("first", "deferred") // and with it whatever joins it, at once
				d.postBrief("n1", "chat")
				d.insist(http.MethodDelete, "/v1/notifications/first", "") // a repeat is refused
				d.is("first", "cancelled")
				d.is("n1", "expired")
			},
			user:    "chat: nothing waits; the next may go at TIME, because of limit 1/1h. last ended: n1, expired: expires_at",
			explain: "expired: expires_at: TIME came while it was deferred until TIME: limit 1/1h",
			dashboard: []string{
				"Failed 0, expired 1 (expired: expires_at)",
			},
			calm: "the producer wants it so",
			do:   "Nothing, or give it longer.",
		},
		{
			title: "The provider refuses the content", happens: "The ntfy server responds with 400.",
			prepare: ntfy,
			trouble: func(d *deployment) {
				d.receiver.Follow(with(http.StatusBadRequest, "field body: too short"))
				d.post("n1", `,"channel":"ntfy","to":"topic"`)
				d.is("n1", "failed")
			},
			user:    "last ended: n1, failed: permanent: 400 (field body: too short)",
			explain: "failed: permanent: 400; the provider replied: field body: too short",
			dashboard: []string{
				"ntfy HOST: calling; permanent: 400",
				"Failed 1, expired 0 (failed: permanent: 400)",
			},
			alerts: []string{"PacerFailing"},
			do:     "Correct what the provider names, then `dispatcher retry n1`.",
		},
		{
			title: "The target is gone", happens: "The webhook responds with 410.",
			trouble: func(d *deployment) {
				d.receiver.Follow(with(http.StatusGone, ""))
				d.post("n1", "")
				d.is("n1", "failed")
			},
			user:    "last ended: n1, failed: target_gone: 410",
			explain: "failed: target_gone: 410",
			dashboard: []string{
				"webhook HOST: calling; target_gone: 410",
				"Failed 1, expired 0 (failed: target_gone: 410)",
			},
			alerts: []string{"PacerFailing"},
			do:     "The producer uses a target that does not exist any more: take it out there.",
		},
		{
			title: "The user's device is gone", happens: "The provider said of the user's only device that it does not exist any more.",
			trouble: func(d *deployment) {
				d.call(http.MethodPut, "/v1/users/ada/devices/phone",
					fmt.Sprintf(`{"channel":"webhook","to":%q}`, d.receiver.URL))
				d.receiver.Follow(with(http.StatusGone, ""))
				d.call(http.MethodPost, "/v1/notifications", `{"id":"n1","user_id":"ada","body":"hello"}`)
				d.is("n1", "failed")
			},
			user:    "no active device on webhook: a notification without a target fails there, reason permanent: no_device. last ended: n1, failed: target_gone: 410",
			explain: "failed: target_gone: 410",
			dashboard: []string{
				"webhook HOST: calling; target_gone: 410",
				"Failed 1, expired 0 (failed: target_gone: 410)",
			},
			alerts: []string{"PacerFailing"},
			do:     "The app registers the device again when the user opens it.",
		},
		{
			title: "Every attempt failed", happens: "The provider responded with 500 as often as `retry.max_attempts` says.",
			policy: "version: 1\ncategories:\n  default: {}\nretry: {max_attempts: 2, min_backoff: 10ms, max_backoff: 20ms}\n",
			trouble: func(d *deployment) {
				d.receiver.Follow(with(http.StatusInternalServerError, "out of disk"))
				d.post("n1", "")
				d.is("n1", "failed")
			},
			user:    "last ended: n1, failed: max_attempts, last transient: 500 (out of disk)",
			explain: "failed: max_attempts, last transient: 500; the provider replied: out of disk",
			dashboard: []string{
				"webhook HOST: calling, the latest call failed; transient: 500",
				"Failed 1, expired 0 (failed: max_attempts, last transient: 500)",
			},
			alerts: []string{"PacerFailing"},
			do:     "Once the provider is well, `dispatcher retry --status failed --since 1h`.",
		},
		{
			title: "The template is missing", happens: "The notification names a template that the deployment does not have.",
			prepare: func(d *deployment) {
				folder := filepath.Join(d.TempDir(), "templates")
				body := filepath.Join(folder, "hi", "default", "body.txt")
				err := os.MkdirAll(filepath.Dir(body), 0o700)
				if err := errors.Join(err, os.WriteFile(body, []byte("hi"), 0o600)); err != nil {
					d.Fatal(err)
				}
				d.env = append(d.env, "PACER_TEMPLATES="+folder)
			},
			trouble: func(d *deployment) {
				if status, reply := d.insist(http.MethodPost, "/v1/notifications",
					`{"id":"n1","user_id":"ada","to":"http://127.0.0.1:1","template":{"name":"shipped"}}`); status != 422 ||
					!strings.Contains(reply, `there is no template \"shipped\"; there are hi`) {
					d.Fatalf("the producer is told %d %s", status, reply)
				}
			},
			calm:    "the producer is told: 422",
			user:    "nothing is known about a user with this id: nothing waits, nothing was sent lately, no devices, no preferences",
			explain: "dispatcher: explain n1: no such notification: \"n1\" was never accepted, or ended so long ago that it is no longer kept",
			do:      "The producer's log has the refusal. Add the template to `--templates`, or correct its name.",
		},
	}
}
