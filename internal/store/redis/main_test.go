package redis_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
