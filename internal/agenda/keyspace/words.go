package keyspace

import (
	"reflect"
	"regexp"
	"strings"
	"unicode"
)

// Fields are the fields of a notification's hash. In scripts F.not_before is the field NotBefore, see [Spell]. No two
// differ by their case only.
var Fields = lettered[fields]()

type fields struct {
	User     string `letter:"u"`
	Category string `letter:"c"`
	Payload  string `letter:"b"` // begins with {"c":"CHANNEL"; to all else it is opaque
	Priority string `letter:"p"`
	Bypasses string `letter:"i"` // 1 when its priority bypasses
	Collapse string `letter:"k"` // its collapse key
	// Group is the same for what may go as one digest: what has the channel, the target and the group key. It is only
	// kept where the category has digests.
	Group string `letter:"gr"`
	State string `letter:"s"` // one of States

	Accepted  string `letter:"at"` // when it was accepted
	Arrival   string `letter:"v"`  // the number of its place among all others of its priority
	Follows   string `letter:"l"`  // the arrival that its place follows instead
	NotBefore string `letter:"t"`  // its send_at
	Expires   string `letter:"e"`
	Ended     string `letter:"z"`

	Generation string `letter:"g"`  // of its latest grant
	Admitted   string `letter:"m"`  // the moment of its latest grant
	Basis      string `letter:"on"` // of that grant: the policy's version and, where it mattered, the time zone
	Caps       string `letter:"w"`  // the named caps that count that grant
	Digest     string `letter:"of"` // the carrier of the digest that it is in, or went with; see digest.lua
	Frozen     string `letter:"is"` // 1 for the carrier of a digest that may have reached somebody
	Returned   string `letter:"o"`  // how many grants came back untried
	Failures   string `letter:"f"`
	Crashes    string `letter:"x"`
	Lapsed     string `letter:"a"`  // the generation whose lease ended, until it is granted anew or settled
	Restored   string `letter:"in"` // "generation epoch" of a delivery in flight when the partition was rebuilt
	Refunded   string `letter:"re"` // 1 when it ended, and its latest admission was refunded, or it went with a digest

	Deferrals string `letter:"d"`
	Joined    string `letter:"j"` // how often its backlog had been blocked when it joined; absent for 0
	Reason    string `letter:"y"`
	// Detail explains the reason: the provider's reply; or, with max_defer, "slot max_defer" in µs, the slot that came
	// too late, with a + when that is the earliest possible; or, with quiet_hours, the slot, and the end of the closed
	// interval that it is in.
	Detail  string `letter:"q"`
	History string `letter:"h"`

	RetryDue  string `letter:"r"`  // when its latest retry was due
	RetrySet  string `letter:"by"` // when that was set
	BackedOff string `letter:"n"`  // when the back-off after its latest failure ends: max_defer counts from there
	Held      string `letter:"he"` // 1 while it waits for its provider
}

// States are what a notification's hash says of it, and the counts and the hours' history of its ends. "deferred" is
// none: deferred is everything in a blocked backlog that does not bypass. In scripts S.queued is the state Queued.
var States = lettered[states]()

type states struct {
	Queued    string `letter:"q"` // in its backlog
	Scheduled string `letter:"t"`
	Retrying  string `letter:"b"`
	Sending   string `letter:"s"`
	Delivered string `letter:"D"`
	Failed    string `letter:"F"`
	Expired   string `letter:"E"`
	Cancelled string `letter:"C"`
	Replaced  string `letter:"R"`
	// These two stand in the history only.
	Arrived  string `letter:"A"`
	Deferred string `letter:"W"`
	// These two stand in events only.
	Digested string `letter:"G"`
	Overflow string `letter:"O"`
}

// lettered gives each field of a struct its letters.
func lettered[T any]() T {
	var of T
	value := reflect.ValueOf(&of).Elem()
	for i := range value.NumField() {
		value.Field(i).SetString(value.Type().Field(i).Tag.Get("letter"))
	}
	return of
}

var words = regexp.MustCompile(`\b([FS])\.(\w+)`)

// Spell puts the letters into the source of a script, where it says F.word or S.word. It panics when there is no such
// word: the sources are part of the program.
func Spell(source string) string {
	return words.ReplaceAllStringFunc(source, func(found string) string {
		of := reflect.ValueOf(Fields)
		if found[0] == 'S' {
			of = reflect.ValueOf(States)
		}
		upper := true
		name := strings.Map(func(r rune) rune {
			defer func() { upper = r == '_' }()
			switch {
			case r == '_':
				return -1
			case upper:
				return unicode.ToUpper(r)
			}
			return r
		}, found[2:])
		word := of.FieldByName(name)
		if !word.IsValid() {
			panic("no field or state of a notification is called " + found)
		}
		return "'" + word.String() + "'"
	})
}
