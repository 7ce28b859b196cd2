package notification_test

import (
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Validate returns every fault, so that a producer can correct all of them at once.
func ExampleNotification_Validate() {
	n := notification.Notification{
		ID: "order 42", UserID: "ada", Category: "orders", Channel: notification.ChannelWebhook,
		Priority: notification.PriorityHigh, Data: []byte("[]"),
		SendAt: now.Add(time.Hour), ExpiresAt: now.Add(time.Minute),
	}
	for _, fault := range notification.FieldErrors(n.Validate(now, notification.MaxContentBytes)) {
		fmt.Println(fault)
	}
	// Output:
	// id: may hold only A-Z a-z 0-9 . _ : -
	// data: must be a JSON object
	// expires_at: must be later than send_at: it would expire before it can be sent
}

func ExampleParsePriority() {
	high, known := notification.ParsePriority("high")
	fmt.Println(high, known, high.AtLeast(notification.PriorityNormal))
	_, known = notification.ParsePriority("urgent")
	fmt.Println(known)
	// Output:
	// high true true
	// false
}
