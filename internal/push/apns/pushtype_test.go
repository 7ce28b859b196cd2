package apns_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/apns"
)

// activity is the part of an override that every live activity needs.
const activity = `"aps":{"timestamp":1800000000,"event":"update","content-state":{"stops":3}}`

// posted is what the service gets of one notification.
func posted(t *testing.T, set func(*notification.Notification)) (header http.Header, body string) {
	t.Helper()
	sender, _ := bench(t, func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		header, body = r.Header, string(text)
	})
	m := message()
	set(m.Notification)
	if err := sender.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return header, body
}

// Apple's table says what follows the bundle id in the topic of each push type.
func TestTopicAndPriorityFollowThePushType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, headers, topic string
		priority             notification.Priority
		want                 string
	}{
		{name: "alert", topic: topic, want: "10"},
		{name: "alert", priority: notification.PriorityLow, topic: topic, want: "5"},
		{name: "alert", priority: notification.PriorityCritical, topic: topic, want: "10"},
		{name: "alert", headers: `,"apns-priority":"1"`, topic: topic, want: "1"},
		{name: "background", topic: topic, want: "5"},
		{name: "complication", topic: topic + ".complication", want: "10"},
		{name: "controls", topic: topic + ".push-type.controls", want: "10"},
		{name: "fileprovider", priority: notification.PriorityLow, topic: topic + ".pushkit.fileprovider", want: "5"},
		{name: "liveactivity", topic: topic + ".push-type.liveactivity", want: "10"},
		{name: "liveactivity", priority: notification.PriorityLow, topic: topic + ".push-type.liveactivity", want: "5"},
		{name: "location", topic: topic + ".location-query", want: "10"},
		{name: "mdm", headers: `,"apns-topic":"com.apple.mgmt.External.1"`, topic: "com.apple.mgmt.External.1", want: "10"},
		{name: "pushtotalk", priority: notification.PriorityLow, topic: topic + ".voip-ptt", want: "10"},
		{name: "voip", priority: notification.PriorityLow, topic: topic + ".voip", want: "10"},
		{name: "voip", headers: `,"apns-priority":"5"`, topic: topic + ".voip", want: "5"},
		{name: "voip", headers: `,"apns-topic":"com.example.other"`, topic: "com.example.other", want: "10"},
		{name: "widgets", topic: topic + ".push-type.widgets", want: "10"},
	} {
		t.Run(fmt.Sprint(c.name, c.headers, c.priority), func(t *testing.T) {
			t.Parallel()
			header, _ := posted(t, func(n *notification.Notification) {
				n.Priority = cmp.Or(c.priority, notification.PriorityNormal)
				own := `"headers":{"apns-push-type":"` + c.name + `"` + c.headers + `}`
				if c.name == "liveactivity" {
					own += "," + activity
				}
				n.Override = json.RawMessage("{" + own + "}")
			})
			if header.Get("Apns-Push-Type") != c.name || header.Get("Apns-Topic") != c.topic ||
				header.Get("Apns-Priority") != c.want {
				t.Errorf("sent with %v, want the topic %s and the priority %s", header, c.topic, c.want)
			}
		})
	}
}

