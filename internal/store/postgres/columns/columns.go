// Package columns reads and writes the rows of notifications: their columns, once for each direction, and what
// statements ask of them.
package columns

import (
	"encoding/json"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// What a producer gives with a notification is listed here once for each direction: in order for the statements, for
// the arrays and the rows that fill them, and for what is read.

const (
	// GivenColumns are the columns that are written when a notification is accepted, besides accepted_at and arrival.
	GivenColumns = `id, user_id, category, channel, target, title, body, data, priority, send_at, expires_at, collapse_key,
	override, traceparent, idempotency_key, fingerprint, group_key`
	// GivenArrays are those of GivenArgs, whose elements have GivenColumns' names.
	GivenArrays = `$1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::json[],
	$9::int[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::json[], $14::text[], $15::text[],
	$16::text[], $17::text[]`
	// givenCount is how many they are.
	givenCount = 17
)

// GivenArgs turns notifications into GivenArrays.
func GivenArgs(batch []*notification.Notification) []any {
	n := len(batch)
	id, user, category, channel := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	target, title, body := make([]string, n), make([]string, n), make([]string, n)
	data, override, trace := make([]*string, n), make([]*string, n), make([]string, n)
	key, fingerprint := make([]*string, n), make([]*string, n)
	priority, sendAt, expiresAt := make([]int32, n), make([]*time.Time, n), make([]*time.Time, n)
	collapse, group := make([]string, n), make([]string, n)
	for i, x := range batch {
		id[i], user[i], category[i], channel[i] = x.ID, x.UserID, x.Category, string(x.Channel)
		target[i], title[i], body[i], collapse[i] = x.To, x.Title, x.Body, x.CollapseKey
		priority[i], sendAt[i], expiresAt[i] = int32(x.Priority), Timestamp(x.SendAt), Timestamp(x.ExpiresAt)
		data[i], override[i], trace[i] = document(x.Data), document(x.Override), x.TraceParent
		key[i], fingerprint[i], group[i] = document(x.IdempotencyKey), document(x.Fingerprint), x.GroupKey
	}
	return []any{
		id, user, category, channel, target, title, body, data, priority, sendAt, expiresAt, collapse,
		override, trace, key, fingerprint, group,
	}
}

// document gives a text or JSON to the driver, and NULL for none.
func document[T string | json.RawMessage](text T) *string {
	if len(text) == 0 {
		return nil
	}
	value := string(text)
	return &value
}

// Timestamp gives a time to the driver, and NULL for the zero time.
func Timestamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// ContentColumns are the columns of a notification n as it was accepted, besides its id and idempotency key.
const ContentColumns = `
	n.user_id, n.category, n.channel, n.target, n.title, n.body, n.data::text, n.override::text, n.traceparent,
	n.priority, n.send_at, n.expires_at, n.collapse_key, n.group_key, n.accepted_at, n.arrival`

// Content takes what ContentColumns has in another form than a notification.
type Content struct {
	channel           string
	data, override    *string
	sendAt, expiresAt *time.Time
}

// Into appends where a row's ContentColumns are scanned to; Fill does the rest.
func (c *Content) Into(targets []any, n *notification.Notification) []any {
	return append(targets, &n.UserID, &n.Category, &c.channel, &n.To, &n.Title, &n.Body, &c.data, &c.override,
		&n.TraceParent, &n.Priority, &c.sendAt, &c.expiresAt, &n.CollapseKey, &n.GroupKey, &n.CreatedAt,
		&n.Arrival)
}

// Fill fills in what Into could not.
func (c *Content) Fill(n *notification.Notification) {
	n.Channel = notification.Channel(c.channel)
	n.Data, n.Override = text(c.data), text(c.override)
	n.SendAt, n.ExpiresAt = Moment(c.sendAt), Moment(c.expiresAt)
}

// text reads a text, which is nil for NULL.
func text(value *string) []byte {
	if value == nil {
		return nil
	}
	return []byte(*value)
}

// LimiterMoment reads a moment on the limiter's clock, in µs, which is zero for NULL.
func LimiterMoment(micros *int64) time.Time {
	if micros == nil {
		return time.Time{}
	}
	return time.UnixMicro(*micros)
}

// Moment reads a time, which is zero for NULL.
func Moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
