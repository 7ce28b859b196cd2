//go:build faults

package chaos_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Each protection, switched off, is found out by random schedules. CHAOS_MUTATION names the only one to be tried,
// CHAOS_SCHEDULES how many schedules each may take.
func TestChaosFindsWhatIsSwitchedOff(t *testing.T) { //nolint:paralleltest // each takes all of the machine
	most, seed := number(t, "CHAOS_SCHEDULES", 3000), number(t, "CHAOS_SEED", 1)
	only := os.Getenv("CHAOS_MUTATION")
	for _, name := range slices.Sorted(maps.Keys(mutations)) { //nolint:paralleltest // likewise
		if only != "" && only != name {
			continue
		}
		t.Run(name, func(t *testing.T) {
			m := mutations[name]
			st := newStage(t)
			st.mutation, st.redis.mutate, st.database.mutate = name, m.scripts, m.statements
			found := (*played)(nil)
			if m.schedule != "" {
				found = replay(t, st, m.schedule)
				if len(found.broken) == 0 {
					found = nil
				}
			} else {
				found = find(t, st, m, seed, most)
			}
			if len(st.redis.mutated) != len(m.scripts) {
				t.Fatalf("the scripts hold only %v of what is to be replaced: correct the mutation", st.redis.mutated)
			}
			if len(st.database.mutated) != len(m.statements) {
				t.Fatalf("the statements hold only %v of what is to be replaced: correct the mutation", st.database.mutated)
			}
			if found == nil {
				t.Fatalf("defect %s was not found in %d schedules", m.defect, most)
			}
			small := shrinkOn(t, st, found)
			t.Logf("defect %s: seed %d found it: %v; %d moves suffice:\n%s", m.defect, found.Seed, small.broken,
				len(small.moves), small.schedule)
		})
	}
}

// find plays schedules until one breaks a promise that it keeps while nothing is switched off.
func find(t *testing.T, st *stage, m mutation, seed, most int) *played {
	t.Helper()
	sound := newStage(t)
	for n := 0; n < most; {
		var found *played
		inBubble(t, func(t *testing.T) {
			for range perBubble {
				r, set := newRandom(uint64(seed + n))
				if m.tilt != nil {
					m.tilt(r, &set)
				}
				p, err := st.play(set, r)
				if err != nil {
					t.Fatalf("seed %d can't be played: %v", seed+n, err)
				}
				// Something left over, without anybody harmed, is not enough.
				if n++; slices.ContainsFunc(p.broken, func(b string) bool { return strings.HasPrefix(b, "P") }) {
					found = p
					return
				}
			}
		})
		if found == nil {
			continue
		}
		// Only what is switched off may be the cause.
		again := playAgain(t, sound, found.schedule)
		if len(again.broken) == 0 {
			return found
		}
	}
	return nil
}
