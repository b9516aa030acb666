package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/corvo-cloud/corvo/data-plane/node"
)

// runServer runs a node alone until ctx ends, then drains it.
func runServer(ctx context.Context, f serverFlags, log *slog.Logger, events serverEvents) (err error) {
	cfg, err := nodeConfig(f, log)
	if err != nil {
		return err
	}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return startFailure(f, err)
	}
	defer func() {
		shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.shutdownTimeout)
		defer cancel()
		// Nobody else could lead: there is no leadership to give away.
		err = errors.Join(err, n.Shutdown(shutdown, true))
	}()
	if err := settle(ctx, n, f, events); err != nil {
		if ctx.Err() != nil {
			return nil // Told to stop before it was ready.
		}
		return err
	}
	<-ctx.Done()
	return nil
}

// startFailure names the way out of a start that was refused over lost entries.
func startFailure(f serverFlags, err error) error {
	if !node.AcceptLossHelps(err) {
		return fmt.Errorf("start: %w", err)
	}
	return &Failure{Exit: ExitFail, Code: "LOSS", What: "the node does not start: acknowledged jobs may be missing from " + f.dataDir, Why: err.Error(),
		Fix: "keep a copy of the directory, then start once with --accept-loss to go on with what is there"}
}

// settle makes the node usable and says so.
func settle(ctx context.Context, n *node.Node, f serverFlags, events serverEvents) error {
	key, err := n.SettleAlone(ctx)
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	if err := n.Ready(ctx); err != nil {
		return fmt.Errorf("become ready: %w", err)
	}
	keyFile := ""
	if key != "" {
		keyFile = filepath.Join(f.dataDir, "api-key")
	}
	return events.ready(n.URL(), key, keyFile)
}

func nodeConfig(f serverFlags, log *slog.Logger) (node.Config, error) {
	api, err := net.Listen("tcp", f.bind)
	if err != nil {
		return node.Config{}, fmt.Errorf("listen on --bind %s: %w", f.bind, err)
	}
	// A node alone talks raft to nobody; its transport still wants an address.
	raft, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return node.Config{}, errors.Join(fmt.Errorf("listen for raft: %w", err), api.Close())
	}
	access := node.Open
	if f.requireKey {
		access = node.Keys
	}
	return node.Config{
		ID: f.nodeID, Dir: f.dataDir, API: api, Raft: raft,
		Peers:  []node.Peer{{ID: f.nodeID, RaftAddress: raft.Addr().String(), APIURL: localURL(api.Addr())}},
		Shards: f.raftShards, Access: access, Relaxed: f.relaxed, AcceptLoss: f.acceptLoss, SyncDelay: f.syncDelay,
		PayloadBytesMax: f.maxPayloadSize, Version: serverVersion(), Logger: log,
	}, nil
}

// serverVersion is empty for a build without one; the node then says its own.
func serverVersion() string {
	if v := Version(); v != "devel" {
		return v
	}
	return ""
}

// localURL is where this machine reaches a listener, also one on all addresses.
func localURL(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return "http://" + address.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
