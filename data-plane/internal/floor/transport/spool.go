package transport

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/raft"
)

// The library reads an incoming snapshot on its main loop, which meanwhile grants
// no votes and answers only harmless heartbeats. If the sender stops half-way, a
// cell of three has lost its leader and cannot elect another until the transfer
// times out. So the body is first written to a file here, beside the loop, and raft
// reads the file.

var errSuperseded = errors.New("a newer snapshot transfer replaced this one")

// receiveSnapshot spools the body of rpc and then hands it to raft. It runs on a
// goroutine of its own, which ends when closing the group closes the connection.
func (g *Group) receiveSnapshot(rpc raft.RPC, seq uint64) {
	size := rpc.Command.(*raft.InstallSnapshotRequest).Size
	file, err := spool(g.mux.opts.SpoolDir, rpc.Reader, size)
	if err != nil {
		// The rest of the body must not be read as the next request.
		_, _ = io.Copy(io.Discard, rpc.Reader)
		rpc.Respond(nil, fmt.Errorf("receive snapshot: %w", err))
		return
	}
	// The answer says that raft is done with the file.
	answered := make(chan raft.RPCResponse, 1)
	spooled := raft.RPC{Command: rpc.Command, Reader: file, RespChan: answered}
	if err := g.enqueueSnapshot(spooled, seq); err != nil {
		rpc.Respond(nil, errors.Join(err, file.Close()))
		return
	}
	select {
	case resp := <-answered:
		rpc.Respond(resp.Response, errors.Join(resp.Error, file.Close()))
	case <-g.done:
		// Raft may still be reading. A file without a name goes away with the
		// process.
	}
}

// enqueueSnapshot gives raft the newest transfer only. A sender that timed out
// and tried again leaves a complete older one behind, and the library installs
// whatever it is given, even if that sets its state back.
func (g *Group) enqueueSnapshot(rpc raft.RPC, seq uint64) error {
	g.delivery.Lock()
	defer g.delivery.Unlock()
	if g.arrivals.Load() != seq {
		return errSuperseded
	}
	g.enqueue(rpc)
	return nil
}

// spool copies size bytes into a file without a name, so that a crash leaves
// nothing behind. It is not synced: the installation does that.
func spool(dir string, body io.Reader, size int64) (_ *os.File, err error) {
	file, err := os.CreateTemp(dir, "incoming-*")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	n, err := io.Copy(file, body)
	if err != nil {
		return nil, err
	}
	if n != size {
		return nil, fmt.Errorf("%d of %d bytes: %w", n, size, io.ErrUnexpectedEOF)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return file, nil
}
