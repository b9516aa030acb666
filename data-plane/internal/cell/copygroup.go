package cell

import (
	"context"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// Pace slows a transfer of state down to what the node may send.
type Pace func(context.Context, io.Reader) io.Reader

// copyChunk is how much of a state is sent in one message.
const copyChunk = 256 << 10

// LeaveOut sets where replicas are kept that must not take part, and how fast state is
// sent. Call it before serving.
func (m *Membership) LeaveOut(q Quarantine, pace Pace) { m.quarantine, m.pace = q, pace }

// copyGroup sends this node's state of a group to a node that repairs its own.
func (m *Membership) copyGroup(ctx context.Context, id uint32, send func(*cellv1.CopyGroupResponse) error) (err error) {
	g := m.group(id)
	if g == nil {
		return fault.New(fault.NotFound, "GROUP_NOT_FOUND", "node %s has no group %d to copy", m.cell.NodeID(), id)
	}
	applied, size, data, err := g.Copy(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	if err := send(&cellv1.CopyGroupResponse{Applied: applied, Size: uint64(size)}); err != nil {
		return err
	}
	from := io.Reader(data)
	if m.pace != nil {
		from = m.pace(ctx, from)
	}
	buf := make([]byte, copyChunk)
	for {
		n, err := io.ReadFull(from, buf)
		if n > 0 {
			if err := send(&cellv1.CopyGroupResponse{Data: buf[:n]}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the state of group %d: %w", id, err)
		}
	}
}

// FetchGroup gets the state of a group from another node. use gets its applied record and
// its bytes, as many as size says.
func FetchGroup(ctx context.Context, from cellv1connect.CellServiceClient, id uint32, use func(applied []byte, size uint64, data io.Reader) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := from.CopyGroup(ctx, connect.NewRequest(&cellv1.CopyGroupRequest{Group: id}))
	if err != nil {
		return Fault(err)
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	if !stream.Receive() {
		return Fault(errors.Join(stream.Err(), io.ErrUnexpectedEOF))
	}
	first := stream.Msg()
	in := &chunks{next: func() ([]byte, error) {
		if stream.Receive() {
			return stream.Msg().GetData(), nil
		}
		if err := stream.Err(); err != nil {
			return nil, Fault(err)
		}
		return nil, io.EOF
	}}
	return use(first.GetApplied(), first.GetSize(), in)
}

// chunks reads messages as bytes.
type chunks struct {
	next func() ([]byte, error)
	rest []byte
}

func (c *chunks) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		next, err := c.next()
		if err != nil {
			return 0, err
		}
		c.rest = next
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
