package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseEvent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, line string
		want       event
		commentary bool
	}{
		{
			name: "accepted", line: "  0.012  accept  ada   chat      four chat messages at once",
			want: event{
				at: 12 * time.Millisecond, kind: "accept", user: "ada",
				text: "ada   chat      four chat messages at once",
			},
			commentary: true,
		},
		{
			name: "arrived", line: " 10.040  arrive  cleo  chat      #11  3.016 s after the one before",
			want: event{
				at: 10040 * time.Millisecond, kind: "arrive", user: "cleo",
				text: "cleo  chat      #11  3.016 s after the one before",
			},
			commentary: true,
		},
		{
			name: "figures", line: "  5.021  stats   9 accepted, 6 delivered",
			want: event{at: 5021 * time.Millisecond, kind: "stats", text: "9 accepted, 6 delivered"}, commentary: true,
		},
		{name: "the first line, which is for people at a terminal", line: "  0.012          sample traffic begins"},
		{name: "a line of the log", line: `{"time":"2026-01-01T00:00:00Z","msg":"set-up"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, commentary := parseEvent(c.line)
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(event{})); diff != "" || commentary != c.commentary {
				t.Errorf("commentary: %t; differs (-want +got):\n%s", commentary, diff)
			}
		})
	}
}

func TestReadEventsEndsWithTheRound(t *testing.T) {
	t.Parallel()
	events := readEvents(strings.NewReader("  0.012  accept  ada   chat      one\n noise\n 20.014  accept  ada   chat      again\n"))
	if len(events) != 1 || events[0].user != "ada" {
		t.Errorf("read %+v, want the first line alone", events)
	}
}

// The animation is well-formed, holds every line and one mark for each event of a user.
func TestAnimation(t *testing.T) {
	t.Parallel()
	events := []event{
		{at: 0, kind: "accept", user: "ada", text: "ada <&> four"},
		{at: 3 * time.Second, kind: "arrive", user: "ada", text: "ada 3 s after"},
		{at: 5 * time.Second, kind: "stats", text: "1 accepted"},
	}
	picture := animation(events)
	var said strings.Builder
	classes := map[string]int{}
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.CharData:
			said.Write(token)
		case xml.StartElement:
			for _, a := range token.Attr {
				if a.Name.Local == "class" {
					classes[a.Value]++
				}
			}
		}
	}
	for _, e := range events {
		if !strings.Contains(said.String(), e.text) {
			t.Errorf("%q is not in the picture", e.text)
		}
	}
	// One of each is the legend's.
	if classes["asked"] != 2 || classes["got"] != 2 {
		t.Errorf("marks: %v, want one ring and one dot besides the legend's", classes)
	}
}

func TestRunRefusesOtherArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"demo", "dashboard"}} {
		if err := run(t.Context(), args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("run %q: %v, want %v", args, err, errUsage)
		}
	}
}
