package invariant_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// A user may get two notifications a minute, and got three.
func ExampleChecker_Round() {
	start := time.Now().Add(time.Minute)
	var delivered []invariant.Admission
	for i := range 3 {
		delivered = append(delivered, invariant.Admission{
			ID: fmt.Sprintf("n%d", i+1), UserID: "ada", Category: "chat", Priority: notification.PriorityNormal,
			At: throttle.MicrosOf(start.Add(time.Duration(i) * 10 * time.Second)),
		})
	}
	checker := invariant.New(invariant.Config{
		Source: copies(delivered),
		Limits: func(string, string) invariant.Limits {
			return invariant.Limits{Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 2, Per: time.Minute}}}}
		},
		Window:  func(string) time.Duration { return time.Minute },
		InForce: func() time.Time { return time.Time{} },
		Cleared: func(context.Context, time.Time) (map[string]time.Time, error) { return map[string]time.Time{}, nil },
		Found:   func(violations, unended int) { fmt.Println("violations:", violations, "unended:", unended) },
		Log:     slog.New(slog.DiscardHandler),
	})
	if err := checker.Round(context.Background(), start.Add(time.Hour)); err != nil {
		panic(err)
	}
	fmt.Println("since the process began:", checker.Latest().Violations)
	// Output:
	// violations: 1 unended: 0
	// since the process began: 1
}
