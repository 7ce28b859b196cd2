// Package plural counts things in sentences: 1 notification, 2 notifications.
package plural

import "fmt"

// Of is a number of things, by what one is called and what many are called.
func Of[N ~int | ~int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
