package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/corvo-cloud/corvo/services/datadir"
)

// forgetEnvFile removes what an earlier run wrote, for whoever waits for the file. It comes before
// everything that can fail: the file would say that a process which didn't start is ready.
func forgetEnvFile(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return usagef("--env-file: can't remove that of an earlier run: %v", err)
	}
	return nil
}

// serving says in one line that a process serves and where, writes that for whoever waits
// for the file, and returns when ctx ends or a part of the process fails.
func (s *session) serving(ctx context.Context, line, envFile, variable, url string, failed <-chan error) error {
	fmt.Fprintln(s.proc.Stdout, "ready: "+line)
	if err := writeEnvFile(envFile, [][2]string{{variable, url}}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// writeEnvFile writes variables for a shell, whole or not at all, readable by its
// owner only. Empty ones are left out, and so is a file without a name.
func writeEnvFile(path string, vars [][2]string) error {
	if path == "" {
		return nil
	}
	text := ""
	for _, v := range vars {
		if v[1] != "" {
			text += v[0] + "=" + v[1] + "\n"
		}
	}
	return datadir.WriteFile(path, []byte(text))
}
