// Package reply reads the replies of scripts.
package reply

import (
	"cmp"
	"fmt"
	"strconv"
)

// Reader reads fields of a script's reply by their index, and remembers the first Fault.
type Reader struct {
	Fields []any
	Fault  error
}

// Text reads a field that is text.
func (r *Reader) Text(i int) string {
	if i < len(r.Fields) {
		if s, ok := r.Fields[i].(string); ok {
			return s
		}
	}
	r.miss(i, "text")
	return ""
}

// Number reads a field that is a number.
func (r *Reader) Number(i int) int64 {
	if i < len(r.Fields) {
		if n, ok := r.Fields[i].(int64); ok {
			return n
		}
	}
	r.miss(i, "number")
	return 0
}

// List reads a list in the reply.
func (r *Reader) List(i int) *Reader {
	if i < len(r.Fields) {
		if Fields, ok := r.Fields[i].([]any); ok {
			return &Reader{Fields: Fields}
		}
	}
	r.miss(i, "list")
	return &Reader{}
}

// Adopt takes over the Fault of a list in the reply.
func (r *Reader) Adopt(list *Reader) { r.Fault = cmp.Or(r.Fault, list.Fault) }

func (r *Reader) miss(i int, want string) {
	if r.Fault == nil {
		r.Fault = fmt.Errorf("field %d is not a %s: %v", i, want, r.Fields)
	}
}

// Cursor reads the Fields of a flat reply one after another, and remembers the first Fault.
type Cursor struct {
	Fields []any
	at     int
	Fault  error
}

// Text reads the next field, which is text.
func (c *Cursor) Text() string {
	if c.at < len(c.Fields) {
		if s, ok := c.Fields[c.at].(string); ok {
			c.at++
			return s
		}
	}
	c.miss("text")
	return ""
}

// Number reads the next field, which is a number.
func (c *Cursor) Number() int64 {
	if c.at < len(c.Fields) {
		if n, ok := c.Fields[c.at].(int64); ok {
			c.at++
			return n
		}
	}
	c.miss("number")
	return 0
}

// Count reads how many entries follow; there are never more than Fields left.
func (c *Cursor) Count() int {
	n := c.Number()
	if n < 0 || int(n) > len(c.Fields)-c.at {
		c.miss("count")
		return 0
	}
	return int(n)
}

// List reads the next n fields as a list.
func (c *Cursor) List(n int) *Reader {
	if n > len(c.Fields)-c.at {
		c.miss("list")
		return &Reader{}
	}
	c.at += n
	return &Reader{Fields: c.Fields[c.at-n : c.at]}
}

// Parsed reads a number that is text in the reply.
func (c *Cursor) Parsed() int64 {
	n, err := strconv.ParseInt(c.Text(), 10, 64)
	if err != nil {
		c.miss("number in digits")
	}
	return n
}

// Texts reads a count, then as many texts.
func (c *Cursor) Texts() []string {
	all := make([]string, c.Count())
	for i := range all {
		all[i] = c.Text()
	}
	return all
}

// End checks that no field is left.
func (c *Cursor) End() {
	if c.at != len(c.Fields) {
		c.miss("end")
	}
}

// miss notes the first Fault. Nothing is read after it.
func (c *Cursor) miss(want string) {
	if c.Fault == nil {
		c.Fault = fmt.Errorf("field %d is not a %s: %v", c.at, want, c.Fields)
	}
	c.at = len(c.Fields)
}
