package enqueue

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/pacer-notify/pacer/internal/wire"
)

// lines reads an input line by line, and finds notifications that are spread over several lines. It looks ahead as far
// as the longest line.
type lines struct {
	reader *bufio.Reader
	number int // of the line that was read last
}

// line is one line of the input, or several that are one JSON value.
type line struct {
	number int    // of the first line, from 1
	last   int    // of the last line
	text   []byte // without what surrounds it; empty for blank lines
	read   int    // bytes of input
	err    error  // why the text can't be sent
}

// What is wrong with a line.
var (
	errLongLine = errors.New("the line is longer than " + strconv.Itoa(maxLine) + " bytes")
	errSpread   = errors.New("the notification is spread over several lines: put each on one line of its own, as " +
		"jq -c . FILE does")
)

// ArrayError refuses an input that is a JSON array.
type ArrayError struct{}

// Error says what to do.
func (ArrayError) Error() string {
	return "the input is a JSON array: enqueue takes one JSON object a line, as jq -c '.[]' FILE writes them"
}

func newLines(input io.Reader) *lines { return &lines{reader: bufio.NewReaderSize(input, maxLine)} }

// readLine is a line, and the error, such as [io.EOF], that came with it: then it is the last.
type readLine struct {
	line

	end error
}

// all returns the lines, up to the first error, until nobody wants any more.
func (l *lines) all(stopped <-chan struct{}) <-chan readLine {
	read := make(chan readLine) // a line may be long
	go func() {
		for end := error(nil); end == nil; {
			var next line
			next, end = l.next()
			select {
			case read <- readLine{next, end}:
			case <-stopped:
				return
			}
		}
	}()
	return read
}

// next reads a line; the error, such as [io.EOF], comes with what was read before it.
func (l *lines) next() (line, error) {
	text, long, err := l.read()
	read := len(text)
	text = wire.TrimMark(text)
	next := line{number: l.number, last: l.number, read: read, text: bytes.TrimSpace(text)}
	switch {
	case long:
		next.text, next.err = nil, errLongLine
	case err == nil && isOpen(next.text):
		l.join(&next, text)
	}
	return next, err
}

// read reads one line with its end. A line that is too long is read over.
func (l *lines) read() (text []byte, long bool, err error) {
	l.number++
	for {
		part, err := l.reader.ReadSlice('\n')
		if long = long || len(text)+len(part) > maxLine; !long {
			text = append(text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, long, err
		}
	}
}

// isOpen reports whether a line begins a JSON object and does not end it.
func isOpen(text []byte) bool {
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	return errors.Is(json.NewDecoder(bytes.NewReader(text)).Decode(new(json.RawMessage)), io.ErrUnexpectedEOF)
}

// join reads on while the lines go on with the value that the first one begins. If they are no JSON value, the first
// line stands alone.
func (l *lines) join(first *line, text []byte) {
	ahead := &ahead{reader: l.reader}
	decoder := json.NewDecoder(io.MultiReader(bytes.NewReader(text), ahead))
	if decoder.Decode(new(json.RawMessage)) != nil {
		return
	}
	end, err := ahead.lineEnd(int(decoder.InputOffset()) - len(text))
	if err != nil {
		return
	}
	joined, _ := l.reader.Peek(end) // it was looked at before
	l.number += bytes.Count(joined[:end-1], []byte{'\n'}) + 1
	first.last, first.read, first.err = l.number, first.read+end, errSpread
	_, _ = l.reader.Discard(end) // see above
}

// ahead looks at what a reader will read, as far as its buffer reaches, and takes nothing.
type ahead struct {
	reader *bufio.Reader
	at     int
}

// Read implements [io.Reader].
func (a *ahead) Read(into []byte) (int, error) {
	if seen, err := a.reader.Peek(a.at + 1); len(seen) <= a.at {
		return 0, err
	}
	seen, err := a.reader.Peek(min(a.reader.Buffered(), a.at+len(into)))
	n := copy(into, seen[a.at:])
	a.at += n
	return n, err
}

var errMoreBehind = errors.New("there is more text after the object on the line")

// lineEnd finds the end of the line in which a value ends. Nothing else may be on it.
func (a *ahead) lineEnd(end int) (int, error) {
	for {
		seen, err := a.reader.Peek(end + 1)
		if len(seen) <= end {
			if errors.Is(err, io.EOF) {
				return end, nil
			}
			return 0, err
		}
		end++
		switch seen[end-1] {
		case '\n':
			return end, nil
		case ' ', '\t', '\r':
		default:
			return 0, errMoreBehind
		}
	}
}

// where names the lines for people.
func (l *line) where() string {
	if l.last > l.number {
		return fmt.Sprintf("lines %d to %d", l.number, l.last)
	}
	return fmt.Sprintf("line %d", l.number)
}
