package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/corvo-cloud/corvo/data-plane/node"
)

// notOfCloud refuses a folder of corvo-cloud: a node of a cell that ran alone would have
// no proxy in front that asks for keys.
func notOfCloud(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "VERSION"))
	if err != nil { // There is none, or the start meets the same error.
		return nil
	}
	owner, ok := strings.CutPrefix(string(text), "corvo-cloud ")
	if !ok {
		return nil
	}
	kind, _, _ := strings.Cut(owner, " ")
	return &Failure{Exit: ExitConflict, Code: "DATA_DIR_FOREIGN", What: fmt.Sprintf("the directory %s belongs to `corvo-cloud %s`", dir, kind),
		Fix: "choose another directory with --data-dir"}
}

// runServer runs a node alone until ctx ends, then drains it.
func runServer(ctx context.Context, f serverFlags, log *slog.Logger, events serverEvents) (err error) {
	if err := notOfCloud(f.dataDir); err != nil {
		return err
	}
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

// startFailure names the way out of a start that was refused.
func startFailure(f serverFlags, err error) error {
	if errors.Is(err, node.ErrInUse) {
		return &Failure{Exit: ExitConflict, Code: "DATA_DIR_IN_USE", What: "the data directory " + f.dataDir + " is in use by another process",
			Fix: "stop that process, or choose another directory with --data-dir"}
	}
	if !node.AcceptLossHelps(err) {
		return fmt.Errorf("start: %w", err)
	}
	return &Failure{Exit: ExitStopped, Code: "LOSS", What: "the node didn't start: acknowledged jobs may be missing from " + f.dataDir, Why: err.Error(),
		Fix: "copy the directory, then start once with --accept-loss to continue with what is there"}
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

func listenFailure(address string, err error) error {
	f := &Failure{Exit: ExitFail, Code: "LISTEN", What: "can't listen on " + address, Why: rootCause(err), Fix: "use an address of this machine, such as --bind 127.0.0.1:8080"}
	if errors.Is(err, syscall.EADDRINUSE) {
		f.Exit, f.Code, f.Why = ExitConflict, "PORT_IN_USE", "another process is using this port"
		f.Fix = "stop that process, or choose another port with --bind (port 0 picks a free one)"
	}
	return f
}

func nodeConfig(f serverFlags, log *slog.Logger) (node.Config, error) {
	api, err := net.Listen("tcp", f.bind)
	if err != nil {
		return node.Config{}, listenFailure(f.bind, err)
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
		PayloadBytesMax: f.maxPayloadSize, Retention: f.keep, Version: serverVersion(), Logger: log,
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
