package postgres_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/postgrestest"
	"github.com/pacer-notify/pacer/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m))) }
