package transport

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

// All that a node sends shares one bound, however many send.
func TestPace_TwoTransfersShareTheNodesRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &Mux{pace: rate.NewLimiter(snapshotRate, paceBurst)}
		begin, ended := time.Now(), make(chan int64, 2)
		for range 2 {
			go func() {
				n, err := io.Copy(io.Discard, m.Pace(t.Context(), io.LimitReader(zeros{}, 320<<20)))
				if err != nil {
					t.Error(err)
				}
				ended <- n
			}()
		}
		if n := <-ended + <-ended; n != 640<<20 {
			t.Errorf("%d bytes", n)
		}
		if took := time.Since(begin); took < 9900*time.Millisecond || took > 10100*time.Millisecond {
			t.Errorf("640 MiB took %s, not 10 s", took)
		}
	})
}

func TestPace_EndsWithItsTransfer(t *testing.T) {
	t.Parallel()
	m := &Mux{pace: rate.NewLimiter(1, paceBurst)}
	ctx, cancel := context.WithCancel(t.Context())
	r := m.Pace(ctx, strings.NewReader(strings.Repeat("x", 2*paceBurst)))
	buf := bytes.NewBuffer(nil)
	if _, err := io.CopyN(buf, r, paceBurst); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(buf, r); err == nil {
		t.Fatal("it goes on")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
