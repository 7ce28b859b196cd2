package slack_test

import (
	"encoding/json"
	"fmt"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/slack"
)

// Blocks are given in Slack's own format. What Slack would refuse is refused when the notification is accepted.
func ExampleChecker_CheckContent() {
	n := &notification.Notification{Title: "Order 7", Body: "is on its way"}
	for _, own := range []string{
		`{"blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "*Order 7* is on its way"}}]}`,
		`{"channel": "#general"}`,
	} {
		n.Override = json.RawMessage(own)
		fmt.Println(slack.Checker{}.CheckContent(n))
	}
	// Output:
	// <nil>
	// channel: is set from the target
}
