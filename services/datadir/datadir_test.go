package datadir_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/corvo-cloud/corvo/services/datadir"
)

func claim(t *testing.T, dir, kind string) *datadir.Dir {
	t.Helper()
	d, err := datadir.Claim(dir, kind)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestClaim_OneAtATime(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	first := claim(t, dir, "up")
	if _, err := datadir.Claim(dir, "up"); !errors.Is(err, datadir.ErrInUse) {
		t.Fatalf("second claim: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if err := claim(t, dir, "up").Release(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others can look into it: %v %v", info.Mode(), err)
	}
}

func TestClaim_RefusesWhatItDoesNotUnderstandAndTouchesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, text string
		want       error
	}{
		"another kind":         {"VERSION", "corvo-cloud node 1\n", datadir.ErrForeign},
		"a later version":      {"VERSION", "corvo-cloud up 2\n", datadir.ErrOtherVersion},
		"somebody's VERSION":   {"VERSION", "1.2.3\n", datadir.ErrForeign},
		"an empty VERSION":     {"VERSION", "", datadir.ErrForeign},
		"somebody's directory": {"thesis.txt", "years of work", datadir.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, tc.file)
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // A refused claim holds no lock.
				if _, err := datadir.Claim(dir, "up"); !errors.Is(err, tc.want) {
					t.Fatalf("got %v, want %v", err, tc.want)
				}
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != tc.text {
				t.Errorf("the file says %q, %v", text, err)
			}
		})
	}
}

func TestClaim_AFileIsNoDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if _, err := datadir.Claim(dir, "node"); !errors.Is(err, datadir.ErrForeign) {
			t.Errorf("claim %s: %v, want ErrForeign", dir, err)
		}
	}
}

func TestClaim_TakesTheRootOfAFileSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := claim(t, dir, "node").Release(); err != nil {
		t.Fatal(err)
	}
}

func TestWriteFile_ReplacesWholeAndIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "env")
	for _, text := range []string{"a long first text\n", "short\n"} {
		if err := datadir.WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Fatalf("read %q, %v; want %q", got, err, text)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := datadir.WriteFile(filepath.Join(dir, "no", "such"), nil); err == nil {
		t.Error("wrote into a directory that is not there")
	}
}
