package record

// Cursor is how far somebody has read the changes of a kind: page after page, each from the number of the last change
// that was read. The zero value has read nothing.
type Cursor struct {
	// From is the number of the latest change that was read.
	From int64
	key  string // what it was a change of
	// gone says that the store no longer has the change of goneKey; a later one of the same key explains it.
	gone    bool
	goneKey string
	// whole says that everything was read once; forgotten, that removed ones were forgotten since it was read last.
	whole, forgotten bool
}

// Step is what comes after a page.
type Step int

const (
	// Read says that all changes were read.
	Read Step = iota
	// More says that there may be more.
	More
	// Complete says that everything was read from the beginning: what was not in it is not there any more.
	Complete
	// Again says that the store has lost changes, or forgotten some: everything is to be read from the beginning.
	Again
)

// Next takes in a page that begins at From, and returns what of it is new. named names a change.
//
// A page begins with the last change that was read before, unless its key has changed again since: then that one comes,
// too. When neither comes, the store has lost changes.
func Next[C any](c *Cursor, page []C, full bool, named func(*C) (key string, number int64)) (fresh []C, next Step) {
	if c.From > 0 && !c.gone {
		var first int64
		if len(page) > 0 {
			_, first = named(&page[0])
		}
		c.gone, c.goneKey = first != c.From, c.key
	}
	for i := range page {
		key, number := named(&page[i])
		if number <= c.From {
			continue
		}
		c.From, c.key = number, key
		if key == "" {
			c.forgotten = c.forgotten || c.whole
			continue
		}
		c.gone = c.gone && key != c.goneKey
		fresh = append(fresh, page[i])
	}
	switch {
	case full:
		return fresh, More
	case c.gone || c.forgotten:
		*c = Cursor{}
		return fresh, Again
	case !c.whole:
		c.whole = true
		return fresh, Complete
	}
	return fresh, Read
}

// Name names a record, for [Next].
func Name(r *Record) (key string, number int64) { return r.Key, r.Version }
