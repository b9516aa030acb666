package main

const (
	callsFrame  = "callstream/frame.go"
	callsPipe   = "callstream/pipe.go"
	callsServer = "callstream/server.go"
	callsClient = "callstream/client.go"
	callsBody   = "callstream/body.go"
	forwardBody = "forward/forward.go"
)

// callMutations break the connection that carries calls from proxy to node.
var callMutations = []mutation{
	{"a connection ends before its last answers are sent", callsServer, "\t\tss.out.finish()\n", "\t\tss.out.close(io.EOF)\n"},
	{"a client says too early that no call is to come", callsClient, "last := c.unsent == 0\n", "last := true\n"},
	{"a client never says that no call is to come", callsClient, "last := c.leaving && c.unsent == 0\n", "last := c.leaving && c.unsent < 0\n"},
	{"a call that was given up goes on", callsClient, "\tc.cancel(call)\n\treturn nil, r.Context().Err()\n", "\treturn nil, r.Context().Err()\n"},
	{"the window of an answer has no end", callsServer, "w.window -= int64(n)\n", "w.window -= 0 * int64(n)\n"},
	{"the window of an answer never opens again", callsServer, "w.window += int64(min(n, windowBytes))\n", "w.window += 0 * int64(min(n, windowBytes))\n"},
	{"a server that is silent is waited for", callsClient, "if c.heard.Load() == before {", "if c.heard.Load() < before {"},
	{"an answer that broke off is whole", callsClient, "\t\tp.fail(errBroken)\n", "\t\tp.fail(io.EOF)\n"},
	{"a call under way was not sent", callsClient, "err = io.ErrUnexpectedEOF // For whoever waits.", "err = ErrNotSent"},
	{"a frame is overwritten while it is written", callsPipe, "p.waiting, p.spare = p.spare[:0], nil\n", "p.waiting = p.waiting[:0]\n"},
	{"a body that nobody reads goes on", callsBody, "if !ended && b.conn.take(b.call) != nil {", "if ended && b.conn.take(b.call) != nil {"},
	{"the length of a text isn't looked at", callsFrame, "if n > uint64(len(r.rest)) {\n\t\tr.fail()\n\t\treturn \"\"", "if n > uint64(len(r.rest)+1) {\n\t\tr.fail()\n\t\treturn \"\""},
	{"a connection with a rest of a body is used again", forwardBody, "b.w.Header().Set(\"Connection\", \"close\")", "_ = b.w"},
	{"an old server is asked for each call", callsClient, "time.Now().Add(retryAfter)", "time.Now().Add(-retryAfter)"},
}
