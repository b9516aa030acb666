// Package callstream carries many HTTP calls at a time over one connection between two
// processes of a cell. A call costs a frame each way, written together with those of other
// calls, where HTTP/2 costs compressed headers, four goroutines and a dozen wake-ups: through
// a proxy that was more than the node's whole work for a job.
//
// It owns the connection (opened by an HTTP/1.1 upgrade at [Path]), the frames and pings. It must not know what a call means. What it doesn't carry
// (a body that is large or not read yet, an answer that may never end, a server that doesn't
// know the upgrade) goes over another transport, see [Options].
//
// Surprising: a call is never sent again here. An error that wraps [ErrNotSent] proves that the
// server has not seen it; after any other the caller has to know whether it may be repeated.
package callstream
