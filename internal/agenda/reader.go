package agenda

import (
	"cmp"
	"fmt"
	"strconv"
)

// reader reads fields of a script's reply by their index, and remembers the first fault.
type reader struct {
	fields []any
	fault  error
}

func (r *reader) text(i int) string {
	if i < len(r.fields) {
		if s, ok := r.fields[i].(string); ok {
			return s
		}
	}
	r.miss(i, "text")
	return ""
}

func (r *reader) number(i int) int64 {
	if i < len(r.fields) {
		if n, ok := r.fields[i].(int64); ok {
			return n
		}
	}
	r.miss(i, "number")
	return 0
}

// list reads a list in the reply.
func (r *reader) list(i int) *reader {
	if i < len(r.fields) {
		if fields, ok := r.fields[i].([]any); ok {
			return &reader{fields: fields}
		}
	}
	r.miss(i, "list")
	return &reader{}
}

// adopt takes over the fault of a list in the reply.
func (r *reader) adopt(list *reader) { r.fault = cmp.Or(r.fault, list.fault) }

func (r *reader) miss(i int, want string) {
	if r.fault == nil {
		r.fault = fmt.Errorf("field %d is not a %s: %v", i, want, r.fields)
	}
}

// cursor reads the fields of a flat reply one after another, and remembers the first fault.
type cursor struct {
	fields []any
	at     int
	fault  error
}

func (c *cursor) text() string {
	if c.at < len(c.fields) {
		if s, ok := c.fields[c.at].(string); ok {
			c.at++
			return s
		}
	}
	c.miss("text")
	return ""
}

func (c *cursor) number() int64 {
	if c.at < len(c.fields) {
		if n, ok := c.fields[c.at].(int64); ok {
			c.at++
			return n
		}
	}
	c.miss("number")
	return 0
}

// count reads how many entries follow; there are never more than fields left.
func (c *cursor) count() int {
	n := c.number()
	if n < 0 || int(n) > len(c.fields)-c.at {
		c.miss("count")
		return 0
	}
	return int(n)
}

// parsed reads a number that is text in the reply.
func (c *cursor) parsed() int64 {
	n, err := strconv.ParseInt(c.text(), 10, 64)
	if err != nil {
		c.miss("number in digits")
	}
	return n
}

// texts reads a count, then as many texts.
func (c *cursor) texts() []string {
	all := make([]string, c.count())
	for i := range all {
		all[i] = c.text()
	}
	return all
}

// end checks that no field is left.
func (c *cursor) end() {
	if c.at != len(c.fields) {
		c.miss("end")
	}
}

// miss notes the first fault. Nothing is read after it.
func (c *cursor) miss(want string) {
	if c.fault == nil {
		c.fault = fmt.Errorf("field %d is not a %s: %v", c.at, want, c.fields)
	}
	c.at = len(c.fields)
}
