package apns

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/sideshow/apns2"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/content"
)

// The longest payloads that the service accepts, in bytes: for calls over the internet (VoIP), and for all others.
const (
	maxPayload     = 4096
	maxVoIPPayload = 5120
)

// message makes the message to post: aps.alert with title and body, the data under "data", and over it the override.
// The override's member "headers" may set apns-push-type, apns-priority and apns-topic. A passive alert neither sounds
// nor lights the screen, unless the words for that no longer fit.
func (c Checker) message(n *notification.Notification, passive bool) (*apns2.Notification, error) {
	payload := map[string]any{"aps": map[string]any{"alert": map[string]any{"title": n.Title, "body": n.Body}}}
	if len(n.Data) > 0 {
		payload["data"] = n.Data
	}
	if err := content.Merge(payload, n.Override); err != nil {
		return nil, err
	}
	message := &apns2.Notification{
		DeviceToken: n.To, ApnsID: identity(n.ID), CollapseID: content.CollapseID(n),
		Expiration: n.ExpiresAt, PushType: apns2.PushTypeAlert,
	}
	if err := setHeaders(message, payload); err != nil {
		return nil, err
	}
	if err := c.setType(message, payload, n); err != nil {
		return nil, err
	}
	most := maxPayload
	if message.PushType == apns2.PushTypeVOIP {
		most = maxVoIPPayload
	}
	encoded, err := json.Marshal(payload) // the library escapes < > & too, so the length counts as sent
	if err != nil {
		return nil, errors.New("can't be written as JSON") // the cause quotes the data
	}
	message.Payload = encoded
	err = content.Limit("APNs", len(encoded), most)
	if err != nil || !passive || message.PushType != apns2.PushTypeAlert {
		return message, err
	}
	if err := content.Merge(payload, json.RawMessage(passively)); err != nil {
		return nil, err
	}
	if quiet, err := json.Marshal(payload); err == nil && len(quiet) <= most {
		message.Payload = quiet
	}
	return message, nil
}

// passively is what an alert has that does not disturb.
//
//nolint:gosec // G101: no credentials
const passively = `{"aps": {"interruption-level": "passive", "sound": null}}`

// setHeaders moves the headers out of the payload into the message.
func setHeaders(message *apns2.Notification, payload map[string]any) error {
	headers, given := payload["headers"]
	if !given {
		return nil
	}
	delete(payload, "headers")
	named, ok := headers.(map[string]any)
	if !ok {
		return errors.New("headers: must be a JSON object")
	}
	for name, value := range named {
		text, ok := value.(string)
		if !ok || !printable(text) {
			return errors.New("headers: must hold texts of printable ASCII")
		}
		switch name {
		case "apns-push-type":
			message.PushType = apns2.EPushType(text)
		case "apns-topic":
			message.Topic = text
		case "apns-priority":
			priority, err := strconv.Atoi(text)
			if err != nil || priority != 1 && priority != 5 && priority != 10 {
				return errors.New("headers: apns-priority must be 1, 5 or 10")
			}
			message.Priority = priority
		default:
			return errors.New("headers: may hold apns-push-type, apns-priority and apns-topic")
		}
	}
	return nil
}

func printable(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return text != ""
}
