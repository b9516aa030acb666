// Package server translates between the wire and the use cases: HTTP/JSON,
// Connect, gRPC and worker streams on one port.
//
// It owns the route table, authentication, which requests there are (a
// shape each, read by package shape; messages of corvo.v1 by package messages), the
// answers (types of package wire), the one table from fault codes to statuses, the
// carrying of requests to the leader, and event streams; worker streams are package
// streams'. It must not know raft, Pebble or how a job moves: package queue does the
// work, and the server only asks.
// Handlers stand in files by subject: jobs, queues, batches, chains, schedules, budget;
// what a worker does in enqueue, fetch and settle.
//
// One request walks: route table, authenticate, has the caller the permission, is
// the shard led here (else carry the whole request to the leader), decode,
// use case, encode. The table in routes.go is the only way in, so that a test can
// walk every route.
//
// Surprising: a stream that opens at a node which does not lead is either carried
// on (the caller came through a proxy that signed for it) or told NOT_LEADER as an
// ordinary reply, because that is the only form in which existing clients reopen.
package server
