package rig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrHistory: a clone without history has no older build. Only the long test requires
// one.
var ErrHistory = errors.New("this clone does not have")

// BuildOlder builds the oldest commit that a cell may be upgraded from, which
// services/e2e/upgrade/from names, unless that was done before.
func BuildOlder() (string, error) {
	root := Root()
	from, err := os.ReadFile(filepath.Join(root, "services", "e2e", "upgrade", "from"))
	if err != nil {
		return "", err
	}
	commit := strings.TrimSpace(string(from))
	if err := exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		return "", fmt.Errorf("%w commit %s, which services/e2e/upgrade/from names: fetch the whole history (git fetch --unshallow)", ErrHistory, commit)
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
	if err := Build(source, bin+".new"); err != nil {
		return "", fmt.Errorf("commit %s: %w", commit, err)
	}
	return bin, os.Rename(bin+".new", bin) // Whole, or not there.
}
