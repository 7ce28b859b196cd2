package postgrestest_test

import (
	"testing"

	"github.com/pacer-notify/pacer/test/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }
