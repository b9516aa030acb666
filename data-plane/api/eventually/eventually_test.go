package eventually

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that notes how it failed.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) { f.said = fmt.Sprintf(format, args...) }

func TestTrue_EndsWithTheConditionOrWithWhatDidNotHappen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, f := time.Now(), &failing{TB: t}
		True(f, time.Second, "never", func() bool { return time.Since(began) > 300*time.Millisecond })
		if took := time.Since(began); f.said != "" || took > 300*time.Millisecond+mostPause {
			t.Errorf("after %s: %q", took, f.said)
		}
		True(f, time.Second, "a leader", func() bool { return false })
		if f.said != "not within 1s: a leader" {
			t.Errorf("said %q", f.said)
		}
		NoError(f, time.Second, "a list", func() error { return errors.New("half of it") })
		if f.said != "not within 1s: a list: half of it" {
			t.Errorf("said %q", f.said)
		}
	})
}

// A process that was stopped meanwhile looks once more.
func TestTrue_AsksOnceMoreAfterTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, f := 0, &failing{TB: t}
		True(f, time.Second, "the second look", func() bool {
			time.Sleep(time.Minute)
			asked++
			return asked == 2
		})
		if f.said != "" {
			t.Error(f.said)
		}
	})
}

func TestReturns_FailsWhatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t}
		Returns(f, time.Second, "the drain", func() { time.Sleep(time.Second / 2) })
		if f.said != "" {
			t.Error(f.said)
		}
		Returns(f, time.Second, "the drain", func() { time.Sleep(2 * time.Second) })
		if f.said != "the drain took more than 1s" {
			t.Errorf("said %q", f.said)
		}
		time.Sleep(2 * time.Second) // It ends.
	})
}
