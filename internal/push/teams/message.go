package teams

import (
	"errors"
	"strings"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/content"
)

// maxMessage is how long a message may be, in bytes. Microsoft documents 28 KB; that these are KiB is assumed.
const maxMessage = 28 << 10

// The Adaptive Card that is made. Teams shows all of version 1.2, in which the elements below came.
const (
	cardType    = "AdaptiveCard"
	cardSchema  = "http://adaptivecards.io/schemas/adaptive-card.json"
	cardVersion = "1.2"
)

// Fields are what Microsoft documents of an Adaptive Card.
var Fields = content.Fields{
	{Path: "type", Kind: content.Text, Values: []string{cardType}},
	{Path: "version", Kind: content.Text},
	{Path: "body", Kind: content.Structs},
	{Path: "actions", Kind: content.Structs},
	{Path: "selectAction", Kind: content.Struct},
	{Path: "msteams", Kind: content.Struct},
	{Path: "refresh", Kind: content.Struct},
	{Path: "authentication", Kind: content.Struct},
	{Path: "fallbackText", Kind: content.Text},
	{Path: "speak", Kind: content.Text},
	{Path: "lang", Kind: content.Text},
	{Path: "minHeight", Kind: content.Text},
	{Path: "rtl", Kind: content.YesNo},
	{Path: "verticalContentAlignment", Kind: content.Text, Values: []string{"top", "center", "bottom"}},
}

// message makes the message to post: a card with title and body, and over the card the override. A card has no place
// for data.
func message(n *notification.Notification) ([]byte, error) {
	card := map[string]any{"type": cardType, "$schema": cardSchema, "version": cardVersion, "body": bodyOf(n)}
	if err := content.Merge(card, n.Override); err != nil {
		return nil, err
	}
	if err := Fields.Check(card); err != nil {
		return nil, err
	}
	if card["type"] != cardType {
		return nil, errors.New("type: must be AdaptiveCard")
	}
	if shown, ok := card["body"].([]any); !ok || len(shown) == 0 {
		return nil, errors.New("shows nothing: a card needs a title, a body, or elements in its own body")
	}
	return content.Encode("Teams", map[string]any{
		"type": "message",
		"attachments": []any{map[string]any{
			"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card,
		}},
	}, maxMessage)
}

// bodyOf is the title in bold, and below it the lines of the body. Rich text is shown as it is written, where a text
// block would read it as Markdown: a notification could show a link that leads elsewhere.
func bodyOf(n *notification.Notification) []any {
	body := []any{}
	if n.Title != "" {
		body = append(body, line(n.Title, map[string]any{"size": "Medium", "weight": "Bolder"}, "Default"))
	}
	spacing := "Default"
	for text := range strings.SplitSeq(strings.ReplaceAll(n.Body, "\r\n", "\n"), "\n") {
		if n.Body == "" {
			break
		}
		if text == "" { // an element without a text takes no room
			text = "\u00a0"
		}
		body = append(body, line(text, map[string]any{}, spacing))
		spacing = "None"
	}
	return body
}

// line is one line of rich text.
func line(text string, run map[string]any, spacing string) map[string]any {
	run["type"], run["text"] = "TextRun", text
	return map[string]any{"type": "RichTextBlock", "spacing": spacing, "inlines": []any{run}}
}
