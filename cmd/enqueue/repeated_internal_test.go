package main

import (
	"bufio"
	"math"
	"strings"
	"testing"
	"testing/iotest"
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
