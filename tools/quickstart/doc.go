// Package quickstart runs docs/quickstart.md: the marked shell blocks, and the Go
// program, against a service that it starts the way a newcomer does. It owns no
// code beside its tests and must not know the product other than by its binaries.
//
// The surprising fact: the page is the test's script. A block that says
// "sh test=quickstart" is executed as it stands, all blocks in one shell.
package quickstart
