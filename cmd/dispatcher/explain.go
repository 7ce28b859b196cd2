package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/settings"
)

type explainCommand struct {
	opsClient
	ID       string `arg:"" help:"Id of the notification."`
	Contents bool   `name:"contents" env:"-" help:"Also show its contents. Allowed on a loopback address, or with the ops token."`
	JSON     bool   `help:"Print JSON, with times in UTC."`
}

// Run shows what has become of a notification, and why.
func (c *explainCommand) Run(ctx context.Context, to streams) error {
	query := ""
	if c.Contents {
		query = "?contents"
	}
	body, err := c.look(ctx, "explain", "/explain/", c.ID, query)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err = to.out.Write(body)
		return err
	}
	var e desk.Explanation
	if err := json.Unmarshal(body, &e); err != nil {
		return fmt.Errorf("read the explanation of %s: %w", c.ID, err)
	}
	return writePage(to.out, func(p *page) { p.explanation(&e) })
}

// look reads the page of one notification or user.
func (c *opsClient) look(ctx context.Context, command, path, id, query string) ([]byte, error) {
	if strings.TrimSpace(id) == "" {
		return nil, &settings.UsageError{Message: command + " needs an id, which is empty"}
	}
	status, body, err := c.get(ctx, path+url.PathEscape(id)+query)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, refused(command+" "+id, status, body)
	}
	return body, nil
}

func (p *page) explanation(e *desk.Explanation) {
	p.cause(e.ID, e.Standing)
	p.field("user", e.UserID)
	p.field("category", e.Category+", "+e.Priority+", by "+e.Channel)
	p.field("status", string(e.Status))
	p.field("reply", verbatim(e.Reply))
	if e.Ahead > 0 {
		p.field("goes after", fmt.Sprintf("%d of the user's notifications, by priority, then arrival", e.Ahead))
	}
	if e.ExpiresAt != nil && e.Status.Waiting() {
		p.field("expires", desk.Stamp(*e.ExpiresAt))
	}
	p.field("attempts", fmt.Sprint(e.Attempts))
	p.field("deferrals", fmt.Sprint(e.Deferrals))
	p.field("policy", basis(e.PolicyVersion, e.Zone))
	for _, d := range e.Devices {
		p.field("device "+d.Device, fmt.Sprintf("%s, attempt %d, %s", d.Outcome, d.Attempts, desk.Stamp(d.At)))
		p.field("", verbatim(d.Reply))
	}
	p.contents(e)
	p.field("times in", zoneOf(time.Now()))
	for i, step := range e.Timeline {
		name := ""
		if i == 0 {
			name = "timeline"
		}
		what := step.Kind + " " + step.Detail
		if strings.HasPrefix(step.Detail, step.Kind+" ") {
			what = step.Detail
		}
		p.field(name, strings.TrimSpace(desk.Stamp(step.At)+" "+what))
		if step.PolicyVersion != "" && (step.PolicyVersion != e.PolicyVersion || step.Zone != e.Zone) {
			p.field("", "policy "+basis(step.PolicyVersion, step.Zone))
		}
		if step.Attempt < e.Attempts || step.Reply != e.Reply { // else it stands above
			p.field("", verbatim(step.Reply))
		}
	}
}

// basis says by which policy something was found, and in which zone.
func basis(version, zone string) string {
	if zone == "" || version == "" {
		return version
	}
	return version + ", in the time zone " + zone
}

// contents prints what a notification says, or why it is not shown.
func (p *page) contents(e *desk.Explanation) {
	if e.Withheld != "" {
		p.field("contents", "not shown: "+e.Withheld)
	}
	c := e.Contents
	if c == nil {
		return
	}
	p.field("to", cmp.Or(c.To, "the user's devices"))
	for _, text := range []struct{ name, text string }{
		{"title", c.Title}, {"body", c.Body}, {"data", compact(c.Data)}, {"for " + e.Channel, compact(c.Override)},
	} {
		if strings.ContainsFunc(text.text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			text.text = strconv.Quote(text.text) // it could change the terminal
		}
		if text.text != "" {
			p.field(text.name, provided+text.text)
		}
	}
}

// compact writes JSON in one line.
func compact(text json.RawMessage) string {
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return string(text)
	}
	return line.String()
}

// page prints names and texts, no wider than 80 columns, and tables as wide as the terminal.
type page struct {
	w     io.Writer
	width int
	// bold and plain begin and end what stands out, where a terminal can show that.
	bold, plain string
}

// writePage prints a page.
func writePage(to io.Writer, fill func(*page)) error {
	w := bufio.NewWriter(to)
	p := &page{w: w, width: widthOf(to)}
	if os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(to) {
		p.bold, p.plain = "\x1b[1m", "\x1b[0m"
	}
	fill(p)
	return w.Flush() // it tells whether everything could be written
}

const (
	// nameWidth is how wide a name may be for the texts beside it to stand in one column, columns how wide a page is.
	nameWidth, columns = 12, 80
)

// cause prints what answers the question, before all else.
func (p *page) cause(of, text string) {
	for _, line := range wrap(of+": "+text, columns) {
		_, _ = fmt.Fprintln(p.w, p.bold+line+p.plain)
	}
	_, _ = fmt.Fprintln(p.w)
}

// field prints a text beside its name, over several lines if it is long. It prints nothing for an empty text.
func (p *page) field(name, text string) {
	if text == "" {
		return
	}
	for _, line := range wrap(text, columns-nameWidth-2) {
		_, _ = fmt.Fprintf(p.w, "%-*s  %s\n", nameWidth, name, line)
		name = ""
	}
}

// wrap breaks a text into lines of at most width characters, at blanks where it can.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(localTimes(text)) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
		for utf8.RuneCountInString(line) > width {
			cut := len(string([]rune(line)[:width]))
			lines, line = append(lines, line[:cut]), line[cut:]
		}
	}
	return append(lines, line)
}

// provided marks a text of somebody else's, in which no time is changed.
const provided = "\u2063"

// verbatim is what a provider replied.
func verbatim(reply string) string {
	if reply == "" {
		return ""
	}
	return provided + "the provider replied: " + reply
}

// inSentence finds the times in the sentences of the ops pages.
var inSentence = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z`)

// localTimes writes the times in a sentence in the zone of this machine.
func localTimes(text string) string {
	if own, found := strings.CutPrefix(text, provided); found {
		return own
	}
	return inSentence.ReplaceAllStringFunc(text, func(found string) string {
		at, err := time.Parse(time.RFC3339Nano, found)
		switch {
		case err != nil:
			return found
		case !strings.Contains(found, "."):
			return second(at)
		}
		return clock(at)
	})
}

// zoneOf names the zone of this machine at a moment, such as CET (+01:00).
func zoneOf(t time.Time) string {
	name, offset := t.Local().Zone()
	if offset == 0 {
		return name
	}
	return name + " (" + t.Local().Format("-07:00") + ")"
}

// clock writes a time of today as a time, any other with its date.
func clock(t time.Time) string {
	t = t.Local()
	if t.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return t.Format("15:04:05.000")
	}
	return t.Format("2006-01-02 15:04:05.000")
}
