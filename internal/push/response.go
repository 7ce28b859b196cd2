package push

import (
	"slices"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/timespan"
)

// Response is what a channel has read of a provider's response, as far as its [Table] looks at it.
type Response struct {
	// Status is the protocol's: of HTTP, or of SMTP. 0 when there was no response.
	Status int
	// Reason is the provider's own word for it, if it is one that the table knows.
	Reason string
	// Conditions are the conditions of the table that hold.
	Conditions []string
	// RetryAfter is how long the provider asks to wait; 0 when it did not say.
	RetryAfter time.Duration
	// Cut is true when the response ended before the provider's word and the conditions could be read.
	Cut bool
}

// Row says what one response of a provider means.
type Row struct {
	// Status that the response has; 4 is each of 4xx, and 0 any at all.
	Status int
	// Reason that it gives; empty is any or none.
	Reason string
	// If is a condition beyond both, in words.
	If string
	// Class is what it means for the notification; 0 is delivered.
	Class Class
	// Concerns is whom it concerns.
	Concerns Scope
	// Wait is how long to wait when the provider does not say.
	Wait time.Duration
	// Unsent is true when nothing was sent to whoever delivers.
	Unsent bool
}

// Table has what each response of a channel's provider means.
type Table []Row

// Row finds the row for a response: the one that says most of it. A condition says more than a reason, a reason more
// than a status, and a status more than its family.
func (t Table) Row(r Response) Row {
	best, most := Row{Class: Ambiguous, Concerns: ConcernsHost}, -1
	for _, row := range t {
		if said, fits := row.fits(r); fits && said > most {
			best, most = row, said
		}
	}
	return best
}

// Read says what a response means; nil is delivered. Only words of the table get into the code. A response that was cut
// ends a notification only where its status says enough.
func (t Table) Read(r Response) *Error {
	row := t.Row(r)
	if r.Cut && t.saysMore(row, r.Status) {
		row = Row{Class: Transient, Concerns: ConcernsHost}
	}
	if row.Class == 0 {
		return nil
	}
	failure := &Error{
		Class: row.Class, Concerns: row.Concerns, Code: strconv.Itoa(r.Status), RetryAfter: r.RetryAfter,
		Unsent: row.Unsent,
	}
	if failure.RetryAfter == 0 {
		failure.RetryAfter = row.Wait
	}
	if row.Reason != "" {
		failure.Code += "." + row.Reason
	}
	return failure
}

// saysMore reports whether a row ends the notification, and another row for the status, with a reason or a condition
// that could not be read, does not do the same.
func (t Table) saysMore(found Row, status int) bool {
	if found.Class != Permanent && found.Class != TargetGone {
		return false
	}
	return slices.ContainsFunc(t, func(other Row) bool {
		return other.Class != found.Class && (other.Status == status || other.Status == status/100) &&
			other.Reason+other.If != ""
	})
}

// Reasons lists the reasons that a table knows.
func (t Table) Reasons() []string {
	var reasons []string
	for _, row := range t {
		if row.Reason != "" && !slices.Contains(reasons, row.Reason) {
			reasons = append(reasons, row.Reason)
		}
	}
	return reasons
}

// fits reports whether a row is about a response, and how much it says of it.
func (row Row) fits(r Response) (said int, fits bool) {
	switch row.Status {
	case r.Status:
		said = 2
	case r.Status / 100:
		said = 1
	case 0:
	default:
		return 0, false
	}
	if row.Reason != "" {
		if row.Reason != r.Reason {
			return 0, false
		}
		said += 4
	}
	if row.If != "" {
		if !slices.Contains(r.Conditions, row.If) {
			return 0, false
		}
		said += 8
	}
	return said, true
}

// Response writes the row's response for people: "404 UNREGISTERED".
func (row Row) Response() string {
	text := ""
	switch {
	case row.Status >= 100:
		text = strconv.Itoa(row.Status)
	case row.Status > 0:
		text = strconv.Itoa(row.Status) + "xx"
	}
	for _, part := range []string{row.Reason, row.If} {
		switch {
		case part == "":
		case text == "":
			text = part
		case part == row.If:
			text += ", " + part
		default:
			text += " " + part
		}
	}
	return text
}

// Follows writes for people what follows for the notification.
func (row Row) Follows() string {
	text, before := "", " after "
	switch row.Class {
	case 0:
		return "delivered"
	case Permanent:
		return "fails"
	case TargetGone:
		return "fails, and the device is deactivated"
	case Transient, Ambiguous:
		text = "retried"
	case Throttled:
		text, before = "waits", " "
	case CredentialsRefused:
		text = "waits until the settings are right"
	case AlreadyDelivered:
		text = "delivered before"
	}
	if row.Wait > 0 {
		text += before + timespan.Text(row.Wait)
	}
	return text
}

// Reached writes for people whether anybody got the notification. Unless nobody did, the attempt counts against the
// user, see [Error.Counts].
func (row Row) Reached() string {
	switch {
	case row.Class == 0:
		return "yes"
	case (&Error{Class: row.Class, Unsent: row.Unsent}).Counts():
		return "perhaps"
	}
	return "no"
}
