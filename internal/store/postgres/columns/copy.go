package columns

import (
	"encoding/binary"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// copyHeader begins rows in Postgres's binary format: its signature, no flags, no extension.
const copyHeader = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// rowSize is about how long a row of little content is.
const rowSize = 256

// Encode writes a batch as COPY reads it, with when it was accepted, and the arrival of each.
func Encode(batch []*notification.Notification, at time.Time, arrival func(int) int64) []byte {
	size := 0
	for _, n := range batch {
		size += rowSize + len(n.UserID) + len(n.To) + len(n.Title) + len(n.Body) + len(n.Data) + len(n.Override)
	}
	rows := append(make([]byte, 0, size), copyHeader...)
	for i, n := range batch {
		rows = binary.BigEndian.AppendUint16(rows, givenCount+2)
		rows = appendTime(appendGiven(rows, n), at)
		rows = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(rows, 8), uint64(arrival(i)))
	}
	return binary.BigEndian.AppendUint16(rows, 0xffff) // the end
}

func appendText[T string | []byte](rows []byte, text T) []byte {
	return append(binary.BigEndian.AppendUint32(rows, uint32(len(text))), text...)
}

// absent is the length of NULL.
const absent = 0xffffffff

// appendDocument appends a text or JSON, and NULL for none.
func appendDocument(rows, document []byte) []byte {
	if len(document) == 0 {
		return binary.BigEndian.AppendUint32(rows, absent)
	}
	return appendText(rows, document)
}

// copyEpoch is the moment from which Postgres counts: the beginning of the year 2000, in µs.
const copyEpoch = 946_684_800_000_000

// appendTime appends a time, and NULL for the zero time.
func appendTime(rows []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.BigEndian.AppendUint32(rows, absent)
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(rows, 8), uint64(t.UnixMicro()-copyEpoch))
}

// appendGiven appends GivenColumns of a notification, in Postgres's binary format.
func appendGiven(row []byte, n *notification.Notification) []byte {
	for _, text := range [...]string{n.ID, n.UserID, n.Category, string(n.Channel), n.To, n.Title, n.Body} {
		row = appendText(row, text)
	}
	row = appendDocument(row, n.Data)
	row = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(row, 2), uint16(n.Priority))
	row = appendTime(appendTime(row, n.SendAt), n.ExpiresAt)
	row = appendText(appendDocument(appendText(row, n.CollapseKey), n.Override), n.TraceParent)
	row = appendDocument(appendDocument(row, []byte(n.IdempotencyKey)), []byte(n.Fingerprint))
	return appendText(row, n.GroupKey)
}
