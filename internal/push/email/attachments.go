package email

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode"

	gomail "github.com/wneessen/go-mail"
)

const (
	// maxAttachments is how many attachments an e-mail may have, maxFileName how long their names may be, in bytes. How
	// long they may be together follows from the limit of the content that they are part of.
	maxAttachments, maxFileName = 20, 200
)

// attachment is a file that comes with an e-mail.
type attachment struct {
	Name string `json:"name"`
	// Type is the media type. Defaults to application/octet-stream.
	Type string `json:"type"`
	// Content is in base64.
	Content string `json:"content"`
	// CID is the name under which the HTML part shows it, as in <img src="cid:logo">. Empty for a file to be saved.
	CID string `json:"cid"`
}

// attach adds the attachments.
func attach(message *gomail.Msg, all []attachment) error {
	if len(all) > maxAttachments {
		return fmt.Errorf("attachments: there may be at most %d, not %d", maxAttachments, len(all))
	}
	for i, a := range all {
		if err := a.add(message); err != nil {
			return fmt.Errorf("attachments[%d]: %w", i, err)
		}
	}
	return nil
}

func (a attachment) add(message *gomail.Msg) error {
	if a.Name == "" || len(a.Name) > maxFileName || strings.ContainsFunc(a.Name, func(r rune) bool {
		return unicode.IsControl(r) || r == '/' || r == '\\' || r == unicode.ReplacementChar
	}) {
		return fmt.Errorf("name: must have 1 to %d bytes, without slashes and control characters", maxFileName)
	}
	if a.Type == "" {
		a.Type = "application/octet-stream"
	}
	media, params, err := mime.ParseMediaType(a.Type)
	if err != nil || !strings.Contains(media, "/") || strings.HasPrefix(media, "multipart/") ||
		strings.HasPrefix(media, "message/") || len(a.Type) > maxFileName || mime.FormatMediaType(media, params) == "" {
		return errors.New("type: must be the media type of a file, such as application/pdf")
	}
	raw, err := base64.StdEncoding.DecodeString(a.Content)
	if err != nil {
		return errors.New("content: must be base64")
	}
	if len(a.CID) > maxHeaderName || strings.ContainsFunc(a.CID, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-@", r)
	}) {
		return fmt.Errorf("cid: may have up to %d letters, digits and . _ - @", maxHeaderName)
	}
	add, disposition := message.AttachReader, "attachment"
	if a.CID != "" {
		add, disposition = message.EmbedReader, "inline"
	}
	return add(a.Name, bytes.NewReader(raw), func(f *gomail.File) {
		// The library would write names that are not ASCII in a form that the standard does not have.
		f.Header.Set("Content-Type", mime.FormatMediaType(media, params))
		f.Header.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": a.Name}))
		if a.CID != "" {
			f.Header.Set("Content-Id", "<"+a.CID+">")
		}
	})
}
