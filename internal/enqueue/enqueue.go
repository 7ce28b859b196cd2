// Package enqueue does the work of the program of that name. It reads notifications, one JSON object a line, hands them
// to the API in batches, and reports which lines were refused and why.
//
// A line without an id gets one before it is sent. So a batch whose response was lost can be sent again, and adds
// nothing.
package enqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/wire"
)

const (
	// batchLines and batchBytes bound one request, well below the API's own limits.
	batchLines = 1000
	batchBytes = 4 << 20
	maxLine    = wire.MaxBytes
	// linger is how long a batch waits for further lines: an input may come slowly, as from tail -f.
	linger = 200 * time.Millisecond
)

// Config of a run.
type Config struct {
	// API takes the batches.
	API *API
	// IdempotencyKey makes the n-th line's key KEY:n, unless the line has one. Defaults to none.
	IdempotencyKey string
	// Refused is told each refused line, as line 7 or lines 7 to 9. Of notifications that are spread over several lines
	// it is told the first one only: all of them have the same fault.
	Refused func(where, why string)
	// Accepted is told the result of each accepted line. Defaults to nobody, and then the API does not name them.
	Accepted func(Result)
	// Promise asks when each goes.
	Promise bool
	// Read is told how many bytes of the input were worked off. Defaults to nobody.
	Read func(bytes int)
}

// Summary counts the lines of a run. Repeated are those that pacer had before, which includes what this run sent twice
// because the first response was lost.
type Summary struct{ Accepted, Repeated, Refused int }

// batch is what one request carries.
type batch struct {
	body  bytes.Buffer
	lines []int // number of each line
	read  int   // bytes of input behind it
	// lingered reports when it has waited for further lines for long enough; nil while it is empty.
	lingered <-chan time.Time
}

// Run reads the input to its end. The error says why it stopped before: the API could not be reached, the input not
// read, or ctx has ended; the summary counts what was done until then. A read that is under way then goes on.
func Run(ctx context.Context, cfg Config, input io.Reader) (Summary, error) {
	if cfg.Read == nil {
		cfg.Read = func(int) {}
	}
	r := &run{cfg: cfg}
	stopped := make(chan struct{})
	defer close(stopped)
	read := newLines(input).all(stopped)
	for {
		select {
		case <-ctx.Done():
			return r.summary, r.stoppedBy(context.Cause(ctx))
		case <-r.next.lingered:
			if err := r.flush(ctx); err != nil {
				return r.summary, err
			}
		case next := <-read:
			if ended, err := r.work(ctx, next); ended {
				return r.summary, err
			}
		}
	}
}

// work works off what was read next. It returns true at the end of the run.
func (r *run) work(ctx context.Context, next readLine) (ended bool, err error) {
	if err := r.take(next.line); err != nil {
		return true, err
	}
	if len(r.next.lines) >= batchLines || r.next.body.Len() >= batchBytes || next.end != nil {
		if err := r.flush(ctx); err != nil {
			return true, err
		}
	}
	if next.end == nil || errors.Is(next.end, io.EOF) {
		return next.end != nil, nil
	}
	return true, fmt.Errorf("read %s: %w", next.where(), next.end)
}

// stoppedBy says where a run stopped, and why.
func (r *run) stoppedBy(err error) error {
	if len(r.next.lines) == 0 || r.next.lines[0] == 1 {
		return err // nothing was sent before, or all that was read
	}
	return fmt.Errorf("stopped at line %d: %w", r.next.lines[0], err)
}

// run is the state of a Run.
type run struct {
	cfg     Config
	next    batch
	summary Summary
	begun   bool // something was read that is not blank
	spread  bool // a notification over several lines was told
}

// take puts what was read into the next batch, or refuses it. The error refuses the whole input.
func (r *run) take(next line) error {
	r.next.read += next.read
	blank := len(next.text) == 0 && next.err == nil
	if !r.begun && !blank && next.err == nil && next.text[0] == '[' {
		return ArrayError{}
	}
	r.begun = r.begun || !blank
	switch {
	case blank:
	case next.err == nil:
		r.add(next.number, next.text)
	case errors.Is(next.err, errSpread) && r.spread:
		r.summary.Refused++
	default:
		r.spread = r.spread || errors.Is(next.err, errSpread)
		r.refuse(next, next.err.Error())
	}
	return nil
}

