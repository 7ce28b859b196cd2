package push

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// shortestKnown is how long a known secret must be to be masked.
	shortestKnown = 4
	// head is how much of a known text has to be found: a provider may repeat only its beginning.
	head = 16
)

// maskKnown masks texts that are known, and as much of each as the reply repeats. The reply is printable. It is read in
// each of the ways in which providers write texts, since there are too many forms of a text to look for: programs that
// write JSON escape more than they must, each something else.
func maskKnown(reply string, known []string) string {
	hidden, readings := make([]bool, len(reply)), readingsOf(reply)
	for _, text := range known {
		if text = printable(cut(text, ReplyRead)); len(text) < shortestKnown {
			continue
		}
		for _, r := range readings {
			r.hide(hidden, []byte(text))
		}
	}
	return masked(reply, hidden)
}

// reading is what a reply says. Each of its bytes stands for a part of the reply, from one byte to before another.
type reading struct {
	text     []byte
	from, to []int
}

// newReading makes one that will have so many bytes, or about as many.
func newReading(size int) *reading {
	return &reading{text: make([]byte, 0, size), from: make([]int, 0, size), to: make([]int, 0, size)}
}

// add adds what a part of the reply says.
func (r *reading) add(text string, from, to int) {
	for i := range len(text) {
		r.text, r.from, r.to = append(r.text, text[i]), append(r.from, from), append(r.to, to)
	}
}

// readingsOf reads a reply as it stands, as JSON, as JSON in a text of JSON, as the path of a URL, and as its query.
func readingsOf(reply string) []*reading {
	plain := newReading(len(reply))
	for i := range len(reply) {
		plain.add(reply[i:i+1], i, i+1)
	}
	readings := []*reading{plain.printable()}
	if strings.Contains(reply, `\`) {
		once := plain.decode(escaped)
		readings = append(readings, once.printable(), once.decode(escaped).printable())
	}
	if strings.Contains(reply, "%") {
		readings = append(readings, plain.decode(percent).printable())
	}
	if strings.Contains(reply, "+") {
		readings = append(readings, plain.decode(plus).decode(percent).printable())
	}
	return readings
}

// decode reads a reading further. code tells what the beginning of a text stands for, and how long that beginning is: 0
// where it stands for itself.
func (r *reading) decode(code func(string) (string, int)) *reading {
	decoded, text := newReading(len(r.text)), string(r.text)
	for i := 0; i < len(text); {
		means, length := code(text[i:])
		if length == 0 {
			means, length = text[i:i+1], 1
		}
		decoded.add(means, r.from[i], r.to[i+length-1])
		i += length
	}
	return decoded
}

// printable does with a reading what [printable] does with a known text. All bytes of a character stand for all of it,
// so that a mask tears none apart: Postgres takes no part of one.
func (r *reading) printable() *reading {
	shown, text := newReading(len(r.text)), string(r.text)
	for i := 0; i < len(text); {
		letter, length := utf8.DecodeRuneInString(text[i:])
		from, to, last := r.from[i], r.to[i+length-1], len(shown.text)-1
		switch letter = visible(letter); {
		case last >= 0 && (letter < 0 || letter == ' ' && shown.text[last] == ' '):
			shown.to[last] = to
		case letter >= 0:
			shown.add(string(letter), from, to)
		}
		i += length
	}
	return shown
}

// hide marks the bytes of a reply where a text, or its beginning, stands. All readings are marked before any is masked:
// several may begin alike, and only one goes on as the text does.
func (r *reading) hide(hidden []bool, text []byte) {
	for from := 0; ; {
		at := bytes.Index(r.text[from:], text[:min(head, len(text))])
		if at < 0 {
			return
		}
		at += from
		for from = at; from < len(r.text) && from-at < len(text) && r.text[from] == text[from-at]; from++ {
			for i := r.from[from]; i < r.to[from]; i++ {
				hidden[i] = true
			}
		}
	}
}

// masked writes a mask for each part of a reply that is hidden.
func masked(reply string, hidden []bool) string {
	var text strings.Builder
	for i := range len(reply) {
		switch {
		case !hidden[i]:
			text.WriteByte(reply[i])
		case i == 0 || !hidden[i-1]:
			text.WriteString(mask)
		}
	}
	return text.String()
}

// escaped reads an escape of JSON, or of JavaScript's quotation mark.
func escaped(text string) (means string, length int) {
	if len(text) < 2 || text[0] != '\\' {
		return "", 0
	}
	switch text[1] {
	case '"', '\'', '\\', '/':
		return text[1:2], 2
	case 'n', 'r', 't', 'f':
		return " ", 2
	case 'b':
		return "\b", 2
	}
	unit, ok := unitOf(text)
	switch {
	case !ok:
		return "", 0
	case !utf16.IsSurrogate(unit):
		return string(unit), len(`\u0000`)
	}
	second, _ := unitOf(text[len(`\u0000`):])
	if letter := utf16.DecodeRune(unit, second); letter != utf8.RuneError {
		return string(letter), 2 * len(`\u0000`)
	}
	return "\u200b", len(`\u0000`) // half a character, where a text was cut, is nothing to see
}

// unitOf reads a part of UTF-16 that is escaped.
func unitOf(text string) (rune, bool) {
	if len(text) < len(`\u0000`) || text[:2] != `\u` {
		return 0, false
	}
	unit, err := strconv.ParseUint(text[2:len(`\u0000`)], 16, 16)
	return rune(unit), err == nil
}

// percent reads a byte that is escaped as in URLs.
func percent(text string) (means string, length int) {
	if len(text) < len("%00") || text[0] != '%' {
		return "", 0
	}
	unit, err := strconv.ParseUint(text[1:len("%00")], 16, 8)
	if err != nil {
		return "", 0
	}
	return string([]byte{byte(unit)}), len("%00")
}

// plus reads the blank of a form.
func plus(text string) (means string, length int) {
	if text[0] != '+' {
		return "", 0
	}
	return " ", 1
}
