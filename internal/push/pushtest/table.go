package pushtest

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/push"
)

// Table provokes each response of a channel's table, and compares the outcome of the delivery with the row. send starts
// a fake that responds as the row says, sends one notification to it, and returns the result.
func Table(t *testing.T, table push.Table, send func(t *testing.T, row push.Row) error) {
	t.Helper()
	seen := map[string]bool{}
	for _, row := range table {
		name := row.Response()
		if seen[name] {
			t.Errorf("two rows are about %s", name)
		}
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failure := push.Classify(send(t, row))
			switch {
			case (failure == nil) != (row.Class == 0):
				t.Errorf("got %v, want class %v", failure, row.Class)
			case failure == nil:
			case failure.Class != row.Class || failure.Concerns != row.Concerns || failure.RetryAfter != row.Wait ||
				failure.Unsent != row.Unsent || failure.Counts() != row.Counts() || failure.Reached || failure.Partial:
				t.Errorf("got %+v, want %+v", failure, row)
			}
		})
	}
	for _, status := range []int{299, 499, 599} {
		if row := table.Row(push.Response{Status: status}); row.Status == 0 {
			t.Errorf("the table has no row for %d", status)
		}
	}
}

// HTTPStatus is a status of the row's: of a family, one that no row has by itself.
func HTTPStatus(row push.Row) int {
	if row.Status >= 100 {
		return row.Status
	}
	return map[int]int{2: 204, 3: 302, 4: 418, 5: 599}[row.Status]
}
