package fcm_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
)

// A passive message makes no sound on any platform, whatever the producer wrote. One that shows nothing gets nothing
// that a platform might take for something to show.
func TestAPassiveMessageDoesNotDisturb(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	type sent struct {
		Android, APNs object
		Webpush       struct{ Headers struct{ Urgency string } }
	}
	for _, c := range []struct {
		name, override string
		android, aps   object // the former's notification
	}{
		{name: "as usual", android: object{"tag": "n1"}, aps: object{"interruption-level": "passive"}},
		{
			name: "with sounds",
			override: `{"android":{"priority":"HIGH","notification":{"sound":"default","channel_id":"c"}},
				"apns":{"payload":{"aps":{"sound":"default","badge":1}}}}`,
			android: object{"tag": "n1", "channel_id": "c"}, aps: object{"badge": 1.0, "interruption-level": "passive"},
		},
		{
			name: "nothing of Android's own", override: `{"android":{"notification":null}}`,
			aps: object{"interruption-level": "passive"},
		},
		{name: "data alone", override: `{"notification":null,"android":{"notification":null}}`},
		{
			name: "data alone, and the app wakes up",
			override: `{"notification":null,"android":{"notification":null},
				"apns":{"payload":{"aps":{"content-available":1}}}}`,
			aps: object{"content-available": 1.0},
		},
		{
			name:     "shown on Android alone",
			override: `{"notification":null,"android":{"notification":{"title":"x","sound":"default"}}}`,
			android:  object{"tag": "n1", "title": "x"},
		},
		{
			name: "shown on Apple's devices alone",
			override: `{"notification":null,"android":{"notification":null},
				"apns":{"payload":{"aps":{"alert":"x","sound":"default"}}}}`,
			aps: object{"alert": "x", "interruption-level": "passive"},
		},
		{
			name: "a sound alone",
			override: `{"notification":null,"android":{"notification":null},
				"apns":{"payload":{"aps":{"sound":"default"}}}}`,
			aps: object{"interruption-level": "passive"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := make(chan sent, 1)
			sender := bench(t, good(t), func(w http.ResponseWriter, r *http.Request) {
				var body struct{ Message sent }
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				got <- body.Message
				_, _ = io.WriteString(w, `{"name":"projects/demo/messages/1"}`)
			})
			m := message()
			m.Passive, m.Priority, m.Override = true, notification.PriorityHigh, json.RawMessage(c.override)
			if err := sender.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			want := sent{
				Android: object{"priority": "NORMAL"}, APNs: object{"headers": object{"apns-collapse-id": "n1"}},
			}
			want.Webpush.Headers.Urgency = "low"
			if c.android != nil {
				want.Android["notification"] = c.android
			}
			if c.aps != nil {
				want.APNs["payload"] = object{"aps": c.aps}
			}
			if diff := cmp.Diff(want, <-got); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
}
