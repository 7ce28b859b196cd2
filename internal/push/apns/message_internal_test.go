package apns

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
)

// What most notifications become is what an empty override makes of them.
func TestPlainMessagesAreAsOthers(t *testing.T) {
	t.Parallel()
	c := Checker{Topic: "com.example.app"}
	for name, n := range map[string]notification.Notification{
		"text":      {Title: "hello", Body: "world"},
		"nothing":   {},
		"escapes":   {Title: `"<&>\` + "\n\u2028é", Body: "\xff"},
		"data":      {Title: "a", Data: json.RawMessage(` {"b": 1.50, "a": [1, {"<": null}]} `)},
		"low":       {Body: "b", Priority: notification.PriorityLow, CollapseKey: "k", To: strings.Repeat("a", 64)},
		"too long":  {Body: strings.Repeat("x", maxPayload)},
		"bad data":  {Data: json.RawMessage(`{`)},
		"long data": {Data: json.RawMessage(`{"a":"` + strings.Repeat("<", 700) + `"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n.ID = "0190-" + name
			other := n
			other.Override = json.RawMessage(`{}`)
			got, err := c.message(&n, false)
			want, wantErr := c.message(&other, false)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(message{})); diff != "" {
				t.Errorf("with an empty override, and without (-want +got):\n%s", diff)
			}
			if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Errorf("it is refused with %v, with an empty override with %v", err, wantErr)
			}
		})
	}
}
