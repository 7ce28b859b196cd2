package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deviceView is what the tests read of a device.
type deviceView struct {
	ID, Channel, To, Reason string
	Active                  bool
}

// register registers a webhook as a user's device.
func (d *fleet) register(user, device, to string) {
	d.t.Helper()
	body := []byte(`{"channel":"webhook","to":"` + to + `"}`)
	if status := d.call(http.MethodPut, "/v1/users/"+user+"/devices/"+device, body, nil, nil); status != http.StatusOK {
		d.t.Fatalf("register %s of %s: status %d", device, user, status)
	}
}

func (d *fleet) devices(user string) []deviceView {
	d.t.Helper()
	var list struct{ Devices []deviceView }
	if status := d.call(http.MethodGet, "/v1/users/"+user+"/devices", nil, nil, &list); status != http.StatusOK {
		d.t.Fatalf("list devices: status %d", status)
	}
	return list.Devices
}

// A notification without a target goes to each device, counts once, and what became of it on each is shown; a device
// that is gone is not tried again.
func TestNotificationsGoToAllDevices(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t, on, crowdPolicy, 2)
			phone, desk, gone := newReceiver(t), newReceiver(t), newReceiver(t)
			gone.respond = func(_ arrival, w http.ResponseWriter) { w.WriteHeader(http.StatusGone) }
			desk.respond = func(a arrival, w http.ResponseWriter) {
				if a.Attempt == 1 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}
			d.register("ada", "phone", phone.server.URL)
			d.register("ada", "desk", desk.server.URL)
			d.register("ada", "gone", gone.server.URL)
			ids := d.bulk([]item{{"user_id": "ada", "title": "first"}})
			d.awaitStats("delivered", func(s stats) bool { return s.Totals.Delivered == 1 })
			ids = append(ids, d.bulk([]item{{"user_id": "ada", "title": "second"}})...)
			s := d.awaitStats("delivered too", func(s stats) bool { return s.Totals.Delivered == 2 })
			if p, k, g := len(phone.got()), len(desk.got()), len(gone.got()); p != 2 || k != 4 || g != 1 {
				t.Errorf("the phone got %d, the desk %d, the one that is gone %d; want 2, 4 and 1", p, k, g)
			}
			if s.Totals.Attempts != 4 {
				t.Errorf("%d attempts counted, want two of each notification", s.Totals.Attempts)
			}
			var v struct {
				Devices []struct {
					Device, Outcome string
					Attempts        int
					Ended           bool
				}
			}
			d.call(http.MethodGet, "/v1/notifications/"+ids[0], nil, nil, &v)
			attempts := map[string]int{"phone": 1, "desk": 2, "gone": 1}
			want := map[string]string{"phone": "delivered", "desk": "delivered", "gone": "target_gone: 410"}
			for _, delivery := range v.Devices {
				if delivery.Outcome != want[delivery.Device] || !delivery.Ended ||
					delivery.Attempts != attempts[delivery.Device] {
					t.Errorf("on a device: %+v", delivery)
				}
				delete(want, delivery.Device)
			}
			if len(want) > 0 {
				t.Errorf("nothing is shown of %v", want)
			}
			for _, device := range d.devices("ada") {
				if device.Active == (device.ID == "gone") || (device.Reason == "410") != (device.ID == "gone") {
					t.Errorf("kept as %+v", device)
				}
			}
			d.register("ada", "gone", phone.server.URL)
			d.bulk([]item{{"user_id": "ada", "title": "third"}})
			phone.await(t, 4)
		})
	}
}

// Of two devices one takes everything, and one responds to nothing but so. What surely reached nobody uses up nothing
// of the user's limit: each notification counts once in the end, and the good device gets as many as the limit allows.
// What may have reached the other counts.
func TestWhatReachedNobodyUsesUpNoLimit(t *testing.T) {
	t.Parallel()
	const policy = "version: 1\nretry: {max_attempts: 3, min_backoff: 10ms, max_backoff: 20ms}\n" +
		"categories: {default: {limits: [{max: 3, per: 1h}]}}\n"
	for status, counts := range map[int]bool{401: false, 403: false, 500: false, 503: false, 408: true, 502: true} {
		for _, on := range []setup{onRedis, onPostgres} {
			t.Run(fmt.Sprint(on, status), func(t *testing.T) {
				t.Parallel()
				d := newDeployment(t, on, policy, 1)
				good, bad := newReceiver(t), newReceiver(t)
				bad.respond = func(_ arrival, w http.ResponseWriter) { w.WriteHeader(status) }
				d.register("ada", "good", good.server.URL)
				d.register("ada", "bad", bad.server.URL)
				one := []item{{"user_id": "ada", "title": "x"}}
				if d.bulk(one); counts {
					good.await(t, 1)
					bad.await(t, 3)
					d.bulk(one)
					d.awaitStats("full", func(s stats) bool { return s.Totals.Delivered == 1 && s.Deferred == 1 })
				} else {
					d.awaitStats("ended", func(s stats) bool { return s.Totals.Delivered == 1 })
					d.bulk(one)
					d.awaitStats("ended", func(s stats) bool { return s.Totals.Delivered == 2 })
					d.bulk(one)
					good.await(t, 3) // that fills the limit: what is left for the other device waits, like all else
					d.bulk(one)
					d.awaitStats("full", func(s stats) bool { return s.Deferred == 2 })
				}
				want := map[bool][2]int{true: {1, 3}, false: {3, 7}}[counts]
				if got := [2]int{len(good.got()), len(bad.got())}; got != want {
					t.Errorf("the good device got, and the other was asked, %d times; want %d", got, want)
				}
			})
		}
	}
}

