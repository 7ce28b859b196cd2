package calendar

import (
	_ "embed"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // containers have no zones of their own
)

// zones are the names that every build carries, one a line. A host has others, such as right/UTC and localtime, which
// another process of the deployment may not have.
//
//go:embed zones.txt
var zones string

// ParseZone reads the name of a time zone. An offset is none: it knows no daylight saving time.
func ParseZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	switch {
	case err == nil && strings.Contains("\n"+zones, "\n"+name+"\n") && !isOffset(name):
		return zone, nil
	case isOffset(name):
		return nil, fmt.Errorf("%q is an offset, which has no daylight saving time: use a zone such as Europe/Vienna",
			name)
	}
	return nil, fmt.Errorf("%q is not a time zone: use one from the IANA database, such as Europe/Vienna", name)
}

// isOffset reports whether a name only says how far a clock is ahead, as +02:00, UTC+2 and Etc/GMT-2 do.
func isOffset(name string) bool {
	for _, prefix := range []string{"Etc/", "UTC", "GMT"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return len(name) > 1 && (name[0] == '+' || name[0] == '-') && strings.Trim(name[1:], "0123456789:") == ""
}
