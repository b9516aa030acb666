package cell

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1/cellv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

const (
	// headerCarried marks a call that a node has forwarded to the leader. It goes
	// no further, so that two nodes that each take the other for the leader do not
	// send it back and forth.
	headerCarried = "Corvo-Carried"
	// leaderWait is how long a call waits for an election to end. An election takes
	// about one second; proxies wait longer than this.
	leaderWait = 5 * time.Second
	// requestBytesMax leaves room around the largest entry.
	requestBytesMax = 4 << 20
	// compressBytes is from how many on an answer is compressed: for the small ones that nodes
	// ask each other for every second, it would cost more than it saves, and a megabyte a
	// connection.
	compressBytes = 64 << 10
)

// handler serves corvo.cell.v1 on one node.
type handler struct {
	cell    *Cell
	members *Membership
	peers   *Peers
	logger  *slog.Logger
}

var _ cellv1connect.CellServiceHandler = (*handler)(nil)

// NewHandler serves corvo.cell.v1 under the returned path. Every call must be
// signed by a part of the cell.
func NewHandler(c *Cell, members *Membership, peers *Peers, signer *identity.Signer) (path string, h http.Handler) {
	path, inner := cellv1connect.NewCellServiceHandler(
		&handler{cell: c, members: members, peers: peers, logger: c.logger},
		connect.WithReadMaxBytes(requestBytesMax), connect.WithCompressMinBytes(compressBytes),
	)
	return path, SignedOnly(signer, c.sameCell(inner))
}

// sameCell refuses nodes of another cell. Proxies, operators and control planes know
// no cell id and send none.
func (c *Cell) sameCell(next http.Handler) http.Handler {
	refuse := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(headerCell, c.id)
		if theirs := r.Header.Get(headerCell); theirs != "" && theirs != c.id {
			if err := refuse.Write(w, r, ToConnect(wrongCell(c.id, theirs))); err != nil {
				panic(http.ErrAbortHandler) // The caller is gone.
			}
			return
		}
		next.ServeHTTP(w, r)
	})
}

const wordClockSkew = "CLOCK_SKEW"

// SignedOnly refuses callers that are not part of the cell, before the body is
// read, with the same answer whatever was wrong.
func SignedOnly(signer *identity.Signer, next http.Handler) http.Handler {
	refuse := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := signer.VerifyRequest(r, time.Now())
		if err == nil && id.IsCell() {
			next.ServeHTTP(w, r)
			return
		}
		denied, status := fault.New(fault.Unauthorized, "UNAUTHORIZED", "the request isn't signed with this cell's secret"), http.StatusUnauthorized
		if errors.Is(err, identity.ErrExpired) { // The signature is good.
			denied, status = fault.New(fault.Unavailable, wordClockSkew, "the caller's clock and this node's clock differ by more than %s; correct the one that is wrong", identity.SkewMax), http.StatusServiceUnavailable
		}
		if !refuse.IsSupported(r) {
			http.Error(w, denied.Message, status)
			return
		}
		if err := refuse.Write(w, r, ToConnect(denied)); err != nil {
			panic(http.ErrAbortHandler) // The caller is gone.
		}
	})
}

// onLeader runs a call on the meta group's leader, here or there. Only outcomes
// that did nothing are tried again.
func onLeader[Req, Res any](
	ctx context.Context, h *handler, req *connect.Request[Req],
	here func(context.Context, *Req) (*Res, error),
	there func(cellv1connect.CellServiceClient, context.Context, *connect.Request[Req]) (*connect.Response[Res], error),
) (*connect.Response[Res], error) {
	goesNoFurther := req.Header().Get(headerCarried) != ""
	patience, cancel := context.WithTimeout(ctx, leaderWait)
	defer cancel()
	for {
		moved := h.cell.Group().LeadershipChanged()
		res, err := tryLeader(ctx, h, req, goesNoFurther, here, there)
		if err == nil {
			return res, nil
		}
		if f := fault.As(err); f == nil || f.Code != fault.NotLeader || goesNoFurther || h.cell.Group().Silent() {
			return nil, h.refuse(req.Spec().Procedure, err)
		}
		select {
		case <-moved:
		case <-time.After(retryEvery):
		case <-patience.Done():
			return nil, ToConnect(err)
		}
	}
}

func tryLeader[Req, Res any](
	ctx context.Context, h *handler, req *connect.Request[Req], goesNoFurther bool,
	here func(context.Context, *Req) (*Res, error),
	there func(cellv1connect.CellServiceClient, context.Context, *connect.Request[Req]) (*connect.Response[Res], error),
) (*connect.Response[Res], error) {
	if h.cell.Group().Leading() {
		res, err := here(ctx, req.Msg)
		if err != nil {
			return nil, err
		}
		return connect.NewResponse(res), nil
	}
	leader := h.cell.Group().Leader()
	if goesNoFurther || leader == "" || leader == h.cell.NodeID() {
		return nil, h.cell.notLeader()
	}
	client, ok := h.peers.node(leader)
	if !ok {
		return nil, h.cell.notLeader()
	}
	res, err := there(client, ctx, carried(req.Msg))
	if err != nil {
		return nil, unreached(Fault(err))
	}
	return connect.NewResponse(res.Msg), nil
}

