package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/pacer-notify/pacer/test/redistest"
)

// Any count is read line by line, and takes no more memory than one: --count 1000000000 must not be built first.
func TestACountIsReadLineByLine(t *testing.T) {
	t.Parallel()
	if err := iotest.TestReader(&repeated{line: []byte("abc\n"), left: 3}, []byte("abc\nabc\nabc\n")); err != nil {
		t.Error(err)
	}
	for count, size := range map[int]int64{1: 18, 3: 54, math.MaxInt: -1} {
		c := &command{Count: count, Notification: notificationFlags{User: "ada"}}
		input, got, err := c.input(streams{})
		if err != nil {
			t.Fatal(err)
		}
		if got != size {
			t.Errorf("%d of them have %d bytes, want %d", count, got, size)
		}
		lines := bufio.NewScanner(input)
		for range min(count, 1000) {
			if !lines.Scan() || lines.Text() != `{"user_id":"ada"}` {
				t.Fatalf("of %d: read %q, %v", count, lines.Text(), lines.Err())
			}
		}
		if more := lines.Scan(); more != (count > 1000) {
			t.Errorf("of %d: more to read: %t, %q", count, more, strings.TrimSpace(lines.Text()))
		}
	}
}

// receiver takes batches, and is told each line with its number.
func receiver(t *testing.T, line func(n int, text string)) *httptest.Server {
	t.Helper()
	received := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines, results := bufio.NewScanner(r.Body), []map[string]any{}
		for ; lines.Scan(); received++ {
			line(received+1, lines.Text())
			results = append(results, map[string]any{"index": len(results), "id": strconv.Itoa(received + 1)})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"accepted": len(results), "results": results}) // the test reads it
	}))
	t.Cleanup(server.Close)
	return server
}

// However many are wanted, they are sent as they are made: the first ones arrive before the last is.
func TestAnyCountIsSentBitByBit(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var arrived atomic.Int64
	server := receiver(t, func(n int, _ string) {
		arrived.Store(int64(n))
		if n > 5000 {
			cancel()
		}
	})
	args := []string{"--user", "ada", "--count", strconv.Itoa(math.MaxInt), "--server", server.URL}
	var errs bytes.Buffer
	code := run(ctx, args, streams{in: strings.NewReader(""), out: io.Discard, err: &errs})
	var accepted int64
	if _, err := fmt.Sscanf(errs.String(), "accepted %d,", &accepted); err != nil {
		t.Fatal(err, errs.String())
	}
	if code != exitUsage || arrived.Load() < 5000 || accepted == 0 || accepted > arrived.Load() {
		t.Errorf("code %d after %d arrived, said %q", code, arrived.Load(), errs.String())
	}
}

// Each of many has a key with its number, and is counted.
func TestEachOfACountHasItsNumber(t *testing.T) {
	t.Parallel()
	var wrong atomic.Pointer[string]
	server := receiver(t, func(n int, text string) {
		if want := fmt.Sprintf(`{"idempotency_key":"job:%d","title":"hi","user_id":"ada"}`, n); text != want {
			wrong.CompareAndSwap(nil, &text)
		}
	})
	code, out, errs := ask(t, "", "--user", "ada", "--title", "hi", "--count", "2500", "--idempotency-key", "job",
		"--server", server.URL)
	if code != exitAccepted || strings.Count(out, "\n") != 2500 ||
		!strings.HasPrefix(errs, "accepted 2500, repeated 0, ") {
		t.Errorf("code %d, %d ids, said %q", code, strings.Count(out, "\n"), errs)
	}
	if text := wrong.Load(); text != nil {
		t.Errorf("posted %s", *text)
	}
}

// A single notification has the key itself: a repeat over HTTP names it by the same one, which may be as long
// as any.
func TestTheKeyOfASingleNotification(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("k", 255)
	want := `{"idempotency_key":"` + key + `","user_id":"ada"}`
	var got atomic.Pointer[string]
	server := receiver(t, func(_ int, text string) { got.Store(&text) })
	code, out, errs := ask(t, "", "--user", "ada", "--idempotency-key", key, "--server", server.URL)
	if text := got.Load(); code != exitAccepted || out != "1\n" || text == nil || *text != want {
		t.Fatalf("code %d, said %q, %q, posted %v", code, out, errs, text)
	}
	// In a file, each line has its number, also the only one.
	ask(t, `{"user_id":"ada"}`, "-f", "-", "--idempotency-key", "job", "--server", server.URL)
	if text := *got.Load(); text != `{"idempotency_key":"job:1","user_id":"ada"}` {
		t.Errorf("posted %s of a file", text)
	}
}

// It is the same into the queue itself: once more adds nothing.
func TestACountIntoTheQueueItself(t *testing.T) {
	t.Parallel()
	args := []string{
		"--user", "ada", "--channel", "log", "--count", "1500", "--idempotency-key", "job",
		"--redis-url", redistest.URL(t),
	}
	for _, want := range []string{"accepted 1500, repeated 0, refused 0 ", "accepted 0, repeated 1500, refused 0 "} {
		if code, out, errs := ask(t, "", args...); code != exitAccepted || strings.Count(out, "\n") != 1500 ||
			!strings.HasPrefix(errs, want) {
			t.Errorf("code %d, %d ids, said %q, want %q", code, strings.Count(out, "\n"), errs, want)
		}
	}
}
