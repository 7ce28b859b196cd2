package dispatch_test

import (
	"strconv"
	"testing"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// A user's partition (32-bit FNV-1a modulo the number of partitions) is part of the keys of running deployments: no
// version of pacer may change it.
func TestPartitionOfNeverChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		user string
		want map[int]int // by the number of partitions
	}{
		"nobody":         {user: "", want: map[int]int{1: 0, 2: 1, 16: 5, 1024: 453}},
		"short id":       {user: "u-1", want: map[int]int{1: 0, 2: 0, 16: 2, 1024: 258}},
		"e-mail address": {user: "ada@a.example", want: map[int]int{1: 0, 2: 0, 16: 4, 1024: 132}},
		"all sorts of letters": {
			user: "{push-3}:тест ", want: map[int]int{1: 0, 2: 0, 16: 4, 1024: 244},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for partitions, want := range c.want {
				if got := dispatch.PartitionOf(c.user, partitions); got != want {
					t.Errorf("user %q is in partition %d of %d, want %d", c.user, got, partitions, want)
				}
				backlog := dispatch.BacklogOf(c.user, "chat", partitions)
				if backlog != (dispatch.Backlog{Partition: want, UserID: c.user, Category: "chat"}) {
					t.Errorf("the backlog of user %q is %+v", c.user, backlog)
				}
			}
		})
	}
}

// Users spread over all partitions, none of which gets more than its share and a half.
func TestUsersSpreadOverThePartitions(t *testing.T) {
	t.Parallel()
	const users, partitions = 16_000, 16
	var counts [partitions]int
	for i := range users {
		counts[dispatch.PartitionOf("user-"+strconv.Itoa(i), partitions)]++
	}
	for partition, n := range counts {
		if n < users/partitions/2 || n > users/partitions*3/2 {
			t.Errorf("partition %d has %d of %d users: %v", partition, n, users, counts)
		}
	}
}
