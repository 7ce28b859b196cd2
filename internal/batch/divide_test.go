package batch_test

import (
	"errors"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/batch"
)

var (
	errBad  = errors.New("one of the numbers is bad")
	errAway = errors.New("no connection")
)

func isBad(err error) bool { return errors.Is(err, errBad) }

// Whichever requests are bad, they alone have the error. The others have their results, and few runs are made.
func TestABadRequestHarmsNoOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		numbers := make([]int, rapid.IntRange(0, 300).Draw(t, "requests"))
		for i := range numbers {
			numbers[i] = i
		}
		bad := rapid.SliceOfNDistinct(rapid.IntRange(0, 300), 0, 5, rapid.ID[int]).Draw(t, "bad")
		bad = slices.DeleteFunc(bad, func(i int) bool { return i >= len(numbers) })
		runs := 0
		outcomes := batch.Divide(numbers, func(part []int) ([]int, error) {
			runs++
			doubled := make([]int, len(part))
			for i, q := range part {
				if slices.Contains(bad, q) {
					return nil, errBad
				}
				doubled[i] = 2 * q
			}
			return doubled, nil
		}, isBad)
		if len(outcomes) != len(numbers) {
			t.Fatalf("%d requests have %d outcomes", len(numbers), len(outcomes))
		}
		for i, o := range outcomes {
			if isBad(o.Err) != slices.Contains(bad, i) || o.Err == nil && o.Result != 2*i {
				t.Errorf("of %d with %v bad, %d has %d, %v", len(numbers), bad, i, o.Result, o.Err)
			}
		}
		if most := 1 + 2*len(bad)*bits.Len(uint(len(numbers))); runs > most {
			t.Errorf("%d requests with %d bad take %d runs, more than %d", len(numbers), len(bad), runs, most)
		}
	})
}

// An error that is about none of the requests ends the batch, whole or divided: no further request is run.
func TestAnErrorOfAllEndsTheBatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		away int // the run that fails, from 1
		runs int
		done int // how many requests have results
	}{
		"at once":          {away: 1, runs: 1},
		"once it is apart": {away: 4, runs: 4, done: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			outcomes := batch.Divide([]int{0, 1, 2, 3, 4, 5, 6, 7}, func(part []int) ([]int, error) {
				runs++
				if runs == c.away {
					return nil, errAway
				}
				if slices.Contains(part, 2) {
					return nil, errBad
				}
				return part, nil
			}, isBad)
			for i, o := range outcomes {
				if i < c.done && (o.Err != nil || o.Result != i) || i >= c.done && !errors.Is(o.Err, errAway) {
					t.Errorf("%d has %d, %v", i, o.Result, o.Err)
				}
			}
			if runs != c.runs {
				t.Errorf("it takes %d runs, want %d", runs, c.runs)
			}
		})
	}
}
