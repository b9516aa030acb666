package proxy_test

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// A fetch that waits, over a connection of its own as most clients have it, costs what is
// measured here over proxy and node together: buffers and stacks. Not parallel, because the
// memory is everybody's; the client is a bare socket, and the only node leads.
func TestFetch_ParkedOnesAreCheap(t *testing.T) {
	const fetches, bytesMax = 500, 100 << 10
	// Of a fetch: two at the proxy's connection, one at the node. The cell's own come and go.
	const goroutines, others = 3, 50
	c := startCellOf(t, 1)
	key := c.tenant("acme")
	eventually.True(t, patience, "the tenant's shard is led", func() bool { status, _ := c.call(key, "GET", "/api/v1/queues", nil); return status == 200 })
	heap, stacks := memory()
	before := runtime.NumGoroutine()
	for range fetches {
		c.park(key)
	}
	eventually.True(t, patience, "all fetches are parked", func() bool { return runtime.NumGoroutine() >= before+goroutines*fetches-others })
	heapNow, stacksNow := memory()
	h, s := (heapNow-heap)/fetches, (stacksNow-stacks)/fetches
	t.Logf("%d KiB of heap and %d KiB of stacks for each waiting fetch, %d goroutines", h>>10, s>>10, (runtime.NumGoroutine()-before+others)/fetches)
	if h+s > bytesMax {
		t.Errorf("%d KiB for each waiting fetch", (h+s)>>10)
	}
}

// park sends a fetch that waits for as long as the test runs.
func (c *cell) park(key apikey.Key) {
	host := strings.TrimPrefix(c.base, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	const body = `{"queues":["q"],"worker_id":"w","timeout":60}`
	if _, err := fmt.Fprintf(conn, "POST /api/v1/fetch HTTP/1.1\r\nHost: %s\r\nX-API-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		host, key.Reveal(), len(body), body); err != nil {
		c.t.Fatal(err)
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
