package main

import (
	"io"
	"math"
)

// repeated reads as one line many times over, and keeps that line only.
type repeated struct {
	line []byte
	at   int // how much of the present one has been read
	left int // lines, the present one included
}

// Read implements [io.Reader].
func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) && r.left > 0 {
		copied := copy(p[n:], r.line[r.at:])
		n += copied
		if r.at += copied; r.at == len(r.line) {
			r.at, r.left = 0, r.left-1
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// size is how many bytes are left; -1 when an int64 does not hold them.
func (r *repeated) size() int64 {
	if int64(r.left) > math.MaxInt64/int64(len(r.line)) {
		return -1
	}
	return int64(r.left)*int64(len(r.line)) - int64(r.at)
}
