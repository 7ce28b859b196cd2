package ntfy

import (
	"errors"

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

// Fields are what ntfy documents for publishing as JSON. Its server ignores the case of names. What is refused would
// reach others, or would deliver at a time that the user's limits do not allow.
var Fields = content.Fields{
	{Path: "title", Kind: content.Text},
	{Path: "message", Kind: content.Text},
	{Path: "priority", Kind: content.Whole, Least: 1, Most: 5},
	{Path: "tags", Kind: content.Texts},
	{Path: "click", Kind: content.Text},
	{Path: "icon", Kind: content.Text},
	{Path: "attach", Kind: content.Text},
	{Path: "filename", Kind: content.Text},
	{Path: "markdown", Kind: content.YesNo},
	{Path: "actions", Kind: content.Structs, Most: 3},
	{Path: "sequence_id", Kind: content.Text},
	{Path: "cache", Kind: content.Text},
	{Path: "firebase", Kind: content.Text},
	{Path: "topic", Refused: "is set from the target"},
	{Path: "delay", Refused: "would deliver it at a time that the limits do not allow; set send_at instead"},
	{Path: "email", Refused: "would reach somebody in a way that no limit counts"},
	{Path: "call", Refused: "would reach somebody in a way that no limit counts"},
}

// checkMembers refuses a message that ntfy would refuse or cut.
func checkMembers(message map[string]any) error {
	if err := Fields.Check(message); err != nil {
		return err
	}
	text, ok := message["message"].(string)
	if !ok {
		return errors.New("message: must be a text")
	}
	return content.Limit("ntfy", len(text), maxText)
}
