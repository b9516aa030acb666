package bench

import (
	"fmt"
	"testing"
)

// BenchmarkGenerator shows what the generator itself can do: the stand-in does
// next to nothing for a job, in the same process. A number of corvo bench that
// comes near one of these measures the generator.
func BenchmarkGenerator(b *testing.B) {
	for _, c := range []struct {
		workload                        Workload
		protocol                        Protocol
		batch, connections, concurrency int
	}{
		{Enqueue, Stream, 1, 1, 50},
		{Enqueue, Stream, 1, 50, 1},
		{Enqueue, Stream, 64, 10, 1},
		{Lifecycle, Stream, 1, 1, 50},
		{Lifecycle, Stream, 64, 10, 1},
		{Enqueue, HTTP, 1, 50, 1},
		{Lifecycle, HTTP, 1, 50, 1},
		{Enqueue, RPC, 1, 1, 50},
	} {
		name := fmt.Sprintf("%s/%s/batch=%d/%dx%d", c.workload, c.protocol, c.batch, c.connections, c.concurrency)
		b.Run(name, func(b *testing.B) {
			o := Default()
			o.Workload, o.Protocol, o.Batch, o.Connections, o.Concurrency, o.Jobs = c.workload, c.protocol, c.batch, c.connections, c.concurrency, max(b.N, 100)
			r, err := Run(b.Context(), o, serve(b, faults{}))
			if err != nil || !r.Valid {
				b.Fatalf("%v %+v", err, r)
			}
			b.ReportMetric(r.Phase.PerSecond, "jobs/s")
			b.ReportMetric(r.Phase.ClientCPUSeconds*1e6/float64(r.Phase.Jobs), "cpu-us/job")
		})
	}
}
