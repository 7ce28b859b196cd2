package agenda_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/redistest"
)

// stepsOnRedis is how many steps of random programs are played on Redis, unless AGENDA_STEPS says another number, as
// make chaos does. Each run plays other programs.
const stepsOnRedis = 6_000

// wanted is the number that a variable of the environment says, or else the usual one.
func wanted(t *testing.T, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		t.Fatalf("%s is %q, want a number", variable, text)
	}
	return number
}

// replayed is the seed of one program to be played alone, as a failure names it.
var replayed = flag.Uint64("replay", 0, "play the program with this seed alone")

func sound(source string) string { return source }

// Whatever happens in whatever order, Lua does what the model does: a wake-up stands for all that waits, the counts are
// exact after every step, who is granted, when and in which order is what the limits say, everything ends once and
// nothing is left.
func TestAnyProgramIsPlayedAsTheModelSays(t *testing.T) {
	t.Parallel()
	steps := wanted(t, "AGENDA_STEPS", stepsOnRedis)
	for _, engine := range []struct {
		name  string
		open  func(testing.TB) *redis.Client
		steps int
		parts int
	}{
		{name: "Redis", open: redistest.Client, steps: steps, parts: 4},
		{name: "Miniredis", open: redistest.Mini, steps: steps / perStepOnMini, parts: 2},
	} {
		for part := range engine.parts {
			t.Run(engine.name+strconv.Itoa(part), func(t *testing.T) {
				t.Parallel()
				th := newTheatre(t, engine.open(t), sound)
				if *replayed != 0 {
					if wrong, _ := th.play(*replayed); wrong != "" {
						t.Error(wrong)
					}
					return
				}
				seed, programs := rand.Uint64()>>2, uint64(0)
				if part%2 == 1 {
					seed += cappedSeeds
				}
				played := 0
				for ; played < engine.steps/engine.parts; programs++ {
					wrong, steps := th.play(seed + programs)
					if wrong != "" {
						t.Fatal(wrong)
					}
					played += steps
				}
				t.Logf("%d programs, %d steps", programs, played)
			})
		}
	}
}
