package fcm

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
)

// What most notifications become is what an empty override makes of them.
func TestPlainMessagesAreAsOthers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for name, n := range map[string]notification.Notification{
		"text":    {Title: "hello", Body: "world", To: "device"},
		"nothing": {},
		"escapes": {Title: `"<&>\` + "\n\u2028é", Body: "\xff"},
		"data":    {Title: "a", Data: json.RawMessage(` {"b": 1.50, "a": [1, {"<": null}], "c": "<text>", "d": null} `)},
		"no data": {Title: "a", Data: json.RawMessage(`{}`)},
		"low":     {Body: "b", Priority: notification.PriorityLow, CollapseKey: "k"},
		"expires": {Body: "b", ExpiresAt: now.Add(90 * time.Second)},
		"expired": {Body: "b", ExpiresAt: now.Add(-time.Second)},
		"far":     {Body: "b", ExpiresAt: now.Add(2 * maxLife)},
		"longest": {Body: strings.Repeat("x", maxPayload-len(`{"data":null,"notification":{"body":"","title":""}}`))},
		"longest {}": {
			Data: json.RawMessage(`{}`),
			Body: strings.Repeat("x", maxPayload+1-len(`{"data":null,"notification":{"body":"","title":""}}`)),
		},
		"too long":  {Body: strings.Repeat("x", maxPayload)},
		"long data": {Data: json.RawMessage(`{"a":"` + strings.Repeat("<", maxPayload) + `"}`)},
		"bad data":  {Data: json.RawMessage(`{`)},
		"its own":   {Data: json.RawMessage(`{"from": "a"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n.ID = "0190-" + name
			other := n
			other.Override = json.RawMessage(`{}`)
			got, err := message(&n, false, now)
			want, wantErr := message(&other, false, now)
			if diff := cmp.Diff(decoded(t, want), decoded(t, got)); diff != "" {
				t.Errorf("with an empty override, and without (-want +got):\n%s", diff)
			}
			if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Errorf("it is refused with %v, with an empty override with %v", err, wantErr)
			}
		})
	}
}

// decoded is a message as FCM reads it; nil for none.
func decoded(t *testing.T, text []byte) (value any) {
	t.Helper()
	if text == nil {
		return nil
	}
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}
