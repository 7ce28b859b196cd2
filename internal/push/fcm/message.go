package fcm

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/content"
)

const (
	// maxPayload is how long notification and data together may be, in bytes.
	maxPayload = 4096
	// maxMessage bounds all of the message.
	maxMessage = 2*maxPayload + maxToken
	// maxLife is how long the service keeps a message at most.
	maxLife = 28 * 24 * time.Hour
)

// What each platform takes for a message that does not disturb.
//
//nolint:gosec // G101: no credentials
const (
	// passively concerns every message.
	passively = `{"android": {"priority": "NORMAL"}, "webpush": {"headers": {"Urgency": "low"}}}`
	// passivelyOnAndroid is for a message with a notification of Android's own. It only takes away.
	passivelyOnAndroid = `{"android": {"notification": {
		"sound": null, "default_sound": null, "default_vibrate_timings": null, "vibrate_timings": null
	}}}`
	// passivelyOnApple is for a message that Apple's devices show, or that sounds there.
	passivelyOnApple = `{"apns": {"payload": {"aps": {"interruption-level": "passive", "sound": null}}}}`
)

// othersToo says why a message can't name further targets.
const othersToo = "would reach others besides the user whose limits count"

var (
	duration = regexp.MustCompile(`\A[0-9]+(\.[0-9]{1,9})?s\z`)
	colour   = regexp.MustCompile(`\A#[0-9A-Fa-f]{6}\z`)
)

// Fields are what Google documents of a message (REST resource projects.messages, version 1).
var Fields = content.Fields{
	{Path: "notification", Kind: content.Struct},
	{Path: "notification.title", Kind: content.Text},
	{Path: "notification.body", Kind: content.Text},
	{Path: "notification.image", Kind: content.Text},
	{Path: "data", Kind: content.TextMap},
	{Path: "android", Kind: content.Struct},
	{Path: "android.priority", Kind: content.Text, Values: []string{"NORMAL", "HIGH"}},
	{Path: "android.ttl", Kind: content.Text, Form: duration, Like: "3600s"},
	{Path: "android.collapse_key", Kind: content.Text},
	{Path: "android.restricted_package_name", Kind: content.Text},
	{Path: "android.data", Kind: content.TextMap},
	{Path: "android.direct_boot_ok", Kind: content.YesNo},
	{Path: "android.notification", Kind: content.Struct},
	{Path: "android.notification.title", Kind: content.Text},
	{Path: "android.notification.body", Kind: content.Text},
	{Path: "android.notification.icon", Kind: content.Text},
	{Path: "android.notification.color", Kind: content.Text, Form: colour, Like: "#00aaff"},
	{Path: "android.notification.sound", Kind: content.Text},
	{Path: "android.notification.tag", Kind: content.Text},
	{Path: "android.notification.click_action", Kind: content.Text},
	{Path: "android.notification.channel_id", Kind: content.Text},
	{Path: "android.notification.image", Kind: content.Text},
	{Path: "android.notification.sticky", Kind: content.YesNo},
	{Path: "android.notification.visibility", Kind: content.Text, Values: []string{"PRIVATE", "PUBLIC", "SECRET"}},
	{Path: "apns", Kind: content.Struct},
	{Path: "apns.headers", Kind: content.TextMap},
	{Path: "apns.payload", Kind: content.Struct},
	{Path: "webpush", Kind: content.Struct},
	{Path: "webpush.headers", Kind: content.TextMap},
	{Path: "webpush.data", Kind: content.TextMap},
	{Path: "webpush.notification", Kind: content.Struct},
	{Path: "fcm_options", Kind: content.Struct},
	{Path: "token", Refused: "is set from the target"},
	{Path: "topic", Refused: othersToo},
	{Path: "condition", Refused: othersToo},
}

// visible is what the device shows.
type visible struct {
	Body  string `json:"body"`
	Title string `json:"title"`
}

// standard is the message that a notification makes without an override: title and body, and the data's members as
// texts. Its members are in the order in which a map is written.
type standard struct {
	Android struct {
		CollapseKey  string `json:"collapse_key,omitempty"`
		Notification struct {
			Tag string `json:"tag"`
		} `json:"notification"`
		Priority string `json:"priority"`
		TTL      string `json:"ttl,omitempty"`
	} `json:"android"`
	APNs struct {
		Headers struct {
			CollapseID string `json:"apns-collapse-id"`
			Expiration string `json:"apns-expiration,omitempty"`
		} `json:"headers"`
	} `json:"apns"`
	Data         map[string]string `json:"data,omitempty"`
	Notification visible           `json:"notification"`
	Token        string            `json:"token"`
	Webpush      struct {
		Headers struct {
			TTL   string `json:"TTL,omitempty"`
			Topic string `json:"Topic"`
		} `json:"headers"`
	} `json:"webpush"`
}

