package free

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"
)

func work() error              { return nil }
func count() (int, error)      { return 0, nil }
func sync(f *os.File) *os.File { return f }

func drop(w io.Writer, f *os.File) error {
	// want +2 `error of work ignored`

	work()

	// want +2 `error of count ignored`

	count()

	// want +2 `error of work assigned to _`

	_ = work()

	// want +2 `error of count assigned to _`

	n, _ := count()

	// want +2 `error of deferred Sync ignored`

	defer f.Sync()

	defer f.Close()
	_ = f.Close()
	// want +2 `error of Close ignored`

	f.Close()

	_ = f.Sync() // The directory is gone; nobody is left to tell.

	// Nobody is left to tell.
	_ = f.Sync()

	var b strings.Builder
	b.WriteString("never fails")
	fmt.Fprintln(w, n)
	rand.Read(nil)
	_, ok := any(w).(io.Closer)
	_ = ok
	_ = sync(f)
	if _, err := count(); err != nil {
		return err
	}
	return work()
}

var _ = drop
