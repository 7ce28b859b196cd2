package app_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/postgrestest"
	"github.com/pacer-notify/pacer/internal/redistest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m)),
		// go-redis ends these a moment after its client is closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9.(*fdEngine).run"),
		goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"),
	)
}
