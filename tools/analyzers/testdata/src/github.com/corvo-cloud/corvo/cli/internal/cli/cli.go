// Cli talks to people.
package cli // want `the package comment begins with "Package cli`

import "fmt"

func hello() { fmt.Println("hello") }

var _ = hello
