package feedback

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// maxParts and maxGroups bound what is read of a report: its parts, and the recipients that it tells of.
	maxParts, maxGroups = 8, 100
	// maxPart bounds each of the parts.
	maxPart = 256 << 10
	// maxTried bounds how many tokens and ids of a report are tried.
	maxTried = 50
)

// report is what a message says that is a delivery status notification (RFC 3464) or a complaint (RFC 5965).
type report struct {
	// complaint is true when a user called the mail unwanted.
	complaint bool
	// failed is true when the mail was given up; status and diagnostic say why, as 5.1.1 and "smtp; 550 5.1.1 …".
	failed             bool
	status, diagnostic string
	// at is when the mail was tried last; zero when the report does not say.
	at time.Time
	// addresses and links are texts in which the signed token may be, ids which notification it may be.
	addresses, links, ids []string
}

// parse reads a report. It returns nil for every other message, such as an automatic reply, and for what can't be read.
func parse(message []byte) *report {
	m, err := mail.ReadMessage(bytes.NewReader(message))
	if err != nil {
		return nil
	}
	media, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || media != "multipart/report" || params["boundary"] == "" {
		return nil
	}
	r := &report{}
	for _, name := range []string{"Delivered-To", "X-Original-To", "Envelope-To", "To"} {
		r.addresses = append(r.addresses, m.Header[textproto.CanonicalMIMEHeaderKey(name)]...)
	}
	r.at, _ = m.Header.Date() // it stays zero
	known := false
	parts := multipart.NewReader(m.Body, params["boundary"])
	for range maxParts {
		part, err := parts.NextRawPart()
		if err != nil {
			break // the end, or as much as there is of it
		}
		known = r.read(part) || known
	}
	if !known {
		return nil
	}
	return r
}

// read reads a part of the report. It reports whether the part makes the message a report.
func (r *report) read(part *multipart.Part) bool {
	media, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
	if err != nil {
		return false
	}
	switch media {
	case "message/delivery-status", "message/global-delivery-status":
		r.readStatus(groups(part))
		return true
	case "message/feedback-report":
		for _, group := range groups(part) {
			kind := strings.ToLower(strings.TrimSpace(group.Get("Feedback-Type")))
			r.complaint = r.complaint || kind == "abuse" || kind == "opt-out"
		}
		return true
	case "message/rfc822", "message/global", "message/global-headers", "text/rfc822-headers":
		if all := groups(part); len(all) > 0 {
			r.readOriginal(all[0])
		}
	}
	return false
}

// enhanced finds an enhanced status code, basic a code that a mail server begins its reply with.
var (
	enhanced = regexp.MustCompile(`\b[245]\.\d{1,3}\.\d{1,3}\b`)
	unsaid   = regexp.MustCompile(`^[245]\.0\.0$`)
)

// readStatus reads what is said of the mail, and of the recipient that it was given up for.
func (r *report) readStatus(all []textproto.MIMEHeader) {
	for _, group := range all {
		if id := strings.TrimSpace(group.Get("Original-Envelope-Id")); id != "" {
			r.ids = append(r.ids, id)
		}
		if at, err := mail.ParseDate(group.Get("Arrival-Date")); err == nil && r.at.IsZero() {
			r.at = at
		}
		action := strings.Fields(strings.ToLower(group.Get("Action")))
		if len(action) == 0 || action[0] != "failed" || r.failed {
			continue
		}
		r.failed = true
		r.diagnostic = strings.TrimSpace(group.Get("Diagnostic-Code"))
		r.status = enhanced.FindString(group.Get("Status"))
		if said := enhanced.FindString(r.diagnostic); said != "" && (r.status == "" || unsaid.MatchString(r.status)) {
			r.status = said // what the server said is more than "failed for another reason"
		}
		if at, err := mail.ParseDate(group.Get("Last-Attempt-Date")); err == nil {
			r.at = at
		}
	}
}

// readOriginal reads the header of the mail that the report is about.
func (r *report) readOriginal(header textproto.MIMEHeader) {
	r.links = append(r.links, header["List-Unsubscribe"]...)
	r.addresses = append(r.addresses, header["Return-Path"]...)
	for _, id := range header["Message-Id"] {
		id, _, _ = strings.Cut(strings.Trim(strings.TrimSpace(id), "<>"), "@")
		r.ids = append(r.ids, id)
	}
}

// groups reads groups of header fields with empty lines between them.
func groups(part *multipart.Part) []textproto.MIMEHeader {
	body := io.LimitReader(part, maxPart)
	if strings.EqualFold(strings.TrimSpace(part.Header.Get("Content-Transfer-Encoding")), "base64") {
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	reader := textproto.NewReader(bufio.NewReader(body))
	var all []textproto.MIMEHeader
	for range maxGroups {
		group, err := reader.ReadMIMEHeader()
		if len(group) > 0 {
			all = append(all, group)
		}
		if _, malformed := errors.AsType[textproto.ProtocolError](err); err != nil && !malformed {
			break
		}
	}
	return all
}

var (
	addressTokens = regexp.MustCompile(`\+([A-Za-z2-7]{47})@`)
	linkTokens    = regexp.MustCompile(`/v1/unsubscribe/([A-Za-z0-9_-]+)`)
)

// find lists what a pattern's group matches in some texts.
func find(pattern *regexp.Regexp, texts []string) []string {
	var all []string
	for _, text := range texts {
		for _, match := range pattern.FindAllStringSubmatch(text, maxTried) {
			all = append(all, match[1])
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), maxTried)]
}
