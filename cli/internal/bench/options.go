package bench

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Workload is what is measured.
type Workload string

const (
	Enqueue   Workload = "enqueue"   // Producers add jobs; taking them out again is not timed.
	Lifecycle Workload = "lifecycle" // Handlers fetch and ack waiting jobs, every ack confirmed.
	Latency   Workload = "latency"   // From before the enqueue to the handler of an idle worker.
	Single    Workload = "single"    // One caller enqueues one job after the other.
	Steady    Workload = "steady"    // Producers add so many jobs a second, handlers take them meanwhile.
)

// Workloads lists them.
func Workloads() []Workload { return []Workload{Enqueue, Lifecycle, Latency, Single, Steady} }

// Alone says that a workload is one caller with one job at a time.
func (w Workload) Alone() bool { return w == Latency || w == Single }

// Protocol is how the load reaches the server.
type Protocol string

const (
	HTTP   Protocol = "http"   // HTTP/1.1 and JSON, one call at a time per connection.
	RPC    Protocol = "rpc"    // Unary Connect over HTTP/2.
	Stream Protocol = "stream" // StreamLifecycle frames.
)

// Protocols lists them.
func Protocols() []Protocol { return []Protocol{HTTP, RPC, Stream} }

// Limits of a run, so that a mistyped number does not take the machine down.
const (
	jobsMax         = 50_000_000
	batchMax        = 512 // The protocol's limit of a fetch.
	connectionsMax  = 4096
	callersMax      = 65536
	payloadBytesMax = 256 << 10
	payloadBytesMin = 2 // {}
	rateMax         = 10_000_000
)

// Options describe one run.
type Options struct {
	Workload     Workload
	Protocol     Protocol
	Jobs         int
	Batch        int // Jobs per frame or call.
	Connections  int
	Concurrency  int // Callers that share one connection.
	PayloadBytes int
	Rate         int // Steady only: jobs a second.
	// Backlog is how many jobs wait in the queue on top of Jobs during a
	// lifecycle; they are taken out afterwards.
	Backlog int
	// KeepBacklog leaves the backlog where it is, for a server that is thrown away.
	KeepBacklog bool

	// Server is the base URL; APIKey and Namespace go with every request.
	Server    *url.URL
	APIKey    string
	Namespace string

	// ProfileFile takes a CPU profile of the server's measured phase.
	ProfileFile string
	// Progress is called with the phase and how much of it is done, a few times a
	// second. It may be nil.
	Progress func(phase string, done, total int)
}

// Default is the run of `corvo bench` without flags.
func Default() Options {
	return Options{Workload: Lifecycle, Protocol: Stream, Jobs: 50_000, Batch: 1, Connections: 1, Concurrency: 10, PayloadBytes: 100}
}

// Validate names every value that cannot be run. Workloads of one caller first get that shape:
// the values of Default are for many.
func (o *Options) Validate() error {
	if o.Workload.Alone() {
		o.Connections, o.Concurrency, o.Batch = 1, 1, 1
	}
	var problems []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	within := func(name string, value, low, high int) {
		check(value >= low && value <= high, "%s %d is not between %d and %d", name, value, low, high)
	}
	check(slices.Contains(Workloads(), o.Workload), "workload %q is not enqueue, lifecycle, latency, single or steady", o.Workload)
	check(slices.Contains(Protocols(), o.Protocol), "protocol %q is not http, rpc or stream", o.Protocol)
	within("jobs", o.Jobs, 1, jobsMax)
	within("batch", o.Batch, 1, batchMax)
	within("connections", o.Connections, 1, connectionsMax)
	within("concurrency", o.Concurrency, 1, callersMax)
	within("connections times concurrency", o.Connections*o.Concurrency, 1, callersMax)
	within("payload bytes", o.PayloadBytes, payloadBytesMin, payloadBytesMax)
	within("backlog", o.Backlog, 0, jobsMax)
	check(o.Workload == Steady == (o.Rate > 0), "the workload steady, and no other, has a rate (jobs a second)")
	within("rate", o.Rate, 0, rateMax)
	check(o.Protocol != HTTP || o.Concurrency == 1, "http has one call at a time per connection: use connections %d and concurrency 1", o.Connections*o.Concurrency)
	check(o.Server != nil, "no server to measure")
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

const (
	// leaseSeconds is longer than any run, so that a job handed out twice is the
	// server's fault and never an expired lease.
	leaseSeconds = 3600
	// stallMax ends a run that no longer moves.
	stallMax = 30 * time.Second
	// overloadPause is how long a caller stays away after OVERLOADED.
	overloadPause = 5 * time.Millisecond
)
