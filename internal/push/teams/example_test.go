package teams_test

import (
	"encoding/json"
	"fmt"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/teams"
)

// A card may have more than title and body: what a notification says in the format of Adaptive Cards is laid over it.
func ExampleChecker_CheckContent() {
	n := &notification.Notification{Title: "Order 7", Body: "is on its way"}
	for _, own := range []string{
		`{"actions": [{"type": "Action.OpenUrl", "title": "Follow it", "url": "https://example.com/orders/7"}]}`,
		`{"type": "MessageCard"}`,
	} {
		n.Override = json.RawMessage(own)
		fmt.Println(teams.Checker{}.CheckContent(n))
	}
	// Output:
	// <nil>
	// type: must be AdaptiveCard
}
