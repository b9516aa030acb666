package callstream

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A burst of answers may take a slow link longer than the other side is given for a piece. Only who reads nothing
// at all is cut.
func TestPipe_CutsWhoReadsNothingAndNotWhoReadsSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		p := &pipe{conn: here}
		const burst = 24 << 20
		sent := make(chan error, 1)
		go func() { sent <- p.send(make([]byte, 1<<20)) }()
		synctest.Wait()
		if err := p.send(make([]byte, burst)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64<<10)
		for n := 0; n < burst; n += len(buf) {
			if _, err := io.ReadFull(there, buf); err != nil {
				t.Fatalf("cut after %d bytes: %v", n, err)
			}
			time.Sleep(30 * time.Millisecond)
		}
		if err := <-sent; err != nil {
			t.Errorf("the first of the burst ends with %v", err)
		}
		began := time.Now()
		_, _ = io.ReadFull(there, buf) // Something, and then nothing any more.
		time.Sleep(writeTimeout + time.Second)
		if err := p.send(nil); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s after the last byte was read, sending ends with %v", time.Since(began), err)
		}
		_ = there.Close()
	})
}
