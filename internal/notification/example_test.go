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
	// id: may hold only A-Z a-z 0-9 . _ : - and is "order 42"
	// data: must be a JSON object, such as {"order":17}, is an array
	// expires_at: must be later than send_at: it is 2026-03-14T15:10:26Z, and send_at is 2026-03-14T16:09:26Z
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
