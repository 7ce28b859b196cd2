package email

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/content"
)

// maxMessage is how long text and HTML together may be, in bytes.
const maxMessage = 1 << 20

// override is what a producer may set besides title and body.
type override struct {
	Subject     *string           `json:"subject"`
	Text        *string           `json:"text"`
	HTML        string            `json:"html"`
	ReplyTo     string            `json:"reply_to"`
	Headers     map[string]string `json:"headers"`
	Attachments []attachment      `json:"attachments"`
}

// members are those of an override, in the order in which they are told.
var members = []string{"subject", "text", "html", "reply_to", "headers", "attachments"}

// message makes the e-mail: the title becomes the subject and the body the text. The override can replace both, and add
// an HTML part, headers and attachments.
func message(n *notification.Notification, from, to *mail.Address) (*gomail.Msg, error) {
	var o override
	if err := readOverride(n.Override, &o); err != nil {
		return nil, err
	}
	// A title that was accepted for another channel may hold line breaks.
	subject, text := strings.Join(strings.FieldsFunc(n.Title, isBreak), " "), n.Body
	if o.Subject != nil {
		subject = *o.Subject
		if strings.ContainsFunc(*o.Subject, unicode.IsControl) {
			return nil, errors.New("subject: must not hold control characters or line breaks")
		}
	}
	if o.Text != nil {
		text = *o.Text
	}
	if err := content.Limit("e-mail", len(text)+len(o.HTML), maxMessage); err != nil {
		return nil, err
	}
	message := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	message.FromMailAddress(from)
	message.ToMailAddress(to)
	if o.ReplyTo != "" {
		address, err := parseAddress(o.ReplyTo)
		if err != nil {
			return nil, fmt.Errorf("reply_to: %w", err)
		}
		message.ReplyToMailAddress(address)
	}
	message.Subject(encodeSubject(subject))
	identify(message, n, from)
	message.SetBodyString(gomail.TypeTextPlain, text)
	if o.HTML != "" {
		message.AddAlternativeString(gomail.TypeTextHTML, o.HTML)
	}
	return message, errors.Join(addHeaders(message, o.Headers), attach(message, o.Attachments))
}

// identify writes what the message is: the same at each attempt.
func identify(message *gomail.Msg, n *notification.Notification, from *mail.Address) {
	message.SetMessageIDWithValue(messageID(n.ID, from.Address))
	message.SetDateWithValue(dateOf(n))
	// Automatic responders must not reply to this.
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	if !n.ExpiresAt.IsZero() {
		message.SetGenHeader("Expires", n.ExpiresAt.UTC().Format(time.RFC1123Z))
	}
}

// dateOf is the date of the message, the same at each attempt: when it was accepted or, if it is scheduled,
// for when. Mail programs sort by it, and spam filters suspect what is old.
func dateOf(n *notification.Notification) time.Time {
	date := n.CreatedAt
	if n.SendAt.After(date) {
		date = n.SendAt
	}
	if date.Year() < 1970 { // there is none, or a date header can't hold it
		return time.Now()
	}
	return date
}

// readOverride reads the override and refuses unknown members.
func readOverride(text json.RawMessage, o *override) error {
	if len(text) == 0 {
		return nil
	}
	given, err := content.Object(text)
	if err != nil {
		return err
	}
	for name := range given {
		if !slices.Contains(members, name) {
			return errors.New("may hold " + nearest.List(members) + nearest.Hint(name, members))
		}
	}
	if err := json.Unmarshal(text, o); err != nil {
		return errors.New("subject, text, html and reply_to must be texts, headers an object of texts, and attachments a " +
			"list of objects with name, type, content and cid")
	}
	return nil
}

func isBreak(r rune) bool { return r == '\r' || r == '\n' }

// line makes a single line of a text that goes into a header. It leaves one blank where there are several: the library
// breaks lines at blanks, and of many it makes a line of blanks, which some mail servers take for the header's end.
func line(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || unicode.IsControl(r) }), " ")
}

// messageID is the same at every attempt, and different for every notification.
func messageID(id, from string) string {
	if strings.Contains(id, ":") || strings.HasPrefix(id, ".") || strings.HasSuffix(id, ".") ||
		strings.Contains(id, "..") {
		id = content.Digest(id) // a Message-ID can't hold this id
	}
	_, domain := split(from)
	return id + "@" + domain
}
