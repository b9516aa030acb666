package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/corvo-cloud/corvo/services/datadir"
)

// forgetEnvFile removes what an earlier run wrote, for whoever waits for the file.
func forgetEnvFile(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s of an earlier run: %w", path, err)
	}
	return nil
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
