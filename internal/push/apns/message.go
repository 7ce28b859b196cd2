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

// message is what is posted.
type message struct {
	apns2.Notification

	payload []byte // JSON
}

// plain is the payload of a notification without an override. Its members are in the order in which a map is written.
type plain struct {
	APS struct {
		Alert struct {
			Body  string `json:"body"`
			Title string `json:"title"`
		} `json:"alert"`
	} `json:"aps"`
	Data json.RawMessage `json:"data,omitempty"`
}

// plainMessage is message for a notification without an override, which most are: it makes no map.
func (c Checker) plainMessage(n *notification.Notification) (*message, error) {
	m := newMessage(n)
	if err := c.setType(m, nil, n); err != nil {
		return nil, err
	}
	p := plain{Data: n.Data}
	p.APS.Alert.Title, p.APS.Alert.Body = n.Title, n.Body
	var err error
	m.payload, err = content.Encode("APNs", &p, maxPayload)
	return m, err
}

// newMessage makes a message without a payload.
func newMessage(n *notification.Notification) *message {
	return &message{Notification: apns2.Notification{
		DeviceToken: n.To, ApnsID: identity(n.ID), CollapseID: content.CollapseID(n),
		Expiration: n.ExpiresAt, PushType: apns2.PushTypeAlert,
	}}
}

// message makes the message to post: aps.alert with title and body, the data under "data", and over it the override.
// The override's member "headers" may set apns-push-type, apns-priority and apns-topic. A passive alert neither sounds
// nor lights the screen, unless the words for that no longer fit.
func (c Checker) message(n *notification.Notification, passive bool) (*message, error) {
	if len(n.Override) == 0 && !passive {
		return c.plainMessage(n)
	}
	payload := map[string]any{"aps": map[string]any{"alert": map[string]any{"title": n.Title, "body": n.Body}}}
	if len(n.Data) > 0 {
		payload["data"] = n.Data
	}
	if err := content.Merge(payload, n.Override); err != nil {
		return nil, err
	}
	message := newMessage(n)
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
	var err error
	message.payload, err = content.Encode("APNs", payload, most)
	if err != nil || !passive || message.PushType != apns2.PushTypeAlert {
		return message, err
	}
	if err := content.Merge(payload, json.RawMessage(passively)); err != nil {
		return nil, err
	}
	if quiet, err := content.Encode("APNs", payload, most); err == nil {
		message.payload = quiet
	}
	return message, nil
}

// passively is what an alert has that does not disturb.
//
//nolint:gosec // G101: no credentials
const passively = `{"aps": {"interruption-level": "passive", "sound": null}}`

// setHeaders moves the headers out of the payload into the message.
func setHeaders(message *message, payload map[string]any) error {
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
