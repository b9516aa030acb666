package rig

import (
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// wallVariable names the file with how far a process's wall clock is moved.
const wallVariable = "CORVO_E2E_WALL"

// wallSource is a file of Go's package time, compiled into the binary under test.
//
//go:embed overlay/wall.go.txt
var wallSource []byte

// MainWithWallClocks is Main with a corvo-cloud whose wall clock a test can move while it
// runs: the same sources, but time.Now adds what stands in a file. Everything is
// compiled anew for it, which takes minutes the first time.
func MainWithWallClocks(m *testing.M) int { return mainWith(m, wallOverlay) }

// wallOverlay writes what go build wants, to replace time.Now.
func wallOverlay(dir string) ([]string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find Go: %w", err)
	}
	library := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(library, "time.go"))
	if err != nil {
		return nil, err
	}
	const now, call = "func Now() Time {", "runtimeNow()"
	before, after, ok := strings.Cut(string(source), now)
	if !ok || !strings.Contains(after, call) {
		return nil, fmt.Errorf("this Go's time.Now is not the one that the overlay knows")
	}
	replaced := map[string]string{"time.go": before + now + strings.Replace(after, call, "wallNow()", 1), "wall.go": string(wallSource)}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range replaced {
		mine := filepath.Join(dir, name)
		if err := os.WriteFile(mine, []byte(text), 0o600); err != nil {
			return nil, err
		}
		overlay.Replace[filepath.Join(library, name)] = mine
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "overlay.json")
	return []string{"-overlay", file}, os.WriteFile(file, text, 0o600)
}

// WallClock is the wall clock of a process. A jump of it moves no monotonic clock, as when
// somebody sets a machine's clock.
type WallClock struct {
	t    testing.TB
	file string
}

func newWallClock(t testing.TB) *WallClock {
	w := &WallClock{t: t, file: filepath.Join(t.TempDir(), "wall")}
	w.Move(0)
	return w
}

// Move sets the process's wall clock to the machine's plus by, at once.
func (w *WallClock) Move(by time.Duration) {
	w.t.Helper()
	// In place and in one write: the process has the file mapped.
	f := must(os.OpenFile(w.file, os.O_WRONLY|os.O_CREATE, 0o600))(w.t)
	_, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by)), 0)
	check(w.t, errors.Join(err, f.Close()))
}

func (w *WallClock) env() []string {
	if w == nil {
		return nil
	}
	return []string{wallVariable + "=" + w.file}
}
