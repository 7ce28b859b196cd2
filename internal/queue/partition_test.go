package queue_test

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/queue"
)

func TestPartitionNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		partition := rapid.IntRange(0, 1023).Draw(t, "partition")
		name := queue.PartitionName(partition)
		if back, err := queue.PartitionOfName(name); err != nil || back != partition {
			t.Fatalf("partition %d is called %s, which is read as %d (%v)", partition, name, back, err)
		}
		if strings.ContainsAny(name, "{}") {
			t.Fatalf("%s can't be a hash tag", name)
		}
	})
	for _, name := range []string{
		"", "3", "push-", "push", "push-x", "push-3x", "push- 3", "push-03", "push-+3", "push--0", "PUSH-3",
		"push-push-3",
		"default", "push-99999999999999999999",
	} {
		if partition, err := queue.PartitionOfName(name); err == nil {
			t.Errorf("%q is read as partition %d", name, partition)
		} else if !strings.Contains(err.Error(), strconv.Quote(name)) {
			t.Errorf("the error about %q does not name it: %v", name, err)
		}
	}
}
