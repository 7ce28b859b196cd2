package feedback

import (
	"encoding/base64"
	"io"
	"mime/quotedprintable"
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
	// maxPart bounds each of the parts, maxField about a field of a header.
	maxPart, maxField = 256 << 10, 16 << 10
	// maxTried bounds how many tokens and ids of a report are tried.
	maxTried = 50
)

// report is what a message says that is a delivery status notification (RFC 3464) or a complaint (RFC 5965).
type report struct {
	// complaint is true when a user called the mail unwanted.
	complaint bool
	// recipients are those that it tells of.
	recipients []recipient
	// at is when the mail was tried last, where nothing is said of a recipient; zero when the report does not say.
	at time.Time
	// addresses and links are texts in which the signed token may be, ids which notification it may be.
	addresses, links, ids []string
	// parts is how many parts may still be read.
	parts int
}

// recipient is what became of a mail to one address.
type recipient struct {
	// names are the address, as the report has it: as it was given and where it led.
	names []string
	// failed is true when the mail was given up; status and diagnostic say why, as 5.1.1 and "smtp; 550 5.1.1 …".
	failed             bool
	status, diagnostic string
	at                 time.Time // of the last attempt; zero when it is not said
}

// parse reads a report. It returns nil for every other message, such as an automatic reply, and for what can't be read.
func parse(message []byte) *report {
	text := lineEnds.ReplaceAllString(string(message), "\n")
	header, body := cutHeader(strings.TrimLeft(text, " \t\n\ufeff"))
	r := &report{parts: maxParts}
	for _, name := range []string{"Delivered-To", "X-Original-To", "Envelope-To", "To"} {
		r.addresses = append(r.addresses, header[textproto.CanonicalMIMEHeaderKey(name)]...)
	}
	r.at, _ = mail.ParseDate(header.Get("Date")) // it stays zero
	if !r.readParts(header.Get("Content-Type"), body) {
		return nil
	}
	return r
}

var (
	// lineEnds are those of mails that programs of several systems have handled.
	lineEnds = regexp.MustCompile(`\r*\n|\r`)
	// boundaries finds the boundary in a Content-Type, whose other parameters may be anything.
	boundaries = regexp.MustCompile(`(?i)boundary\s*=\s*(?:"([^"]+)"|([^\s;"]+))`)
)

// readParts reads the parts of a body that has some. It reports whether one of them makes the message a report.
func (r *report) readParts(contentType, body string) (known bool) {
	found := boundaries.FindStringSubmatch(contentType)
	if !strings.HasPrefix(mediaOf(contentType), "multipart/") || found == nil {
		return false
	}
	boundary, begun := "--"+found[1]+found[2], false
	var part strings.Builder
	read := func() {
		known = begun && r.read(part.String()) || known
		part.Reset()
	}
	for line := range strings.SplitSeq(body, "\n") {
		switch strings.TrimRight(line, " \t") {
		case boundary:
			read()
			begun = true
		case boundary + "--":
			read()
			begun = false
		default:
			part.WriteString(line + "\n")
		}
	}
	read() // as much as there is of a part that was cut off
	return known
}