// unreached treats a leader that cannot be called as no leader.
func unreached(f *fault.Error) error {
	if f.Code == fault.Unavailable && f.Reason == reasonUnreachable {
		return fault.New(fault.NotLeader, "LEADER_UNAVAILABLE", "%s", f.Message)
	}
	return f
}

// refuse logs what the caller is not shown.
func (h *handler) refuse(procedure string, err error) error {
	if fault.As(err) == nil {
		h.logger.Error("cell administration", "call", procedure, "err", err)
	}
	return ToConnect(err)
}

func (h *handler) Apply(ctx context.Context, req *connect.Request[cellv1.ApplyRequest]) (*connect.Response[cellv1.ApplyResponse], error) {
	return onLeader(ctx, h, req, h.cell.Apply, cellv1connect.CellServiceClient.Apply)
}

func (h *handler) GetState(context.Context, *connect.Request[cellv1.GetStateRequest]) (*connect.Response[cellv1.GetStateResponse], error) {
	return connect.NewResponse(&cellv1.GetStateResponse{State: h.cell.State()}), nil
}

func (h *handler) Watch(ctx context.Context, req *connect.Request[cellv1.WatchRequest], stream *connect.ServerStream[cellv1.WatchResponse]) error {
	if id := req.Msg.GetProxyId(); id != "" {
		leave, err := h.cell.watchers.enter(id, time.Now)
		if err != nil {
			return ToConnect(err)
		}
		defer leave()
	}
	after, err := h.cell.resumeAt(req.Msg)
	if err != nil {
		return ToConnect(err)
	}
	return ToConnect(h.cell.Watch(ctx, after, stream.Send))
}

func (h *handler) GetIndex(ctx context.Context, req *connect.Request[cellv1.GetIndexRequest]) (*connect.Response[cellv1.GetIndexResponse], error) {
	return onLeader(ctx, h, req, h.cell.newestIndex, cellv1connect.CellServiceClient.GetIndex)
}

func (h *handler) ConfirmWatch(_ context.Context, req *connect.Request[cellv1.ConfirmWatchRequest]) (*connect.Response[cellv1.ConfirmWatchResponse], error) {
	h.cell.watchers.confirm(req.Msg, time.Now())
	return connect.NewResponse(&cellv1.ConfirmWatchResponse{}), nil
}

func (h *handler) ReportSightings(_ context.Context, req *connect.Request[cellv1.ReportSightingsRequest]) (*connect.Response[cellv1.ReportSightingsResponse], error) {
	h.cell.sightings.take(h.cell.View(), req.Msg.GetUses())
	h.cell.sightings.takeRefusals(h.cell.View(), req.Msg.GetRefusals())
	return connect.NewResponse(&cellv1.ReportSightingsResponse{}), nil
}

func (h *handler) ReportReadings(_ context.Context, req *connect.Request[cellv1.ReportReadingsRequest]) (*connect.Response[cellv1.ReportReadingsResponse], error) {
	if err := h.cell.readings.take(h.cell.View(), req.Msg.GetReadings(), time.Now()); err != nil {
		return nil, ToConnect(err)
	}
	return connect.NewResponse(&cellv1.ReportReadingsResponse{}), nil
}

func (h *handler) ListSightings(ctx context.Context, req *connect.Request[cellv1.ListSightingsRequest]) (*connect.Response[cellv1.ListSightingsResponse], error) {
	out := &cellv1.ListSightingsResponse{}
	if req.Msg.GetLocal() {
		out.Nodes = []*cellv1.NodeSightings{h.members.ownSightings(req.Msg.GetCursors())}
	} else {
		out.Nodes = h.members.Sightings(ctx, req.Msg.GetCursors())
	}
	return connect.NewResponse(out), nil
}

func (h *handler) ListWatchers(ctx context.Context, req *connect.Request[cellv1.ListWatchersRequest]) (*connect.Response[cellv1.ListWatchersResponse], error) {
	if req.Msg.GetLocal() {
		return connect.NewResponse(h.cell.followers(time.Now())), nil
	}
	return connect.NewResponse(h.members.Watchers(ctx)), nil
}

func (h *handler) ListNodes(ctx context.Context, _ *connect.Request[cellv1.ListNodesRequest]) (*connect.Response[cellv1.ListNodesResponse], error) {
	return connect.NewResponse(&cellv1.ListNodesResponse{Nodes: h.members.Nodes(ctx), Version: h.cell.View().Version()}), nil
}

func (h *handler) AdmitNode(ctx context.Context, req *connect.Request[cellv1.AdmitNodeRequest]) (*connect.Response[cellv1.AdmitNodeResponse], error) {
	return onLeader(ctx, h, req, func(ctx context.Context, in *cellv1.AdmitNodeRequest) (*cellv1.AdmitNodeResponse, error) {
		if err := h.members.AdmitNode(ctx, in.GetNode()); err != nil {
			return nil, err
		}
		return &cellv1.AdmitNodeResponse{CellId: h.cell.id, ReplacedCells: h.cell.replaced, Nodes: h.cell.View().Nodes()}, nil
	}, cellv1connect.CellServiceClient.AdmitNode)
}

