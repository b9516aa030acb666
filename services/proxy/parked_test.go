package proxy

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// A fetch that waits, over a connection of its own as most clients have it, costs what is
// measured here over proxy and node together: buffers and stacks. Not parallel, because the
// memory is everybody's; the client is a bare socket.
func TestFetch_ParkedOnesAreCheap(t *testing.T) {
	const fetches, bytesMax = 500, 100 << 10
	r := startRig(t, rigOptions{})
	var parked atomic.Int64
	r.up[0].does(func(_ http.ResponseWriter, r *http.Request) { parked.Add(1); <-r.Context().Done() })
	base, err := url.Parse(r.base)
	if err != nil {
		t.Fatal(err)
	}
	heap, stacks := memory()
	for range fetches {
		c, err := net.Dial("tcp", base.Host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		body := `{"queues":["q"],"worker_id":"w","timeout":60}`
		if _, err := fmt.Fprintf(c, "POST /api/v1/fetch HTTP/1.1\r\nHost: %s\r\nX-API-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", base.Host, r.acme.key.Reveal(), len(body), body); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, patience, "all fetches are parked", func() bool { return parked.Load() == fetches })
	heapNow, stacksNow := memory()
	h, s := (heapNow-heap)/fetches, (stacksNow-stacks)/fetches
	t.Logf("%d KiB of heap and %d KiB of stacks for each waiting fetch, %d goroutines", h>>10, s>>10, runtime.NumGoroutine()/fetches)
	if h+s > bytesMax {
		t.Errorf("%d KiB for each waiting fetch", (h+s)>>10)
	}
}

// memory is what heap and stacks use.
func memory() (heap, stacks uint64) {
	runtime.GC()
	runtime.GC() // Pools give up what they hold at the second.
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse, m.StackInuse
}
