package slack

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/content"
)

// Slack documents how long a text and how many blocks and attachments a message may have. For a whole message it
// documents no limit; what a notification may hold in Slack's format is bounded already.
const (
	maxText        = 40_000 // characters
	maxBlocks      = 50
	maxAttachments = 100
	maxMessage     = 512 << 10 // bytes
)

// escape writes a text as Slack wants it, so that nobody is mentioned and no link is made by a title or a body.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// message makes the message to post: title and body as the text, and over it the override. Slack has no place for data.
func message(n *notification.Notification) ([]byte, error) {
	message := map[string]any{}
	if text := textOf(n); text != "" {
		message["text"] = text
	}
	if err := content.Merge(message, n.Override); err != nil {
		return nil, err
	}
	// Other servers that take the same messages, such as Mattermost, ignore the case.
	if err := content.CheckCase(message, "channel", "text", "blocks", "attachments"); err != nil {
		return nil, err
	}
	if err := checkMembers(message); err != nil {
		return nil, err
	}
	return content.Encode("Slack", message, maxMessage)
}

// textOf is the title in bold, and below it the body.
func textOf(n *notification.Notification) string {
	lines := strings.FieldsFunc(n.Title, func(r rune) bool { return r == '\n' || r == '\r' })
	title := escape.Replace(strings.Join(lines, " "))
	if title != "" && !strings.Contains(title, "*") {
		title = "*" + title + "*"
	}
	if title != "" && n.Body != "" {
		title += "\n"
	}
	return title + escape.Replace(n.Body)
}

// checkMembers refuses messages that Slack would refuse or cut, and those that would reach others.
func checkMembers(message map[string]any) error {
	if _, given := message["channel"]; given {
		return errors.New("channel: is set from the target")
	}
	shown := false
	if given, ok := message["text"]; ok {
		text, ok := given.(string)
		if !ok {
			return errors.New("text: must be a text")
		}
		if length := utf8.RuneCountInString(text); length > maxText {
			return fmt.Errorf("text: has %d characters, and Slack takes at most %d", length, maxText)
		}
		shown = text != ""
	}
	for _, list := range []struct {
		name string
		most int
	}{{"blocks", maxBlocks}, {"attachments", maxAttachments}} {
		given, ok := message[list.name]
		if !ok {
			continue
		}
		all, ok := given.([]any)
		switch {
		case !ok:
			return fmt.Errorf("%s: must be a list", list.name)
		case len(all) > list.most:
			return fmt.Errorf("%s: has %d, and Slack takes at most %d", list.name, len(all), list.most)
		}
		shown = shown || len(all) > 0
	}
	if !shown {
		return errors.New("shows nothing: a message needs a title, a body, blocks or attachments")
	}
	return nil
}
