package throttle

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/redistest"
)

// pastScript puts the past of a plan.
var pastScript = redis.NewScript(LogFunctions + PastFunctions + `
local list, plan = {}, read_plan(1, KEYS[1], KEYS[2])
for _, cap in ipairs(plan.named) do cap.key = KEYS[3] end
put_past(list, plan)
return list`)

// What the Lua function puts for the player is what the limiter remembers.
func TestPastIsRead(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	limiter := NewRedis(client, func(string) string { return "p:" })
	for _, algorithm := range Algorithms() {
		t.Run(algorithm.String(), func(t *testing.T) {
			t.Parallel()
			plan := Plan{Algorithm: algorithm, Rules: []Rule{
				{Max: 3, Per: time.Hour},
				{Max: 5, Per: 2 * time.Hour},
				{Max: 3000, Per: 3 * time.Hour, Kind: KindCap},
				{Max: 4, Per: time.Minute, Kind: KindNamed, Cap: "marketing"},
				{Max: 4000, Per: 3 * time.Hour, Kind: KindNamed, Cap: "marketing"},
			}}
			key := Key{User: "u" + algorithm.String(), Category: "chat"}
			var last Decision
			for i := range 5 {
				d, err := limiter.Spend(t.Context(), key, plan, "t"+strconv.Itoa(i))
				if err != nil {
					t.Fatal(err)
				}
				last = Decision{Now: d.Now}
			}
			reply, err := pastScript.Run(t.Context(), client,
				[]string{plan.StateKey("p:", key), CapKey("p:", key), NamedKey("p:", "marketing", key)},
				plan.Args(nil)...).Slice()
			if err != nil {
				t.Fatal(err)
			}
			numbers := &numberReader{reply: reply}
			windows := NewWindows(key.User)
			windows.Read(key.Category, plan, numbers)
			if numbers.missed || len(numbers.reply) > 0 {
				t.Fatalf("%d of %d fields are left", len(numbers.reply), len(reply))
			}
			at, rule := windows.Under(key.Category, plan).Next(last.Now, Head{})
			usage, err := limiter.Peek(t.Context(), key, plan)
			if err != nil {
				t.Fatal(err)
			}
			if at != usage.At || rule != usage.Cause.Rule {
				t.Errorf("next at %d by %d, the limiter says %d by %+v", at, rule, usage.At, usage.Cause)
			}
			cut := &numberReader{reply: reply[:len(reply)-1]}
			if NewWindows(key.User).Read(key.Category, plan, cut); !cut.missed {
				t.Error("a reply that was cut off is read")
			}
		})
	}
}

// numberReader reads a reply that has nothing but numbers.
type numberReader struct {
	reply  []any
	missed bool
}

// Number implements Numbers.
func (r *numberReader) Number() int64 {
	if len(r.reply) == 0 {
		r.missed = true
		return 0
	}
	n, ok := r.reply[0].(int64)
	r.reply, r.missed = r.reply[1:], r.missed || !ok
	return n
}

// Count implements Numbers.
func (r *numberReader) Count() int {
	n := int(r.Number())
	if n < 0 || n > len(r.reply) {
		r.missed = true
		return 0
	}
	return n
}
