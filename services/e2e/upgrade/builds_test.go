package upgrade

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

//go:embed from
var from string

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
	if older, err = buildOlder(); err == nil {
		newer, err = buildNewer(dir)
	}
	if err == nil {
		err = os.Setenv("CORVO_E2E_CLOUD", newer) // Proxies and commands are of the newer build.
	}
	if errors.Is(err, errHistory) && !long() {
		fmt.Println("skipped:", err)
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		return 1
	}
	return rig.Main(m)
}

// errHistory: a clone without history has no older build. Only the long test requires
// one.
var errHistory = errors.New("this clone does not have")

// buildOlder builds the commit of `from`, unless that was done before.
func buildOlder() (string, error) {
	root, commit := rig.Root(), strings.TrimSpace(from)
	if err := exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		return "", fmt.Errorf("%w commit %s, which services/e2e/upgrade/from names: fetch the whole history (git fetch --unshallow)", errHistory, commit)
	}
	cache := filepath.Join(root, ".bin", "upgrade")
	bin := filepath.Join(cache, "corvo-cloud-"+commit)
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	source := filepath.Join(cache, commit)
	if err := errors.Join(os.RemoveAll(source), os.MkdirAll(source, 0o700)); err != nil {
		return "", err
	}
	defer os.RemoveAll(source)
	archive, err := exec.Command("git", "-C", root, "archive", commit).Output()
	if err != nil {
		return "", fmt.Errorf("read commit %s: %w", commit, err)
	}
	unpack := exec.Command("tar", "-x", "-C", source)
	unpack.Stdin = bytes.NewReader(archive)
	if out, err := unpack.CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack commit %s: %w\n%s", commit, err, out)
	}
	if err := rig.Build(source, bin+".new"); err != nil {
		return "", fmt.Errorf("commit %s: %w", commit, err)
	}
	return bin, os.Rename(bin+".new", bin) // Whole, or not there.
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