// mediaOf is the media type of a Content-Type.
func mediaOf(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// read reads a part of the report. It reports whether the part makes the message a report.
func (r *report) read(part string) bool {
	if r.parts--; r.parts < 0 {
		return false
	}
	header, body := cutHeader(part)
	contentType := header.Get("Content-Type")
	body = decode(header.Get("Content-Transfer-Encoding"), body[:min(len(body), maxPart)])
	switch mediaOf(contentType) {
	case "message/delivery-status", "message/global-delivery-status":
		r.readStatus(groups(body))
		return true
	case "message/feedback-report":
		for _, group := range groups(body) {
			kind := strings.ToLower(group.Get("Feedback-Type"))
			r.complaint = r.complaint || kind == "abuse" || kind == "opt-out"
		}
		return true
	case "message/rfc822", "message/global", "message/global-headers", "text/rfc822-headers":
		if all := groups(body); len(all) > 0 {
			r.readOriginal(all[0])
		}
	}
	return r.readParts(contentType, body)
}

// decode undoes a part's encoding, as far as it can be undone.
func decode(encoding, body string) string {
	var reader io.Reader
	switch strings.ToLower(encoding) {
	case "base64":
		reader = base64.NewDecoder(base64.StdEncoding, strings.NewReader(strings.Join(strings.Fields(body), "")))
	case "quoted-printable":
		reader = quotedprintable.NewReader(strings.NewReader(body))
	default:
		return body
	}
	text, _ := io.ReadAll(reader) // up to what can't be read
	return lineEnds.ReplaceAllString(string(text), "\n")
}

// enhanced finds an enhanced status code, refusal the code with which a mail server begins to refuse for good.
var (
	enhanced = regexp.MustCompile(`\b[245]\.\d{1,3}\.\d{1,3}\b`)
	refusal  = regexp.MustCompile(`^(?i:smtp;)?\s*5\d\d\b`)
	unsaid   = regexp.MustCompile(`^[245]\.0\.0$`)
)

// readStatus reads what is said of the mail, and of each recipient.
func (r *report) readStatus(all []textproto.MIMEHeader) {
	for _, group := range all {
		if id := group.Get("Original-Envelope-Id"); id != "" {
			r.ids = append(r.ids, id)
		}
		if at, err := mail.ParseDate(group.Get("Arrival-Date")); err == nil && r.at.IsZero() {
			r.at = at
		}
		to := recipient{
			names:      slices.Concat(group["Original-Recipient"], group["Final-Recipient"]),
			diagnostic: group.Get("Diagnostic-Code"), status: enhanced.FindString(group.Get("Status")),
		}
		said := enhanced.FindString(to.diagnostic)
		if said != "" && (to.status == "" || unsaid.MatchString(to.status)) {
			to.status = said // what the server said is more than "failed for another reason"
		}
		if to.status == "" && refusal.MatchString(to.diagnostic) {
			to.status = "5.0.0"
		}
		action := strings.ToLower(group.Get("Action"))
		if len(to.names) == 0 && action == "" && to.status == "" {
			continue // it is about the mail
		}
		to.failed = strings.HasPrefix(action, "fail") || action == "" && strings.HasPrefix(to.status, "5.")
		to.at, _ = mail.ParseDate(group.Get("Last-Attempt-Date")) // it stays zero
		r.recipients = append(r.recipients, to)
	}
}

// about finds what is said of the recipient that is meant, or else of the first for which the mail was given up: where
// a server forwards mail, the report has only the addresses that it leads to.
func (r *report) about(meant func(name string) bool) recipient {
	var found recipient
	for _, to := range r.recipients {
		if slices.ContainsFunc(to.names, func(name string) bool {
			return meant(strings.TrimSpace(name[strings.LastIndexByte(name, ';')+1:]))
		}) {
			found = to
			break
		}
		if to.failed && !found.failed {
			found = to
		}
	}
	if found.at.IsZero() {
		found.at = r.at
	}
	return found
}

// readOriginal reads the header of the mail that the report is about.
func (r *report) readOriginal(header textproto.MIMEHeader) {
	r.links = append(r.links, header["List-Unsubscribe"]...)
	r.addresses = append(r.addresses, header["Return-Path"]...)
	for _, id := range header["Message-Id"] {
		id, _, _ = strings.Cut(strings.Trim(id, "<>"), "@")
		r.ids = append(r.ids, id)
	}
}

// groups reads groups of header fields with empty lines between them.
func groups(text string) []textproto.MIMEHeader {
	var all []textproto.MIMEHeader
	for text != "" && len(all) < maxGroups {
		var group textproto.MIMEHeader
		if group, text = cutHeader(strings.TrimLeft(text, "\n")); len(group) > 0 {
			all = append(all, group)
		}
	}
	return all
}

// cutHeader reads a header as leniently as it may have been written, and returns what follows it. Lines that are no
// field do no harm. A second recipient begins another header, also without the empty line between them.
func cutHeader(text string) (header textproto.MIMEHeader, rest string) {
	header, name := textproto.MIMEHeader{}, ""
	for text != "" {
		line, after, _ := strings.Cut(text, "\n")
		value := strings.TrimSpace(line)
		if value == "" {
			return header, after
		}
		if line[0] != ' ' && line[0] != '\t' {
			name, value, _ = strings.Cut(line, ":")
			if name = textproto.CanonicalMIMEHeaderKey(strings.TrimRight(name, " \t")); name == "Final-Recipient" &&
				len(header[name]) > 0 {
				return header, text
			}
			header[name] = append(header[name], strings.TrimSpace(value))
		} else if all := header[name]; len(all) > 0 && len(all[len(all)-1]) < maxField {
			all[len(all)-1] = strings.TrimSpace(all[len(all)-1] + " " + value)
		}
		text = after
	}
	return header, ""
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
