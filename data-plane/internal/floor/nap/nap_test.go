package nap

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

func TestSleep_LastsAsLongAsItSaysThroughSignals(t *testing.T) {
	const d = 50 * time.Millisecond
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGUSR1)
	defer signal.Stop(ignored)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = syscall.Kill(os.Getpid(), syscall.SIGUSR1)
				time.Sleep(time.Millisecond) // A pace.
			}
		}
	}()
	defer close(done)
	began := time.Now()
	Sleep(d)
	if took := time.Since(began); took < d {
		t.Errorf("it took %s", took)
	}
}

func BenchmarkSleep(b *testing.B) {
	for b.Loop() {
		Sleep(20 * time.Microsecond)
	}
}
