package sms

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/content"
)

const (
	// maxText is how many characters a text may have, as Twilio documents. That it counts units of 16 bits is assumed.
	maxText = 1600
	// maxValidity is how long a message may wait at Twilio at most, as it documents.
	maxValidity = 10 * time.Hour
)

// message makes the parameters of the call but for target and sender: title and body as the text, and over them the
// override. A text message has no place for data.
func (c Checker) message(n *notification.Notification, now time.Time) (url.Values, error) {
	message := map[string]any{}
	text := n.Title
	if n.Title != "" && n.Body != "" {
		text += "\n"
	}
	if text += n.Body; text != "" {
		message["Body"] = text
	}
	if !n.ExpiresAt.IsZero() {
		life := min(max(n.ExpiresAt.Sub(now), time.Second), maxValidity)
		message["ValidityPeriod"] = strconv.FormatInt(int64(life/time.Second), 10)
	}
	if err := content.Merge(message, n.Override); err != nil {
		return nil, err
	}
	if err := checkNames(message); err != nil {
		return nil, err
	}
	if err := c.checkText(message); err != nil {
		return nil, err
	}
	return parameters(message)
}

// checkNames refuses parameters that are the settings' or the target's, or would deliver at another time.
func checkNames(message map[string]any) error {
	// Twilio's names have this case. A gateway with its API may ignore it.
	if err := content.CheckCase(message, "Body", "ContentSid", "From", "MediaUrl", "MessagingServiceSid",
		"ScheduleType", "SendAt", "To", "ValidityPeriod"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(message)) {
		switch name {
		case "To":
			return errors.New("the parameter To is set from the target")
		case "From", "MessagingServiceSid":
			return fmt.Errorf("the parameter %s is set from --sms-from (PACER_SMS_FROM)", name)
		case "SendAt", "ScheduleType":
			return fmt.Errorf("the parameter %s would deliver it at a time that the limits do not allow; set send_at instead",
				name)
		}
		if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "" {
			return errors.New("may hold parameters of Twilio's API, whose names have only letters")
		}
	}
	return nil
}

// checkText refuses a text that is too long, and a message without any.
func (c Checker) checkText(message map[string]any) error {
	body, given := message["Body"]
	text, ok := body.(string)
	switch {
	case given && !ok:
		return errors.New("the parameter Body must be a text")
	case text == "" && message["MediaUrl"] == nil && message["ContentSid"] == nil:
		return errors.New("sends nothing: a message needs a title, a body, MediaUrl or ContentSid")
	case length(text) > maxText:
		return fmt.Errorf("is a text of %d characters in %d segments, and Twilio takes at most %d characters",
			length(text), Segments(text), maxText)
	case c.Segments > 0 && Segments(text) > c.Segments:
		return fmt.Errorf("is a text of %d characters in %d segments, and --sms-segments (PACER_SMS_SEGMENTS) allows %d",
			length(text), Segments(text), c.Segments)
	}
	return nil
}

// parameters writes the members of an object as parameters. A list repeats its parameter.
func parameters(message map[string]any) (url.Values, error) {
	values := url.Values{}
	for name, value := range message {
		all, isList := value.([]any)
		if !isList {
			all = []any{value}
		}
		for _, one := range all {
			switch one := one.(type) {
			case string:
				values.Add(name, one)
			case bool:
				values.Add(name, strconv.FormatBool(one))
			case json.Number:
				values.Add(name, one.String())
			default:
				return nil, fmt.Errorf("the parameter %.40s must be a text, a number, true or false, or a list of these", name)
			}
		}
	}
	return values, nil
}
