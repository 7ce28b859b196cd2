package patience_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/patience"
)

func TestAsk(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		takes time.Duration // however long its context lasts
		says  error
		want  error
	}{
		"a reply":      {takes: time.Second},
		"a fault":      {takes: time.Second, says: broken, want: broken},
		"a late reply": {takes: time.Hour, want: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				got, err := patience.Ask(t.Context(), 2*time.Second, func(context.Context) (int, error) {
					<-time.After(c.takes)
					return 7, c.says
				})
				if !errors.Is(err, c.want) || err == nil && got != 7 {
					t.Errorf("got %d, %v; want %v", got, err, c.want)
				}
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("it waits for %s", took)
				}
				<-time.After(2 * time.Hour) // until all goroutines have ended
			})
		})
	}
}
