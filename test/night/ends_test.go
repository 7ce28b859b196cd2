package night_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/pacer-notify/pacer/test/providertest"
)

// ends are the cases in which a notification ended undelivered.
func ends() []*night {
	return []*night{
		{
			title: "Its slot would come too late",
			trouble: func(d *deployment) {
				d.behind(`,"category":"alarm"`)
				d.is("n1", "expired")
			},
			alerts: []string{"PacerExpiring"},
			do:     "Go to [PacerDeferredTooLong](#pacerdeferredtoolong).",
		},
		{
			title:  "Too many waited",
			policy: "version: 1\ncategories: {default: {limits: [{max: 1, per: 1h}], overflow: [{when: {waiting: 1}, then: drop_new}]}}\n",
			trouble: func(d *deployment) {
				d.delivered("n0", "")
				d.post("first", "")
				d.post("n1", "")
				d.is("n1", "expired")
			},
			do: "Slow down the producer, or change the category's `overflow` in the policy.",
		},
		{
			title: "Its expires_at came first",
			trouble: func(d *deployment) {
				d.delivered("n0", `,"category":"chat"`)
				d.post("first", `,"category":"chat"`)
				d.is("first", "deferred") // and with it whatever joins it, at once
				d.postBrief("n1", "chat")
				d.insist(http.MethodDelete, "/v1/notifications/first", "") // a repeat is refused
				d.is("first", "cancelled")
				d.is("n1", "expired")
			},
			do: "Nothing, or have the producer set a later `expires_at`.",
		},
		{
			title:   "The provider refuses the contents",
			prepare: ntfy,
			trouble: func(d *deployment) {
				d.receiver.Follow(with(http.StatusBadRequest, "field body: too short"))
				d.post("n1", `,"channel":"ntfy","to":"topic"`)
				d.is("n1", "failed")
			},
			alerts: []string{"PacerFailing"},
			do:     "Correct what the reply names, then run `dispatcher retry ID`.",
		},
		{
			title: "The target is gone",
			trouble: func(d *deployment) {
				d.receiver.Follow(with(http.StatusGone, ""))
				d.post("n1", "")
				d.is("n1", "failed")
			},
			alerts: []string{"PacerFailing"},
			do:     "If the producer gave the target in `to`, have it stop.",
		},
		{
			title: "The user's device is gone",
			trouble: func(d *deployment) {
				d.call(http.MethodPut, "/v1/users/ada/devices/phone",
					fmt.Sprintf(`{"channel":"webhook","to":%q}`, d.receiver.URL))
				d.receiver.Follow(with(http.StatusGone, ""))
				d.call(http.MethodPost, "/v1/notifications", `{"id":"n1","user_id":"ada","body":"hello"}`)
				d.is("n1", "failed")
			},
			alerts: []string{"PacerFailing"},
			do:     "If it was a device: nothing. The app registers it again when the user opens it.",
		},
		{
			title:  "Every attempt failed",
			policy: "version: 1\ncategories:\n  default: {}\nretry: {max_attempts: 2, min_backoff: 10ms, max_backoff: 20ms}\n",
			trouble: func(d *deployment) {
				d.receiver.Follow(with(http.StatusInternalServerError, "out of disk"))
				d.post("n1", "")
				d.is("n1", "failed")
			},
			alerts: []string{"PacerFailing"},
			do:     "When the provider works again, run `dispatcher retry --status failed --since 24h`.",
		},
		{
			title: "The producer names a template that does not exist",
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
			do: "Read the refusal in the producer's log. Correct the name, or add the template to `--templates`.",
		},
		crashLoop(),
	}
}

func crashLoop() *night {
	return &night{
		title: "A notification crashes its workers",
		slow:  true, processes: []string{"api,ops"},
		trouble: func(d *deployment) {
			d.receiver.Follow(hangs)
			d.post("n1", "")
			for times := range 3 {
				worker := d.start("worker,ops")
				d.await("a worker sends it", func() bool { return len(d.receiver.Calls(providertest.Called)) > times })
				worker.kill()
			}
			d.start("worker,ops")
			d.is("n1", "failed")
		},
		alerts: []string{"PacerClaimsExpire", "PacerCrashLoop", "PacerProcessGone"},
		do:     "Go to [PacerCrashLoop](#pacercrashloop).",
	}
}
