//go:build !unix

package cli

import "os/exec"

func isolate(*exec.Cmd) {}
