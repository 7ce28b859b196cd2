package plural_test

import (
	"fmt"

	"github.com/pacer-notify/pacer/internal/plural"
)

func ExampleOf() {
	for n := range 3 {
		fmt.Println(plural.Of(n, "reply", "replies"))
	}
	// Output:
	// 0 replies
	// 1 reply
	// 2 replies
}
