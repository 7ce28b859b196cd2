package apns

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sideshow/apns2"

	"github.com/pacer-notify/pacer/internal/notification"
)

// pushType is what Apple documents of a value of apns-push-type.
type pushType struct {
	// suffix follows the app's bundle id in the topic.
	suffix string
	// priorities are those that Apple takes, the usual one first. Nil means 10, 5 and 1.
	priorities []int
	// urgent is true when the usual priority fits notifications of a low one too: a call does not wait.
	urgent bool
	// form gives the payload the form that Apple wants, or refuses it. Nil means any form.
	form func(payload map[string]any, override json.RawMessage) error
}

// pushTypes are all that Apple lists under "Sending notification requests to APNs", and controls and widgets, which it
// documents with WidgetKit. It says of background, location and pushtotalk which priorities they may have; that voip is
// always urgent is pacer's choice.
var pushTypes = map[apns2.EPushType]pushType{
	apns2.PushTypeAlert:        {},
	apns2.PushTypeBackground:   {priorities: []int{5}, form: setBackground},
	apns2.PushTypeComplication: {suffix: ".complication"},
	"controls":                 {suffix: ".push-type.controls"},
	apns2.PushTypeFileProvider: {suffix: ".pushkit.fileprovider"},
	apns2.PushTypeLiveActivity: {
		suffix: ".push-type.liveactivity", priorities: []int{10, 5}, form: checkLiveActivity,
	},
	apns2.PushTypeLocation:   {suffix: ".location-query", priorities: []int{10, 5}},
	apns2.PushTypeMDM:        {},
	apns2.PushTypePushToTalk: {suffix: ".voip-ptt", priorities: []int{10}},
	apns2.PushTypeVOIP:       {suffix: ".voip", urgent: true},
	"widgets":                {suffix: ".push-type.widgets"},
}

// setType sets what follows from the push type: topic and priority, unless the override names them, and the payload's
// form.
func (c Checker) setType(message *message, payload map[string]any, n *notification.Notification) error {
	kind, known := pushTypes[message.PushType]
	if !known {
		names := slices.Sorted(maps.Keys(pushTypes))
		return fmt.Errorf("headers: apns-push-type must be one of %s", strings.Trim(fmt.Sprint(names), "[]"))
	}
	switch {
	case message.Topic != "":
	case message.PushType == apns2.PushTypeMDM:
		return errors.New("headers: apns-topic must be set where apns-push-type is mdm, which has no app's bundle id")
	default:
		message.Topic = strings.TrimSuffix(c.Topic, kind.suffix) + kind.suffix
	}
	if err := kind.setPriority(message, n.Priority); err != nil {
		return err
	}
	if message.PushType != apns2.PushTypeAlert {
		dropEmptyAlert(payload)
	}
	if kind.form == nil {
		return nil
	}
	return kind.form(payload, n.Override)
}

// setPriority sets the usual priority, or 5 for notifications of a low one.
func (t pushType) setPriority(message *message, priority notification.Priority) error {
	allowed := t.priorities
	if allowed == nil {
		allowed = []int{apns2.PriorityHigh, apns2.PriorityLow, 1}
	}
	switch {
	case message.Priority == 0 && priority == notification.PriorityLow && !t.urgent &&
		slices.Contains(allowed, apns2.PriorityLow):
		message.Priority = apns2.PriorityLow
	case message.Priority == 0:
		message.Priority = allowed[0]
	case !slices.Contains(allowed, message.Priority):
		names := make([]string, len(allowed))
		for i, one := range allowed {
			names[i] = strconv.Itoa(one)
		}
		return fmt.Errorf("headers: apns-priority must be %s where apns-push-type is %s",
			strings.Join(names, " or "), message.PushType)
	}
	return nil
}

// dropEmptyAlert takes the alert away that says nothing. Only an alert has to show something.
func dropEmptyAlert(payload map[string]any) {
	aps, _ := payload["aps"].(map[string]any)
	if alert, _ := aps["alert"].(map[string]any); len(alert) == 2 && alert["title"] == "" && alert["body"] == "" {
		delete(aps, "alert")
	}
}

// setBackground makes a background notification as Apple wants it, which refuses any other: content-available, and
// nothing that a user sees or hears. The app gets the data; title and body are not sent.
func setBackground(payload map[string]any, override json.RawMessage) error {
	var own struct{ APS map[string]any }
	_ = json.Unmarshal(override, &own) // it has been merged, so it is an object
	for _, name := range []string{"alert", "badge", "sound"} {
		if own.APS[name] != nil {
			return errors.New("aps: a background notification has no alert, badge or sound; put what the app needs into data")
		}
	}
	aps, ok := payload["aps"].(map[string]any)
	if !ok {
		aps = map[string]any{}
		payload["aps"] = aps
	}
	delete(aps, "alert")
	aps["content-available"] = 1
	return nil
}

// latestTimestamp is in the year 5138. A later one counts milliseconds.
const latestTimestamp = 99_999_999_999

// checkLiveActivity refuses a live activity without what Apple demands: else APNs takes it, and the device drops it.
func checkLiveActivity(payload map[string]any, _ json.RawMessage) error {
	aps, _ := payload["aps"].(map[string]any)
	isObject := func(name string) bool { _, ok := aps[name].(map[string]any); return ok }
	number, _ := aps["timestamp"].(json.Number)
	at, err := number.Int64()
	switch {
	case !isObject("content-state"):
		return errors.New("aps: a live activity needs content-state, a JSON object")
	case aps["event"] != "start" && aps["event"] != "update" && aps["event"] != "end":
		return errors.New("aps: the event of a live activity must be start, update or end")
	case err != nil || at <= 0 || at > latestTimestamp:
		return errors.New("aps: a live activity needs timestamp, the seconds since 1970 as a whole number")
	case aps["event"] != "start":
		return nil
	}
	name, _ := aps["attributes-type"].(string)
	if name == "" || !isObject("attributes") || aps["alert"] == nil {
		return errors.New("aps: to start a live activity takes attributes-type, attributes, and a title or a body")
	}
	return nil
}
