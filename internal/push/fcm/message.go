package fcm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/content"
)

const (
	// maxPayload is how long notification and data together may be, in bytes.
	maxPayload = 4096
	// maxLife is how long the service keeps a message at most.
	maxLife = 28 * 24 * time.Hour
)

// passively is what each platform takes for a message that does not disturb.
//
//nolint:gosec // G101: no credentials
const passively = `{
	"android": {
		"priority": "NORMAL",
		"notification": {"sound": null, "default_sound": null, "default_vibrate_timings": null, "vibrate_timings": null}
	},
	"apns": {"payload": {"aps": {"interruption-level": "passive", "sound": null}}},
	"webpush": {"headers": {"Urgency": "low"}}
}`

// message makes the message to post: a notification with title and body, the data's members as texts, and over all of
// it the override, and what makes it passive.
func message(n *notification.Notification, passive bool, now time.Time) ([]byte, error) {
	id := content.CollapseID(n)
	android := map[string]any{"priority": "HIGH", "notification": map[string]any{"tag": id}}
	if n.Priority == notification.PriorityLow {
		android["priority"] = "NORMAL"
	}
	if n.CollapseKey != "" {
		android["collapse_key"] = id // FCM keeps only four of these for a device that is away
	}
	apns := map[string]any{"apns-collapse-id": id}
	webpush := map[string]any{"Topic": content.Digest(id)}
	if !n.ExpiresAt.IsZero() {
		life := int64(min(max(n.ExpiresAt.Sub(now), 0), maxLife) / time.Second)
		android["ttl"] = strconv.FormatInt(life, 10) + "s"
		apns["apns-expiration"] = strconv.FormatInt(n.ExpiresAt.Unix(), 10)
		webpush["TTL"] = strconv.FormatInt(life, 10)
	}
	message := map[string]any{
		"token": n.To, "notification": map[string]any{"title": n.Title, "body": n.Body},
		"android": android, "apns": map[string]any{"headers": apns}, "webpush": map[string]any{"headers": webpush},
	}
	if err := setData(message, n.Data); err != nil {
		return nil, err
	}
	if err := content.Merge(message, n.Override); err != nil {
		return nil, err
	}
	if passive {
		if err := content.Merge(message, json.RawMessage(passively)); err != nil {
			return nil, err
		}
	}
	if message["token"] != n.To {
		return nil, errors.New("token: is set from the target")
	}
	for _, other := range []string{"topic", "condition"} {
		if _, given := message[other]; given {
			return nil, fmt.Errorf("%s: would reach others besides the user whose limits count", other)
		}
	}
	if _, err := content.Encode("FCM", map[string]any{"notification": message["notification"], "data": message["data"]},
		maxPayload); err != nil {
		return nil, err
	}
	return content.Encode("FCM", map[string]any{"message": message}, 2*maxPayload+maxToken)
}

// setData puts the data's members into the message. FCM accepts only texts, so other values are sent as their JSON.
func setData(message map[string]any, data json.RawMessage) error {
	if len(data) == 0 {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return errors.New("data: must be a JSON object") // the cause quotes the data
	}
	texts := make(map[string]any, len(members))
	for name, value := range members {
		if name == "from" || name == "message_type" || strings.HasPrefix(name, "google") ||
			strings.HasPrefix(name, "gcm") {
			return fmt.Errorf("data: the member %.20q is FCM's own: from, message_type, google…, gcm…", name)
		}
		var text string
		if json.Unmarshal(value, &text) != nil || string(value) == "null" {
			text = string(value)
		}
		texts[name] = text
	}
	if len(texts) > 0 {
		message["data"] = texts
	}
	return nil
}
