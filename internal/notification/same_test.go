package notification_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Data is compared by its meaning: blanks, the order of members and the way a number is written say nothing.
func TestDifferencesOfData(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		a, b string
		same bool
	}{
		"blanks and order":         {a: `{"a":1,"b":[true,null]}`, b: `{ "b": [true, null], "a": 1 }`, same: true},
		"escapes":                  {a: `{"a":"\u003c"}`, b: `{"a":"<"}`, same: true},
		"numbers written anew":     {a: `{"a":[1.50,-2e3,0.0,1E-2]}`, b: `{"a":[1.5,-2000,0,0.01]}`, same: true},
		"numbers beyond a float":   {a: `{"a":12345678901234567890}`, b: `{"a":12345678901234567891}`},
		"huge exponents":           {a: `{"a":1e999999999}`, b: `{"a":1e999999998}`},
		"exponents of two digits":  {a: `{"a":1e-08}`, b: `{"a":0.00000001}`, same: true},
		"other small numbers":      {a: `{"a":1e-08}`, b: `{"a":1e-09}`},
		"an exponent that is none": {a: `{"a":1e08}`, b: `{"a":1}`},
		"octal and decimal":        {a: `{"a":1e010}`, b: `{"a":1e8}`},
		"many zeros":               {a: `{"a":1E+0000000000000000000002}`, b: `{"a":100}`, same: true},
		"zeros of any power":       {a: `{"a":0e99999999999999999999}`, b: `{"a":-0.0e1}`, same: true},
		"signs of huge exponents":  {a: `{"a":-1e99999999999999999999}`, b: `{"a":1e99999999999999999999}`},
		"exponents that overflow":  {a: `{"a":10e9223372036854775807}`, b: `{"a":1e-9223372036854775808}`},
		"exponents beyond integer": {a: `{"a":1e99999999999999999999}`, b: `{"a":1e99999999999999999998}`},
		"a number and a text":      {a: `{"a":1}`, b: `{"a":"1"}`},
		"the order of a list":      {a: `{"a":[1,2]}`, b: `{"a":[2,1]}`},
		"a member more":            {a: `{"a":1}`, b: `{"a":1,"b":null}`},
		"none and an empty one":    {a: ``, b: `{}`},
		"none and none":            {a: ``, b: ``, same: true},
		"signs":                    {a: `{"a":-1}`, b: `{"a":1}`},
		"zeros":                    {a: `{"a":-0}`, b: `{"a":0.00}`, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := valid(), valid()
			a.Data, b.Data = json.RawMessage(test.a), json.RawMessage(test.b)
			want := []string{"data"}
			if test.same {
				want = nil
			}
			if diff := cmp.Diff(want, a.Differences(b)) + cmp.Diff(want, b.Differences(a)); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

// Numbers are compared exactly, however they are written: random spellings mean what math/big says.
func TestNumbersAreComparedExactly(t *testing.T) {
	t.Parallel()
	const seed = 17
	random := rand.New(rand.NewPCG(seed, seed))
	for range 20_000 {
		mantissa, power := random.Int64N(25)-12, random.IntN(25)-12
		x := spell(random, mantissa, power)
		y := spell(random, mantissa+random.Int64N(2), power-random.IntN(2))
		if random.IntN(3) == 0 { // the same number once more
			y = spell(random, mantissa*10, power-1)
		}
		a, b := valid(), valid()
		a.Data, b.Data = json.RawMessage(`{"a":`+x+`}`), json.RawMessage(`{"a":`+y+`}`)
		exactA, okA := new(big.Rat).SetString(x)
		exactB, okB := new(big.Rat).SetString(y)
		if !okA || !okB || !json.Valid(a.Data) || !json.Valid(b.Data) {
			t.Fatalf("%s or %s is no number", x, y)
		}
		if same, want := len(a.Differences(b)) == 0, exactA.Cmp(exactB) == 0; same != want {
			t.Fatalf("%s and %s are the same: %t, want %t", x, y, same, want)
		}
	}
}

// spell writes mantissa times ten to a power as a JSON number, in one of many ways.
func spell(random *rand.Rand, mantissa int64, power int) string {
	zeros := func() string { return strings.Repeat("0", random.IntN(3)) }
	digits := strconv.FormatInt(max(mantissa, -mantissa), 10)
	if mantissa != 0 {
		added := zeros()
		digits, power = digits+added, power-len(added)
	}
	if places := random.IntN(4); places > 0 {
		digits = strings.Repeat("0", max(0, places+1-len(digits))) + digits
		point := len(digits) - places
		digits, power = digits[:point]+"."+digits[point:]+zeros(), power+places
	}
	if mantissa < 0 {
		digits = "-" + digits
	}
	if power == 0 && random.IntN(2) == 0 {
		return digits
	}
	sign := []string{"", "+"}[random.IntN(2)]
	if power < 0 {
		sign = "-"
	}
	return digits + []string{"e", "E"}[random.IntN(2)] + sign + zeros() + strconv.Itoa(max(power, -power))
}

func TestDifferencesIgnoreWhatProducersDoNotWrite(t *testing.T) {
	t.Parallel()
	a, b := valid(), valid()
	a.SendAt = now.Add(time.Hour)
	b.ID, b.CreatedAt, b.TraceParent = "another", now, "00-1-2-01"
	b.SendAt = a.SendAt.Add(999 * time.Nanosecond).In(time.FixedZone("east", 3600))
	if got := a.Differences(b); got != nil {
		t.Errorf("%v differ", got)
	}
}

func ExampleConflictError() {
	first := &notification.Notification{ID: "order-17", UserID: "ada", Title: "Shipped", Body: "It is on its way."}
	second := &notification.Notification{ID: "order-17", UserID: "ada", Title: "Delivered", Body: "It is at your door."}
	fmt.Println(&notification.ConflictError{ID: "order-17", Fields: second.Differences(first)})
	// Output:
	// id: "order-17" was accepted before with other content: title and body differ; repeat it unchanged, or use another id
}
