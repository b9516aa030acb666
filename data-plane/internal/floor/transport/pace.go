package transport

import (
	"context"
	"io"

	"golang.org/x/time/rate"
)

const (
	// snapshotRate is how many bytes of state a node sends in a second, to all its peers
	// together, so that the appends of all groups keep the network and the disk (R15a).
	snapshotRate = 64 << 20
	// paceBurst is the most that is sent at once.
	paceBurst = 1 << 20
)

// Pace slows r to what this node may send of its groups' states; all such readers share
// one bound. A read ends with ctx.
func (m *Mux) Pace(ctx context.Context, r io.Reader) io.Reader { return paced{ctx, r, m.pace} }

type paced struct {
	ctx   context.Context // That of the one transfer.
	r     io.Reader
	limit *rate.Limiter
}

func (p paced) Read(b []byte) (int, error) {
	b = b[:min(len(b), paceBurst)]
	n, err := p.r.Read(b)
	if wait := p.limit.WaitN(p.ctx, n); wait != nil {
		return n, wait
	}
	return n, err
}