// What says nothing shows no alert, but for an alert itself.
func TestOnlyAnAlertShowsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, title, override, want string }{
		{name: "an alert", override: `{}`, want: `{"aps":{"alert":{"body":"","title":""}}}`},
		{
			name: "a widget", override: `{"headers":{"apns-push-type":"widgets"},"aps":{"content-changed":true}}`,
			want: `{"aps":{"content-changed":true}}`,
		},
		{
			name: "a live activity", override: `{"headers":{"apns-push-type":"liveactivity"},` + activity + `}`,
			want: `{"aps":{"content-state":{"stops":3},"event":"update","timestamp":1800000000}}`,
		},
		{
			name: "one that lights the screen", title: "Soon",
			override: `{"headers":{"apns-push-type":"liveactivity"},` + activity + `}`,
			want: `{"aps":{"alert":{"body":"","title":"Soon"},` +
				`"content-state":{"stops":3},"event":"update","timestamp":1800000000}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, body := posted(t, func(n *notification.Notification) {
				n.Title, n.Body, n.Override = c.title, "", json.RawMessage(c.override)
			})
			if body != c.want {
				t.Errorf("sent %s, want %s", body, c.want)
			}
		})
	}
}

func TestPushTypesThatAppleWouldRefuse(t *testing.T) {
	t.Parallel()
	live := func(aps string) string { return `{"headers":{"apns-push-type":"liveactivity"},"aps":{` + aps + `}}` }
	const state, start = `"content-state":{}`, `"timestamp":1,"event":"start","content-state":{},"attributes-type":"Order"`
	for _, c := range []struct{ name, override, want string }{
		{
			name: "unknown", override: `{"headers":{"apns-push-type":"canary"}}`,
			want: "headers: apns-push-type must be one of alert background complication controls fileprovider " +
				"liveactivity location mdm pushtotalk voip widgets",
		},
		{
			name: "mdm without a topic", override: `{"headers":{"apns-push-type":"mdm"}}`,
			want: "headers: apns-topic must be set where apns-push-type is mdm, which has no app's bundle id",
		},
		{
			name: "a calm walkie-talkie", override: `{"headers":{"apns-push-type":"pushtotalk","apns-priority":"5"}}`,
			want: "headers: apns-priority must be 10 where apns-push-type is pushtotalk",
		},
		{
			name: "a calmest live activity", override: `{"headers":{"apns-push-type":"liveactivity","apns-priority":"1"}}`,
			want: "headers: apns-priority must be 10 or 5 where apns-push-type is liveactivity",
		},
		{name: "no state", override: live(`"timestamp":1,"event":"end"`), want: "needs content-state, a JSON object"},
		{name: "no event", override: live(state), want: "event of a live activity must be start, update or end"},
		{name: "another event", override: live(state + `,"event":"stop"`), want: "must be start, update or end"},
		{name: "no timestamp", override: live(state + `,"event":"end"`), want: "needs timestamp, the seconds since 1970"},
		{name: "half a second", override: live(state + `,"event":"end","timestamp":1.5`), want: "needs timestamp"},
		{name: "milliseconds", override: live(state + `,"event":"end","timestamp":1800000000000`), want: "needs timestamp"},
		{name: "a start without attributes", override: live(start), want: "to start a live activity takes"},
		{name: "a start", override: live(start + `,"attributes":{}`)},
		{name: "an end", override: live(state + `,"event":"end","timestamp":1800000000,"dismissal-date":1800000001`)},
		{name: "no aps", override: `{"headers":{"apns-push-type":"liveactivity"},"aps":null}`, want: "content-state"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := message().Notification
			n.Override = json.RawMessage(c.override)
			err := apns.Checker{Topic: topic}.CheckContent(n)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A token for alerts is none for calls. That deactivates no device, and an app that takes no calls keeps its alerts.
func TestARefusedSuffixConcernsTheNotificationAlone(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"DeviceTokenNotForTopic", "TopicDisallowed", "BadTopic"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			sender, _ := bench(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprintf(w, `{"reason":%q}`, reason)
			})
			m := message()
			m.Override = json.RawMessage(`{"headers":{"apns-push-type":"voip"}}`)
			got := push.Classify(sender.Send(t.Context(), m))
			if got == nil || got.Class != push.Permanent || got.Whom() != push.ConcernsTarget {
				t.Errorf("got %v, want a permanent failure of this one", got)
			}
		})
	}
}

// A live activity has a push token of its own, and its state in Apple's format.
func ExampleChecker_CheckContent_liveActivity() {
	checker := apns.Checker{Topic: "com.example.app"}
	n := &notification.Notification{}
	for _, own := range []string{
		`{"headers": {"apns-push-type": "liveactivity"},
		  "aps": {"timestamp": 1800000000, "event": "update", "content-state": {"stops": 3}}}`,
		`{"headers": {"apns-push-type": "liveactivity"}, "aps": {"timestamp": 1800000000, "event": "update"}}`,
	} {
		n.Override = json.RawMessage(own)
		fmt.Println(checker.CheckContent(n))
	}
	// Output:
	// <nil>
	// aps: a live activity needs content-state, a JSON object
}
