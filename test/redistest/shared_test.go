package redistest_test

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/redistest"
)

func TestClientsHaveDatabasesOfTheirOwn(t *testing.T) {
	t.Parallel()
	a, b := redistest.Client(t), redistest.Client(t)
	if runID(t, a) != runID(t, b) {
		t.Error("two servers, want one for the whole binary")
	}
	set(t, a, "k", "v")
	if n := size(t, b); n != 0 {
		t.Errorf("%d keys of one client in the other's database", n)
	}
}

func TestURLIsADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	set(t, redistest.Client(t), "k", "v")
	opt, err := redis.ParseURL(redistest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(opt)
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	if n := size(t, c); n != 0 {
		t.Errorf("%d keys in a fresh database", n)
	}
}

// Leases enough databases, one after another, that each is used a second time.
//
//nolint:paralleltest,tparallel // One after another is the point.
func TestDatabaseIsEmptyForItsNextTest(t *testing.T) {
	t.Parallel()
	seen := map[int]int{}
	for i := range 300 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			c := redistest.Client(t)
			if n := size(t, c); n != 0 {
				t.Fatalf("%d keys left over in database %d", n, c.Options().DB)
			}
			set(t, c, "k", "v")
			seen[c.Options().DB]++
		})
	}
	if len(seen) == 300 {
		t.Error("no database was used twice, so nothing was shown")
	}
}
