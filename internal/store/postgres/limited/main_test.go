package limited_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/test/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Around(m)) }
