// Command show prints the build that it is. It exists for the test of the linker flags.
package main

import (
	"fmt"

	"github.com/pacer-notify/pacer/internal/version"
)

func main() { fmt.Println(version.Current()) }
