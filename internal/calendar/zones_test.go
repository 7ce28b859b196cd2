package calendar_test

import (
	"archive/zip"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/transcript"
)

// theYears are those that the zones are checked for.
var theYears = struct{ begin, end time.Time }{
	time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC),
}

// zonesByRules lists all zones of the tz database that Go brings, those together whose clocks agree in the two years.
func zonesByRules(t *testing.T) map[string]*time.Location {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	zones, names := map[string]*time.Location{}, []string{}
	for _, file := range archive.File {
		if strings.HasSuffix(file.Name, "/") {
			continue
		}
		zone, err := time.LoadLocation(file.Name)
		if err != nil {
			t.Fatal(err)
		}
		if file.Name != "Factory" { // what a machine has that nobody has set up
			names = append(names, file.Name)
		}
		var rules strings.Builder
		for at := theYears.begin.AddDate(0, 0, -20); at.Before(theYears.end.AddDate(0, 0, 20)); {
			_, offset := at.In(zone).Zone()
			fmt.Fprintln(&rules, at.Unix(), offset)
			_, end := at.In(zone).ZoneBounds()
			if end.IsZero() {
				break
			}
			at = end
		}
		zones[rules.String()] = zone
	}
	slices.Sort(names)
	transcript.Equal(t, "zones.txt", strings.Join(names, "\n")+"\n")
	return zones
}

// Zones that only one host has are refused, also where the host has their files.
func TestOnlyZonesOfEveryBuildAreAccepted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Europe/Vienna": true, "US/Pacific": true, "UTC": true, "GMT0": true, "Etc/GMT+1": false, "": false,
		"Local":               false,
		"right/Europe/Vienna": false, "posix/Europe/Vienna": false, "localtime": false, "posixrules": false,
		"Factory": false, "europe/vienna": false, "Europe": false, "../Europe/Vienna": false, "UTC\nZulu": false,
	} {
		if _, err := calendar.ParseZone(name); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// everyZone has TestEveryMinuteOfEveryZone check all zones, as make chaos does; make test checks a tenth, each time
// another.
var everyZone = flag.Bool("every-zone", false, "check every zone")

// For every zone and every minute of two years: what the clock shows inside a closed range is closed; beyond that only
// what stands near a switch that sets the clock back is. Open gives no moment that is closed, none earlier than it was
// asked for, the same again when asked again, and never an earlier one for a later question.
func TestEveryMinuteOfEveryZone(t *testing.T) {
	t.Parallel()
	windows := map[string]calendar.Window{
		"at night":      {Closed: []calendar.Range{{From: clock(t, "22:00"), To: clock(t, "08:00")}}},
		"after one":     {Closed: []calendar.Range{{From: clock(t, "01:15"), To: clock(t, "02:45")}}},
		"over midnight": {Closed: []calendar.Range{{From: clock(t, "23:30"), To: clock(t, "00:30")}}},
		"to midnight":   {Closed: []calendar.Range{{From: clock(t, "20:00"), To: clock(t, "24:00")}}},
		"by day": {Open: []calendar.Range{
			{Days: calendar.On(time.Monday, time.Friday), From: clock(t, "09:00"), To: clock(t, "18:00")},
			{Days: calendar.On(time.Saturday, time.Sunday), From: clock(t, "23:00"), To: clock(t, "02:30")},
		}},
	}
	for _, zone := range zonesByRules(t) {
		if !*everyZone && rand.IntN(10) > 0 {
			continue
		}
		t.Run(strings.ReplaceAll(zone.String(), "/", "_"), func(t *testing.T) {
			t.Parallel()
			for name, window := range windows {
				checkMinutes(t, name, window, zone)
			}
		})
	}
}

// checkMinutes checks a window in a zone, minute by minute.
func checkMinutes(t *testing.T, name string, window calendar.Window, zone *time.Location) {
	t.Helper()
	const minute = throttle.Micros(time.Minute / time.Microsecond)
	minutes := minutesOf(window)
	var closed throttle.Closed
	last := throttle.MicrosOf(theYears.end)
	known, before := throttle.MicrosOf(theYears.begin), throttle.Micros(0)
	for stretch := known; stretch < last; {
		_, offset := stretch.Time().In(zone).Zone()
		begins, ends := stretch.Time().In(zone).ZoneBounds()
		begin, end, back, backAfter := throttle.MicrosOf(begins), last, setBack(begins, zone), setBack(ends, zone)
		if !ends.IsZero() {
			end = min(end, throttle.MicrosOf(ends))
		}
		for at := stretch; at < end; at += minute {
			for at >= known {
				closed, known = window.Next(at, zone)
				if err := closed.Validate(); err != nil || known <= at {
					t.Fatalf("%s at %s: %v, known until %s", name, at.Time(), err, known.Time())
				}
			}
			for len(closed) > 0 && at >= closed[0].Until {
				closed = closed[1:]
			}
			inside := len(closed) > 0 && at >= closed[0].From
			shown := minutes[minuteOfWeek(int64(at/1e6)+int64(offset))]
			near := back > 0 && at-begin < 2*back || backAfter > 0 && end-at <= 2*backAfter
			if shown && !inside || inside && !shown && !near {
				t.Fatalf("%s: %s is closed: %v, the clock is in a closed range: %v", name, at.Time().In(zone), inside, shown)
			}
			next := closed.Open(at)
			if next < at || next < before || closed.Open(next) != next || inside != (next > at) {
				t.Fatalf("%s: %s opens at %s, the minute before at %s", name, at.Time(), next.Time(), before.Time())
			}
			before = next
		}
		stretch = end
	}
}

// setBack is by how much a switch sets the clock back; negative when it sets it forward, 0 when there is none.
func setBack(at time.Time, zone *time.Location) throttle.Micros {
	if at.IsZero() {
		return 0
	}
	_, before := at.Add(-time.Second).In(zone).Zone()
	_, after := at.In(zone).Zone()
	return throttle.Micros(before-after) * 1e6
}

// minuteOfWeek is the minute of the week, from Sunday on, of seconds since the epoch, a Thursday.
func minuteOfWeek(seconds int64) int { return int((seconds/60 + 4*24*60) % (7 * 24 * 60)) }

// minutesOf lists which minutes of a week without a switch a window closes.
func minutesOf(window calendar.Window) (closed [7 * 24 * 60]bool) {
	mark := func(ranges []calendar.Range, value bool) {
		for _, r := range ranges {
			for day := range 7 {
				length := (int(r.To-r.From) + 24*60) % (24 * 60)
				for minute := range length {
					if r.Days.Has(time.Weekday(day)) {
						closed[(day*24*60+int(r.From)+minute)%len(closed)] = value
					}
				}
			}
		}
	}
	if len(window.Open) > 0 {
		for i := range closed {
			closed[i] = true
		}
	}
	mark(window.Closed, true)
	mark(window.Open, false)
	return closed
}

func clock(t *testing.T, text string) calendar.Clock {
	t.Helper()
	c, err := calendar.ParseClock(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
