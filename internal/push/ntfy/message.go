package ntfy

import (
	"errors"
	"fmt"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/content"
)

const (
	// maxText is how long a message's text may be, in bytes. Servers turn a longer text into an attachment, or refuse
	// it.
	maxText = 4096
	// maxBody is how long a whole message may be, in bytes. It is a quarter of what servers read.
	maxBody = 32 << 10
)

// priorities maps pacer's priorities to ntfy's.
var priorities = map[notification.Priority]int{
	notification.PriorityCritical: 5, notification.PriorityHigh: 4, notification.PriorityNormal: 3,
	notification.PriorityLow: 2,
}

// message makes the message to publish: title, body and priority, and over it the override. A passive one has a low
// priority, which makes no sound. ntfy has no place for data.
func message(n *notification.Notification, topic string, passive bool) ([]byte, error) {
	message := map[string]any{"title": n.Title, "message": n.Body, "sequence_id": content.Digest(content.CollapseID(n))}
	if n.Body == "" { // else the server would put in a text of its own
		message["message"] = n.Title
		delete(message, "title")
	}
	if priority, ok := priorities[n.Priority]; ok {
		message["priority"] = priority
	}
	if err := content.Merge(message, n.Override); err != nil {
		return nil, err
	}
	if err := checkMembers(message); err != nil {
		return nil, err
	}
	if passive {
		message["priority"] = priorities[notification.PriorityLow]
	}
	message["topic"] = topic
	return content.Encode("ntfy", message, maxBody)
}

// fields are what ntfy reads of a message. Its server ignores the case of their names.
var fields = []string{
	"actions", "attach", "cache", "call", "click", "delay", "email", "filename", "firebase", "icon", "markdown",
	"message", "priority", "sequence_id", "tags", "title", "topic",
}

// checkMembers refuses members that would reach others, or would deliver at a time that the user's limits do not allow.
func checkMembers(message map[string]any) error {
	if err := content.CheckCase(message, fields...); err != nil {
		return err
	}
	if _, given := message["topic"]; given {
		return errors.New("topic: is set from the target")
	}
	if _, given := message["delay"]; given {
		return errors.New("delay: would deliver it at a time that the limits do not allow; set send_at instead")
	}
	for _, other := range []string{"email", "call"} {
		if _, given := message[other]; given {
			return fmt.Errorf("%s: would reach somebody in a way that no limit counts", other)
		}
	}
	text, ok := message["message"].(string)
	if !ok {
		return errors.New("message: must be a text")
	}
	return content.Limit("ntfy", len(text), maxText)
}