func TestDevicesThatCannotBe(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 1)
	for body, want := range map[string]string{
		`{"channel":"webhook","to":"http://169.254.169.254/"}`: "to: ",
		`{"channel":"webhook","to":""}`:                        "to: is required",
		`{"channel":"pigeon","to":"x"}`:                        `channel: "pigeon" is not a configured channel`,
		`{"channel":"fcm","to":"x"}`:                           `channel: "fcm" is not a configured channel`,
		`{"channel":"log","to":"x"}`:                           `channel: "log" has no targets`,
	} {
		var problem struct{ Detail string }
		status := d.call(http.MethodPut, "/v1/users/ada/devices/phone", []byte(body), nil, &problem)
		if status != http.StatusUnprocessableEntity || !strings.Contains(problem.Detail, want) {
			t.Errorf("%s: %d %q, want 422 and %q", body, status, problem.Detail, want)
		}
	}
	if status := d.call(http.MethodPut, "/v1/users/ada/devices/a%20b", []byte(`{"channel":"webhook","to":"https://example.com"}`), nil, nil); status != http.StatusUnprocessableEntity {
		t.Errorf("an id with a blank: status %d", status)
	}
	if status := d.call(http.MethodGet, "/v1/users/ada/devices/phone", nil, nil, nil); status != http.StatusNotFound {
		t.Errorf("an unknown device: status %d", status)
	}
	var problem struct{ Detail string }
	status := d.call(http.MethodPost, "/v1/notifications", []byte(`{"user_id":"ada","title":"x"}`), nil, &problem)
	if status != http.StatusUnprocessableEntity ||
		!strings.Contains(problem.Detail, "to: is required: the user has no active device") {
		t.Errorf("without a target and a device: %d %q", status, problem.Detail)
	}
}

// A template's content is what is accepted; what it lacks is told.
func TestTemplates(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 0)
	folder := t.TempDir()
	for file, text := range map[string]string{
		"hi/default/title.txt": "Hello",
		"hi/default/body.txt":  "{{.name}} is here",
		"hi/de/body.txt":       "{{.name}} ist da",
	} {
		path := filepath.Join(folder, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := d.settings()
	s.Templates = folder
	d.startWith(s)
	for body, want := range map[string]string{
		`{"name":"hi","locale":"de-AT","data":{"name":"Ada"}}`: "Ada ist da",
		`{"name":"hi","data":{"name":"Ada"}}`:                  "Ada is here",
	} {
		var v struct{ Title, Body string }
		status := d.call(http.MethodPost, "/v1/notifications",
			[]byte(`{"user_id":"ada","channel":"log","template":`+body+`}`), nil, &v)
		if status != http.StatusAccepted || v.Body != want {
			t.Errorf("%s: %d %+v, want %q", body, status, v, want)
		}
	}
	for body, want := range map[string]string{
		`{"user_id":"ada","channel":"log","template":{"name":"hi"}}`:               `template.data: lacks "name"`,
		`{"user_id":"ada","channel":"log","template":{"name":"ho"}}`:               "template.name: there is no template",
		`{"user_id":"ada","channel":"log","template":{"nam":"hi"}}`:                "template: must be an object with name (text), locale (text) and data (an object)",
		`{"user_id":"ada","channel":"log","title":"x","template":{"name":"hi"}}`:   "template: makes title and body",
		`{"user_id":"ada","channel":"log","fcm":{}}`:                               "fcm: is for notifications of the channel fcm",
		`{"user_id":"ada","channel":"email","to":"a@example.com","email":{"a":1}}`: `channel: "email" is not a configured channel`,
	} {
		var problem struct{ Detail string }
		status := d.call(http.MethodPost, "/v1/notifications", []byte(body), nil, &problem)
		if status != http.StatusUnprocessableEntity || !strings.Contains(problem.Detail, want) {
			t.Errorf("%s: %d %q, want 422 and %q", body, status, problem.Detail, want)
		}
	}
}
