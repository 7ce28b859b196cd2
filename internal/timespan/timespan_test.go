package timespan_test

import (
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/timespan"
)

func ExampleText() {
	for _, d := range []time.Duration{
		0, 500 * time.Millisecond, 90 * time.Second, time.Minute, 10 * time.Minute, time.Hour, time.Hour + time.Second,
		24 * time.Hour, -time.Hour,
	} {
		fmt.Println(timespan.Text(d))
	}
	// Output:
	// 0s
	// 500ms
	// 1m30s
	// 1m
	// 10m
	// 1h
	// 1h0m1s
	// 24h
	// -1h
}

func ExampleSeconds() {
	fmt.Println(timespan.Seconds(time.Hour-400*time.Millisecond), timespan.Seconds(-time.Second))
	// Output: 1h 0s
}
