// Package record keeps what a deployment knows of itself: documents, such as what is paused, jobs and webhook
// endpoints, and logs of what happened, such as the events.
//
//	Store   keeps both: on Redis, or in Postgres
//	Kind    is the documents of one type; it changes one at a time
//	Cursor  is how far somebody has read the changes of a kind
//
// A document is JSON under a key. Its version is the number of its latest change among those of its kind; whoever
// changes it says which version he has read, and writes nothing when it has another by then. Numbers are given in the
// order in which the changes can be seen, so a process that reads the changes by their numbers misses none. A number
// is the moment of the change in µs, and higher than that of every change before it: a server which has lost the latest
// changes numbers no new one like them.
//
// What a change tells is written together with it, to a log, still without a number. The lines of a log get their
// numbers, one after the other, once they are there: their numbers have no gaps.
package record

import (
	"context"
	"errors"
	"time"
)

// Record is a document as a store keeps it.
type Record struct {
	// Key is empty in a list of changes where removed ones were forgotten: it has the latest of these changes.
	Key     string
	Version int64
	// Body is nil when there is none, or none any more.
	Body []byte
}

// Write is a change of one document.
type Write struct {
	Kind, Key string
	// Was is the version that was read; 0 when there was none.
	Was int64
	// Body is the document from now on; nil removes it.
	Body []byte
	// Alias is a second name of it, which no other of its kind may have; empty for none. WasAlias is the one before.
	Alias, WasAlias string
	// Most is how many of the kind there may be; 0 for any number.
	Most int
	// Keep is how long it is known that one was removed.
	Keep time.Duration
	// Lines are written to a log, if and only if the document is.
	Log   Log
	Lines [][]byte
}

// ForgetAtOnce is how many that were removed long ago a write forgets.
const ForgetAtOnce = 100

// Log is a series of lines.
type Log struct {
	Name string
	// Keep is how long lines are kept at least, and Most how many are kept on Redis, the newest.
	Keep time.Duration
	Most int
	// Happened says that on Postgres its lines come from the table pacer.happened, too.
	Happened bool
}

// Line is one line of a log.
type Line struct {
	// Number is one more than that of the line before it. After a fail-over of Redis, which may lose the latest lines,
	// numbers are left out.
	Number int64
	At     time.Time
	Text   []byte
}

// Store keeps documents and logs.
type Store interface {
	Documents
	Logs
}

// Documents keeps documents. Its times are of one clock.
type Documents interface {
	// Now returns the time.
	Now(ctx context.Context) (time.Time, error)
	// Get returns a document, and the time. Of one that was removed of late there is a version.
	Get(ctx context.Context, kind, key string) (Record, time.Time, error)
	// List returns documents with keys beyond after, in the order of keys, at most limit; all, when that is 0. It does
	// not tell their versions.
	List(ctx context.Context, kind, after string, limit int) ([]Record, error)
	// Changes returns the documents whose latest change has a number from this one on, removed ones too, in the order
	// of these changes, at most limit. When it is but the one with this number, its body may be missing.
	Changes(ctx context.Context, kind string, from int64, limit int) ([]Record, error)
	// Write writes a document and returns its version, or [ErrChanged], [ErrTooMany] or a [*TakenError].
	Write(ctx context.Context, w Write) (version int64, err error)
}

// Logs keeps logs.
type Logs interface {
	// Append writes a line.
	Append(ctx context.Context, log Log, text []byte) error
	// After returns the lines with numbers beyond this one, in order, at most limit.
	After(ctx context.Context, log Log, number int64, limit int) ([]Line, error)
	// Newest returns the latest lines, newest first.
	Newest(ctx context.Context, log Log, limit int) ([]Line, error)
	// Latest returns the number of the latest line that there ever was.
	Latest(ctx context.Context, log Log) (int64, error)
	// Forget removes some of the lines that were kept long enough, and reports whether there may be more of them.
	Forget(ctx context.Context, log Log) (more bool, err error)
}

// The errors of a write.
var (
	// ErrChanged says that the document has another version.
	ErrChanged = errors.New("others were changing it at the same time; try again")
	ErrTooMany = errors.New("there are too many of its kind")
)

// TakenError says that another document has the alias.
type TakenError struct{ Key string }

// Error names the other one.
func (e *TakenError) Error() string { return "its alias is that of " + e.Key }