func (h *handler) AddNode(ctx context.Context, req *connect.Request[cellv1.AddNodeRequest]) (*connect.Response[cellv1.AddNodeResponse], error) {
	return onLeader(ctx, h, req, func(ctx context.Context, in *cellv1.AddNodeRequest) (*cellv1.AddNodeResponse, error) {
		added, err := h.members.AddNode(ctx, in.GetNode())
		return &cellv1.AddNodeResponse{Added: added}, err
	}, cellv1connect.CellServiceClient.AddNode)
}

func (h *handler) RemoveNode(ctx context.Context, req *connect.Request[cellv1.RemoveNodeRequest]) (*connect.Response[cellv1.RemoveNodeResponse], error) {
	return onLeader(ctx, h, req, func(ctx context.Context, in *cellv1.RemoveNodeRequest) (*cellv1.RemoveNodeResponse, error) {
		return &cellv1.RemoveNodeResponse{}, h.members.RemoveNode(ctx, in.GetNodeId())
	}, cellv1connect.CellServiceClient.RemoveNode)
}

func (h *handler) RaiseVersion(ctx context.Context, req *connect.Request[cellv1.RaiseVersionRequest]) (*connect.Response[cellv1.RaiseVersionResponse], error) {
	return onLeader(ctx, h, req, func(ctx context.Context, in *cellv1.RaiseVersionRequest) (*cellv1.RaiseVersionResponse, error) {
		return h.members.RaiseVersion(ctx, in.GetVersion())
	}, cellv1connect.CellServiceClient.RaiseVersion)
}

// TransferLeadership works from any node: it goes to the leader of that group.
func (h *handler) TransferLeadership(ctx context.Context, req *connect.Request[cellv1.TransferLeadershipRequest]) (*connect.Response[cellv1.TransferLeadershipResponse], error) {
	if err := h.members.TransferLeadership(ctx, req.Msg.GetGroup(), req.Msg.GetToNodeId()); err != nil {
		return nil, h.refuse(req.Spec().Procedure, err)
	}
	return connect.NewResponse(&cellv1.TransferLeadershipResponse{}), nil
}

func (h *handler) GetNodeStatus(ctx context.Context, _ *connect.Request[cellv1.GetNodeStatusRequest]) (*connect.Response[cellv1.GetNodeStatusResponse], error) {
	res := &cellv1.GetNodeStatusResponse{Status: h.members.Self()}
	if h.members.ready != nil {
		res.Ready = new(h.members.ready(ctx))
	}
	return connect.NewResponse(res), nil
}

func (h *handler) ChangeGroup(ctx context.Context, req *connect.Request[cellv1.ChangeGroupRequest]) (*connect.Response[cellv1.ChangeGroupResponse], error) {
	if err := h.members.changeHere(ctx, req.Msg); err != nil {
		return nil, h.refuse(req.Spec().Procedure, err)
	}
	return connect.NewResponse(&cellv1.ChangeGroupResponse{}), nil
}

// ListAudit works from any node: it goes to the leader of that shard.
func (h *handler) ListAudit(ctx context.Context, req *connect.Request[cellv1.ListAuditRequest]) (*connect.Response[cellv1.ListAuditResponse], error) {
	res, err := h.members.Audit(ctx, req.Msg, req.Header().Get(headerCarried) != "")
	if err != nil {
		return nil, h.refuse(req.Spec().Procedure, err)
	}
	return connect.NewResponse(res), nil
}

// ListReadings works from any node: that of a shard goes to its leader, that of the proxies
// to all nodes.
func (h *handler) ListReadings(ctx context.Context, req *connect.Request[cellv1.ListReadingsRequest]) (*connect.Response[cellv1.ListReadingsResponse], error) {
	res, err := h.members.Readings(ctx, req.Msg, req.Header().Get(headerCarried) != "")
	if err != nil {
		return nil, h.refuse(req.Spec().Procedure, err)
	}
	return connect.NewResponse(res), nil
}

func (h *handler) CompareDigests(_ context.Context, req *connect.Request[cellv1.CompareDigestsRequest]) (*connect.Response[cellv1.CompareDigestsResponse], error) {
	return connect.NewResponse(&cellv1.CompareDigestsResponse{Digests: h.members.digestsFor(req.Msg.GetGroup(), req.Msg.GetDigests())}), nil
}

func (h *handler) CopyGroup(ctx context.Context, req *connect.Request[cellv1.CopyGroupRequest], stream *connect.ServerStream[cellv1.CopyGroupResponse]) error {
	if err := h.members.copyGroup(ctx, req.Msg.GetGroup(), stream.Send); err != nil {
		return h.refuse(req.Spec().Procedure, err)
	}
	return nil
}
