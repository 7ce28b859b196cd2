package slack

import (
	"errors"
	"strings"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/content"
)

// maxMessage bounds a message, in bytes. Slack documents no limit for it; what a notification may hold in Slack's
// format is bounded already.
const maxMessage = 512 << 10

// Fields are what Slack documents for incoming webhooks. Other servers that take the same messages, such as Mattermost,
// ignore the case of names.
var Fields = content.Fields{
	{Path: "text", Kind: content.Text, Most: 40_000},
	{Path: "blocks", Kind: content.Structs, Most: 50},
	{Path: "attachments", Kind: content.Structs, Most: 100},
	{Path: "unfurl_links", Kind: content.YesNo},
	{Path: "unfurl_media", Kind: content.YesNo},
	{Path: "mrkdwn", Kind: content.YesNo},
	{Path: "thread_ts", Kind: content.Text},
	{Path: "metadata", Kind: content.Struct},
	{Path: "channel", Refused: "is set from the target"},
}

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
	if err := Fields.Check(message); err != nil {
		return nil, err
	}
	text, _ := message["text"].(string)
	blocks, _ := message["blocks"].([]any)
	attachments, _ := message["attachments"].([]any)
	if text == "" && len(blocks) == 0 && len(attachments) == 0 {
		return nil, errors.New("shows nothing: a message needs a title, a body, blocks or attachments")
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
