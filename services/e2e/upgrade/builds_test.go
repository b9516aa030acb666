package upgrade

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// older and newer are the programs of the test.
var older, newer string // Built once, by TestMain.

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: it builds two programs and starts a cell of them")
		return 0
	}
	dir, err := os.MkdirTemp("", "corvo-upgrade-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if older, err = rig.BuildOlder(); err == nil {
		newer, err = buildNewer(dir)
	}
	if err == nil {
		err = os.Setenv("CORVO_E2E_CLOUD", newer) // Proxies and commands are of the newer build.
	}
	if errors.Is(err, rig.ErrHistory) && !long() {
		fmt.Println("skipped:", err)
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		return 1
	}
	return rig.Main(m)
}

// buildNewer builds the sources at hand with the edits of next.
func buildNewer(dir string) (string, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	texts, err := edited(filepath.Join(rig.Root(), "data-plane", "internal"))
	if err != nil {
		return "", err
	}
	for path, text := range texts {
		mine := filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay.Replace)))
		if err := os.WriteFile(mine, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[path] = mine
	}
	plan, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "corvo-cloud")
	if err := os.WriteFile(file, plan, 0o600); err != nil {
		return "", err
	}
	return bin, rig.Build(rig.Root(), bin, "-overlay", file)
}
