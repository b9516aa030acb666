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
	"strconv"
	"strings"
	"sync/atomic"
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
// compiled anew for it, which takes minutes the first time. In waits, a constant of the
// product can be replaced.
func MainWithWallClocks(m *testing.M, waits ...Wait) int {
	return mainWith(m, func(dir string) ([]string, error) { return wallOverlay(dir, waits) })
}

// Wait is a line of the product that says how long it waits by the monotonic clock, and what
// is compiled in its place where the wall clock goes a thousand times as fast.
type Wait struct{ File, Was, Is string }

// wallOverlay writes what go build wants, to replace time.Now and the waits.
func wallOverlay(dir string, waits []Wait) ([]string, error) {
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
	replaced := map[string]string{
		filepath.Join(library, "time.go"): before + now + strings.Replace(after, call, "wallNow()", 1),
		filepath.Join(library, "wall.go"): string(wallSource),
	}
	if err := shorten(replaced, waits); err != nil {
		return nil, err
	}
	return writeOverlay(dir, replaced)
}

// shorten adds the files with waits, each with all of its own replaced.
func shorten(replaced map[string]string, waits []Wait) error {
	for _, w := range waits {
		path := filepath.Join(Root(), w.File)
		if _, read := replaced[path]; !read {
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			replaced[path] = string(source)
		}
		if n := strings.Count(replaced[path], w.Was); n != 1 {
			return fmt.Errorf("%s has %q %d times, not once", w.File, w.Was, n)
		}
		replaced[path] = strings.Replace(replaced[path], w.Was, w.Is, 1)
	}
	return nil
}

// writeOverlay writes files that go build reads in place of others, by their paths.
func writeOverlay(dir string, replaced map[string]string) ([]string, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range replaced {
		mine := filepath.Join(dir, strconv.Itoa(len(overlay.Replace))+".go")
		if err := os.WriteFile(mine, []byte(text), 0o600); err != nil {
			return nil, err
		}
		overlay.Replace[path] = mine
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
	t     testing.TB
	file  string
	by    atomic.Int64
	began time.Time
}

// ShareWallClock gives one wall clock to all processes that the test starts from now on, so
// that they are moved at the same moment. It needs MainWithWallClocks.
func ShareWallClock(t testing.TB) *WallClock {
	w := newWallClock(t)
	t.Setenv(wallVariable, w.file)
	return w
}

func newWallClock(t testing.TB) *WallClock {
	w := &WallClock{t: t, file: filepath.Join(t.TempDir(), "wall"), began: time.Now()}
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
	w.by.Store(int64(by))
}

// Now is what its processes see: it is a cellclock.Clock, for a test that lives in their time.
func (w *WallClock) Now() (wall time.Time, monotonic time.Duration) {
	now := time.Now()
	return now.Round(0).Add(time.Duration(w.by.Load())), now.Sub(w.began)
}

func (w *WallClock) env() []string {
	if w == nil {
		return nil
	}
	return []string{wallVariable + "=" + w.file}
}
