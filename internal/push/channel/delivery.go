package channel

import (
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// DeliveryOfPush is what fits push and chat messages, which are soon out of date. It is what Google recommends
// for FCM: no retry within ten seconds, then longer and longer waits, and none after an hour. Others recommend nothing.
func DeliveryOfPush() notification.DeliverySettings {
	return notification.DeliverySettings{
		Retry:   notification.Retry{MaxAttempts: 10, MinBackoff: 10 * time.Second, MaxBackoff: 10 * time.Minute},
		Timeout: 10 * time.Second,
	}
}