func (r *run) refuse(of line, why string) {
	r.summary.Refused++
	r.cfg.Refused(of.where(), why)
}

// add puts a line into the next batch.
func (r *run) add(number int, text []byte) {
	key := ""
	if r.cfg.IdempotencyKey != "" {
		key = r.cfg.IdempotencyKey + ":" + strconv.Itoa(number)
	}
	text, err := identify(text, key)
	if err != nil {
		r.refuse(line{number: number}, err.Error())
		return
	}
	if r.next.lingered == nil {
		r.next.lingered = time.After(linger)
	}
	r.next.body.Write(text)
	r.next.body.WriteByte('\n')
	r.next.lines = append(r.next.lines, number)
}

// identify gives a line an id, or the idempotency key, unless it has one. What is no JSON object is left as it is: the
// API will say what is wrong with it.
func identify(line []byte, key string) ([]byte, error) {
	var has struct {
		ID  json.RawMessage `json:"id"`
		Key json.RawMessage `json:"idempotency_key"`
	}
	if line[0] != '{' || json.Unmarshal(line, &has) != nil || isGiven(has.ID) || isGiven(has.Key) {
		return line, nil
	}
	if key != "" {
		return setMember(line, "idempotency_key", key, has.Key != nil)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make an id: %w", err)
	}
	return setMember(line, "id", id.String(), has.ID != nil)
}

// isGiven reports whether a member says anything. To the API, null and an empty text are none.
func isGiven(value json.RawMessage) bool {
	return value != nil && string(value) != "null" && string(value) != `""`
}

// setMember sets a member of a JSON object. Another of that name would be refused as given twice, so where there may be
// one its value is replaced.
func setMember(object []byte, name, value string, mayBeThere bool) ([]byte, error) {
	quoted, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	if mayBeThere {
		if start, end := findMember(object, name); end > 0 {
			return slices.Concat(object[:start], quoted, object[end:]), nil
		}
	}
	field := `{"` + name + `":` + string(quoted)
	rest := bytes.TrimSpace(object[1:])
	if rest[0] != '}' {
		field += ","
	}
	return append([]byte(field), rest...), nil
}

// findMember finds the value of an object's first member of a name, written exactly so. Without one, end is 0.
func findMember(object []byte, name string) (start, end int) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	_, _ = decoder.Token() // the opening bracket: it is an object
	for decoder.More() {
		member, err := decoder.Token()
		var value json.RawMessage
		if err != nil || decoder.Decode(&value) != nil {
			break
		}
		if member == name {
			end = int(decoder.InputOffset())
			return end - len(value), end
		}
	}
	return 0, 0
}

// flush sends the next batch.
func (r *run) flush(ctx context.Context) error {
	defer func() {
		r.cfg.Read(r.next.read)
		r.next = batch{}
	}()
	if len(r.next.lines) == 0 {
		return nil
	}
	response, err := r.cfg.API.Bulk(ctx, r.next.body.Bytes(), r.cfg.Accepted != nil, r.cfg.Promise)
	if err != nil {
		return r.stoppedBy(err)
	}
	if told := response.Accepted + response.Rejected; told != len(r.next.lines) {
		err := fmt.Errorf("its response is not pacer's: it counts %s, and the request had %d",
			plural.Of(told, "notification", "notifications"), len(r.next.lines))
		return r.stoppedBy(&UnreachableError{r.cfg.API.URL, err})
	}
	r.summary.Accepted += response.Accepted - response.Repeated
	r.summary.Repeated += response.Repeated
	for _, result := range response.Results {
		if result.Index < 0 || result.Index >= len(r.next.lines) {
			return fmt.Errorf("the API responded for item %d of a batch of %d", result.Index, len(r.next.lines))
		}
		switch {
		case result.Error != "":
			r.refuse(line{number: r.next.lines[result.Index]}, result.Error)
		case r.cfg.Accepted != nil:
			r.cfg.Accepted(result)
		}
	}
	return nil
}
