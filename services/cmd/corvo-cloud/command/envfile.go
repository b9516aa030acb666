package command

import "github.com/corvo-cloud/corvo/services/datadir"

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
