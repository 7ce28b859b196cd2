package redistest_test

import (
	"testing"

	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
