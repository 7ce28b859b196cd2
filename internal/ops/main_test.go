package ops_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Around(redistest.Around(m))) }
