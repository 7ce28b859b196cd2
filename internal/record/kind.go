package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Kind is the documents of one type.
type Kind[T any] struct {
	Store Documents
	Name  string
	// Encode and Decode make the JSON of a document and read it. They default to those of [json].
	Encode func(*T) ([]byte, error)
	Decode func(text []byte) (T, error)
	// Alias gives a document's second name. By default it has none.
	Alias func(*T) string
	// Most is how many there may be; 0 for any number. Keep is how long it is known that one was removed; by default an
	// hour.
	Most int
	Keep time.Duration
	// Log is where its changes are told.
	Log Log
}

// Draft is a document that is being changed.
type Draft[T any] struct {
	Key string
	// Doc is the zero value when there is none.
	Doc    T
	Exists bool
	// Now is the store's time.
	Now time.Time
	// Remove is set to remove the document. Tell has what the change tells.
	Remove bool
	Tell   []any
}

// ErrUnchanged ends a change that turns out to be none.
var ErrUnchanged = errors.New("nothing changes")

// tries is how often a change is tried when others come between, and longestPause bounds the pause after the first
// tries.
const (
	tries        = 100
	longestPause = 20 * time.Millisecond
)

// Change changes a document, alone: no other change comes between. It may be called several times, each time with what
// is there then. When it returns an error, nothing changes and that is returned, unless it is [ErrUnchanged].
func (k *Kind[T]) Change(ctx context.Context, key string, change func(*Draft[T]) error) (*Draft[T], error) {
	for try := 1; ; try++ {
		d, err := k.try(ctx, key, change)
		if !errors.Is(err, ErrChanged) || try == tries {
			return d, err
		}
		select {
		case <-ctx.Done():
			return d, ctx.Err()
		case <-time.After(rand.N(longestPause) * time.Duration(min(try, 10)) / 10): //nolint:gosec // spread, no secret
		}
	}
}

// try is Change, once.
func (k *Kind[T]) try(ctx context.Context, key string, change func(*Draft[T]) error) (*Draft[T], error) {
	found, now, err := k.Store.Get(ctx, k.Name, key)
	if err != nil {
		return nil, err
	}
	d := &Draft[T]{Key: key, Exists: found.Body != nil, Now: now}
	w := Write{Kind: k.Name, Key: key, Was: found.Version, Most: k.Most, Keep: cmp.Or(k.Keep, time.Hour), Log: k.Log}
	if d.Exists {
		if d.Doc, err = k.Read(found); err != nil {
			return nil, err
		}
		w.WasAlias = k.alias(&d.Doc)
	}
	if err := change(d); errors.Is(err, ErrUnchanged) {
		return d, nil
	} else if err != nil {
		return d, err
	}
	if err := k.fill(&w, d); err != nil {
		return nil, err
	}
	_, err = k.Store.Write(ctx, w)
	return d, err
}

// Add keeps a new document. It returns [ErrChanged] when there is one, or was of late.
func (k *Kind[T]) Add(ctx context.Context, key string, first func(now time.Time) T) error {
	now, err := k.Store.Now(ctx)
	if err != nil {
		return err
	}
	d := &Draft[T]{Key: key, Doc: first(now)}
	w := Write{Kind: k.Name, Key: key, Most: k.Most, Keep: cmp.Or(k.Keep, time.Hour), Log: k.Log}
	if err := k.fill(&w, d); err != nil {
		return err
	}
	_, err = k.Store.Write(ctx, w)
	return err
}

// fill puts into a write what the document has become, and what is told of it.
func (k *Kind[T]) fill(w *Write, d *Draft[T]) (err error) {
	if !d.Remove {
		w.Alias = k.alias(&d.Doc)
		if w.Body, err = k.encode(&d.Doc); err != nil {
			return fmt.Errorf("encode %s %s: %w", k.Name, d.Key, err)
		}
	}
	for _, told := range d.Tell {
		line, err := json.Marshal(told)
		if err != nil {
			return fmt.Errorf("encode what a change of %s %s tells: %w", k.Name, d.Key, err)
		}
		w.Lines = append(w.Lines, line)
	}
	return nil
}

// Get returns a document; false when there is none.
func (k *Kind[T]) Get(ctx context.Context, key string) (doc T, found bool, err error) {
	r, _, err := k.Store.Get(ctx, k.Name, key)
	if err != nil || r.Body == nil {
		return doc, false, err
	}
	doc, err = k.Read(r)
	return doc, err == nil, err
}

// List returns documents with keys beyond after, in the order of keys, at most limit; all, when that is 0.
func (k *Kind[T]) List(ctx context.Context, after string, limit int) ([]T, error) {
	records, err := k.Store.List(ctx, k.Name, after, limit)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(records))
	for i, r := range records {
		if all[i], err = k.Read(r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Put keeps a document, whatever was there.
func (k *Kind[T]) Put(ctx context.Context, key string, next func(now time.Time) T) error {
	_, err := k.Change(ctx, key, func(d *Draft[T]) error {
		d.Doc = next(d.Now)
		return nil
	})
	return err
}

// Remove removes a document; false when there is none.
func (k *Kind[T]) Remove(ctx context.Context, key string) (bool, error) {
	d, err := k.Change(ctx, key, func(d *Draft[T]) error {
		d.Remove = d.Exists
		if !d.Exists {
			return ErrUnchanged
		}
		return nil
	})
	return err == nil && d.Remove, err
}

func (k *Kind[T]) alias(doc *T) string {
	if k.Alias == nil {
		return ""
	}
	return k.Alias(doc)
}

func (k *Kind[T]) encode(doc *T) ([]byte, error) {
	if k.Encode == nil {
		return json.Marshal(doc)
	}
	return k.Encode(doc)
}

// Read reads a document from its record.
func (k *Kind[T]) Read(r Record) (doc T, err error) {
	if k.Decode == nil {
		err = json.Unmarshal(r.Body, &doc)
	} else {
		doc, err = k.Decode(r.Body)
	}
	if err != nil {
		return doc, fmt.Errorf("read %s %s: %w", k.Name, r.Key, err)
	}
	return doc, nil
}