func newStandard(n *notification.Notification, now time.Time) (*standard, error) {
	id := content.CollapseID(n)
	m := &standard{Notification: visible{Title: n.Title, Body: n.Body}, Token: n.To}
	m.Android.Priority, m.Android.Notification.Tag = "HIGH", id
	if n.Priority == notification.PriorityLow {
		m.Android.Priority = "NORMAL"
	}
	if n.CollapseKey != "" {
		m.Android.CollapseKey = id // FCM keeps only four of these for a device that is away
	}
	m.APNs.Headers.CollapseID, m.Webpush.Headers.Topic = id, content.Digest(id)
	if !n.ExpiresAt.IsZero() {
		life := strconv.FormatInt(int64(min(max(n.ExpiresAt.Sub(now), 0), maxLife)/time.Second), 10)
		m.Android.TTL, m.Webpush.Headers.TTL = life+"s", life
		m.APNs.Headers.Expiration = strconv.FormatInt(n.ExpiresAt.Unix(), 10)
	}
	var err error
	m.Data, err = texts(n.Data)
	return m, err
}

// message makes the message to post: the standard one, and over it the override, and what makes it passive. Most have
// neither, and need no map.
func message(n *notification.Notification, passive bool, now time.Time) ([]byte, error) {
	m, err := newStandard(n, now)
	if err != nil {
		return nil, err
	}
	encoded, err := content.Encode("FCM", map[string]*standard{"message": m}, math.MaxInt)
	if err != nil || len(n.Override) == 0 && !passive && len(encoded) <= maxPayload { // its payload is shorter still
		return encoded, err
	}
	var whole struct{ Message map[string]any }
	if err := json.Unmarshal(encoded, &whole); err != nil { // its members are texts, so none changes
		return nil, err
	}
	return changed(n, whole.Message, passive)
}

// changed lays the override over a message, and what makes it passive.
func changed(n *notification.Notification, message map[string]any, passive bool) ([]byte, error) {
	if err := content.Merge(message, n.Override); err != nil {
		return nil, err
	}
	if passive {
		if err := pacify(message); err != nil {
			return nil, err
		}
	}
	if message["token"] != n.To {
		return nil, errors.New("token: is set from the target")
	}
	delete(message, "token")
	if err := Fields.Check(message); err != nil {
		return nil, err
	}
	message["token"] = n.To
	if _, err := content.Encode("FCM", map[string]any{"notification": message["notification"], "data": message["data"]},
		maxPayload); err != nil {
		return nil, err
	}
	return content.Encode("FCM", map[string]any{"message": message}, maxMessage)
}

// pacify makes a message passive. One without anything to show gets nothing that looks like it.
func pacify(message map[string]any) error {
	patches := []string{passively}
	if member(message, "android", "notification") != nil {
		patches = append(patches, passivelyOnAndroid)
	}
	aps, _ := member(message, "apns", "payload", "aps").(map[string]any)
	if message["notification"] != nil || aps["alert"] != nil || aps["sound"] != nil {
		patches = append(patches, passivelyOnApple)
	}
	for _, patch := range patches {
		if err := content.Merge(message, json.RawMessage(patch)); err != nil {
			return err
		}
	}
	return nil
}

// member is the member at a path within a message; nil when there is none.
func member(message map[string]any, path ...string) any {
	var at any = message
	for _, name := range path {
		object, _ := at.(map[string]any)
		at = object[name]
	}
	return at
}

// texts are the members of a notification's data. FCM accepts only texts, so other values are sent as their JSON.
func texts(data json.RawMessage) (map[string]string, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, errors.New("data: must be a JSON object") // the cause quotes the data
	}
	texts := make(map[string]string, len(members))
	for name, value := range members {
		if name == "from" || name == "message_type" || strings.HasPrefix(name, "google") ||
			strings.HasPrefix(name, "gcm") {
			return nil, fmt.Errorf("data: the member %.20q is FCM's own: from, message_type, google…, gcm…", name)
		}
		var text string
		if json.Unmarshal(value, &text) != nil || string(value) == "null" {
			text = string(value)
		}
		texts[name] = text
	}
	return texts, nil
}
