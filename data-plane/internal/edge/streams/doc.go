// Package streams serves worker streams: frames of acks, fails, heartbeats, enqueues and
// a fetch, over one connection, in the order they came (lock-step) or as they are done
// (pipelined).
//
// It owns the life of a stream (how it opens, is told to go elsewhere, drains and is cut),
// its bounds (streams, frames in flight, parked fetches) and what becomes of jobs whose
// answer did not arrive. It must not know requests, routes or how a caller is found: the
// server hands it a Session and answers through Backend.
//
//	st := streams.New(ctx, w, frames, set, session)
//	defer st.Close()
//	return st.Serve()
//
// Surprising: a client that must go elsewhere is told NOT_LEADER in an ordinary reply,
// because that is the only form in which existing clients open another stream.
package streams
