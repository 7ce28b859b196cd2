package main

import (
	"bufio"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// table is texts in columns, the first row being their names. The last column holds what is longest.
type table struct{ rows [][]string }

// add adds a row.
func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// betweenColumns stands between two columns, and before a last cell that has a line of its own.
const betweenColumns = "  "

// write prints the table. When it would be wider than the terminal, the last cell of each row gets a line of its own.
func (t *table) write(to io.Writer) error { return t.writeWithin(to, widthOf(to)) }

// writeWithin is write for lines of at most so many columns.
func (t *table) writeWithin(to io.Writer, page int) error {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	wide := len(betweenColumns) * (len(widths) - 1)
	for _, width := range widths {
		wide += width
	}
	w := bufio.NewWriter(to)
	for _, row := range t.rows {
		var line strings.Builder
		last := len(row) - 1
		for i, cell := range row[:last] {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + betweenColumns)
		}
		if wide > page {
			cut := strings.TrimRight(line.String(), " ")
			line.Reset()
			line.WriteString(cut + "\n" + betweenColumns)
		}
		_, _ = w.WriteString(strings.TrimRight(line.String()+row[last], " ") + "\n") // Flush tells
	}
	return w.Flush()
}

// widthOf is how many columns a line may have: as many as COLUMNS says, else as the terminal has. A program that reads
// the output finds each row in one line.
func widthOf(to io.Writer) int {
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		return width
	}
	if file, isFile := to.(*os.File); isFile {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return math.MaxInt
}

// second writes a time as clock does, to the second.
func second(t time.Time) string {
	text := clock(t)
	return text[:strings.LastIndexByte(text, '.')]
}
