package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/footprint"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/services/datadir"
)

type nodeFlags struct {
	node.Config
	api, raft, peers string
	cell             cellFlags
	shutdownTimeout  time.Duration
	envFile          string
}

func (s *session) nodeCommand() *cobra.Command {
	var f nodeFlags
	c := &cobra.Command{
		Use:   "node",
		Short: "Run one node of a cell",
		Long: `Runs one node. A node with a new folder doesn't belong to a cell and waits: "cell form"
makes the waiting nodes the first ones of a new cell, once. Later nodes need --join with
the API URL of any node of the cell. --peers tells the nodes where they are, if that
differs from what the cell remembers.

It prints a line when it is ready, which needs most nodes of the cell. SIGTERM shuts down
in order: streams are told to reconnect, running requests are answered, leadership is
given away. A second signal stops at once.

Exit codes: 70 if the disk or the data fails, which needs attention; 75 if it couldn't
shut down in time; 78 if the program is older than the cell's version; 5 if the cell refuses the node, because its id was removed or its
folder isn't the one it had.`,
		Example: `  P=n1=127.0.0.1:7001/http://127.0.0.1:7101,n2=127.0.0.1:7002/http://127.0.0.1:7102,n3=127.0.0.1:7003/http://127.0.0.1:7103
  corvo-cloud node --id n1 --data n1 --raft 127.0.0.1:7001 --api 127.0.0.1:7101 --peers $P --cell-secret-file cell.secret
  corvo-cloud cell form --nodes http://127.0.0.1:7101,http://127.0.0.1:7102,http://127.0.0.1:7103 --cell-secret-file cell.secret`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.node(c.Context(), f) },
	}
	c.AddCommand(s.recoverCommand(), s.nodeRepairCommand())
	fs := c.Flags()
	fs.StringVar(&f.ID, "id", "", "`NAME` of this node; can't change once there is data")
	fs.StringVar(&f.Dir, "data", "", "`DIR` of this node's data")
	fs.StringVar(&f.LogDir, "log-dir", "", "`DIR` for the raft log, on a disk of its own; always give the same (default: in --data)")
	fs.StringVar(&f.api, "api", "127.0.0.1:7101", "`ADDRESS` for proxies and other nodes")
	fs.StringVar(&f.raft, "raft", "127.0.0.1:7001", "`ADDRESS` for raft")
	fs.StringVar(&f.peers, "peers", "", "where the nodes of the cell are, including this one: `ID=RAFT/URL,...`")
	fs.StringVar(&f.Join, "join", "", "API `URL` of any node of the cell to join")
	fs.StringVar(&f.Self.APIURL, "advertise-api", "", "`URL` at which others reach --api, if it is another")
	fs.StringVar(&f.Self.RaftAddress, "advertise-raft", "", "`ADDRESS` at which others reach --raft, if it is another")
	fs.IntVar(&f.Shards, "shards", 2, "number of shards of a new cell; can't change once there is data")
	f.cell.add(c)
	fs.DurationVar(&f.SyncDelay, "sync-delay", 0, "development only: add this delay to every sync of the log")
	fs.DurationVar(&f.Heartbeat, "heartbeat", 0, "raft heartbeat and election timeout, the same for all nodes and at least four round trips between them; 0 means the default, 500ms")
	fs.DurationVar(&f.ScrubEvery, "scrub-every", 24*time.Hour, "read all stored bytes and compare checksums this often; negative is never")
	fs.Int64Var(&f.ScrubBytesPerSecond, "scrub-bytes-per-second", 8<<20, "read at most so many `BYTES` a second for that; negative is no limit")
	fs.DurationVar(&f.shutdownTimeout, "shutdown-timeout", 25*time.Second, "longest time from SIGTERM to the end of the process")
	fs.Uint64Var(&f.LogBytesMax, "log-bytes-max", 0, "how many `BYTES` of all raft logs to keep for nodes that are behind or away; one that needs more gets the whole state; 0 means the default, 4 GiB")
	fs.StringVar(&f.envFile, "env-file", "", "write CORVO_NODE_URL to `FILE` when ready")
	return c
}

func (s *session) node(ctx context.Context, f nodeFlags) error {
	ignoreHangup()
	if err := forgetEnvFile(f.envFile); err != nil {
		return err
	}
	defer footprint.Manage(s.proc.Env, footprint.Alone)()
	err := f.check()
	if err != nil {
		return err
	}
	if f.Secrets, f.TLS, err = f.cell.load(); err != nil {
		return err
	}
	f.cell.follow(ctx, f.Secrets, s.logger())
	if f.LogDir != "" {
		if f.LogDir, err = filepath.Abs(f.LogDir); err != nil {
			return usagef("--log-dir: %v", err)
		}
	}
	dir, err := datadir.Claim(f.Dir, "node")
	if err != nil {
		return serverFailure("the node didn't start", err)
	}
	f.Dir, f.Version, f.Logger = dir.Path, version(), s.logger()
	if err := f.open(); err != nil {
		return errors.Join(err, dir.Release())
	}
	err = s.runNode(ctx, f)
	return serverFailure("the node stopped", errors.Join(err, dir.Release()))
}

func (s *session) runNode(ctx context.Context, f nodeFlags) (err error) {
	n, err := node.Start(ctx, f.Config)
	if err != nil {
		return fmt.Errorf("start node %s: %w", f.ID, err)
	}
	defer func() {
		shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.shutdownTimeout)
		defer cancel()
		err = errors.Join(err, n.Shutdown(shutdown, false))
	}()
	if err := untilReady(ctx, n); err != nil || ctx.Err() != nil {
		return err
	}
	return s.serving(ctx, fmt.Sprintf("node %s, api %s, raft %s", n.ID(), n.URL(), f.Raft.Addr()), f.envFile, "CORVO_NODE_URL", n.URL(), n.Ended())
}

// untilReady waits until the node can take work, was told to stop, or cannot go on.
func untilReady(ctx context.Context, n *node.Node) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		_ = n.Ready(ctx) // Nothing but the end of ctx.
	}()
	select {
	case <-ready:
		return nil
	case err := <-n.Ended():
		cancel()
		<-ready
		return err
	}
}

func (f *nodeFlags) check() (err error) {
	if f.ID == "" || f.Dir == "" {
		return usagef("--id and --data are required")
	}
	if f.peers != "" && f.Join != "" {
		return usagef("use --peers or --join, not both: a node that joins learns from the cell where the others are")
	}
	if f.Shards < 1 || f.SyncDelay < 0 || f.Heartbeat < 0 || f.shutdownTimeout <= 0 {
		return usagef("--shards and --shutdown-timeout must be more than zero, and --sync-delay and --heartbeat can't be negative")
	}
	f.Peers, err = parsePeers(f.peers)
	if err == nil && f.peers != "" && !slices.ContainsFunc(f.Peers, func(p node.Peer) bool { return p.ID == f.ID }) {
		err = usagef("--peers doesn't list this node, %s", f.ID)
	}
	return err
}

// open opens both listeners and, for a node that joins, sets their addresses.
func (f *nodeFlags) open() (err error) {
	if f.API, err = net.Listen("tcp", f.api); err != nil {
		return listenFailure("--api", f.api, err)
	}
	if f.Raft, err = net.Listen("tcp", f.raft); err != nil {
		return errors.Join(listenFailure("--raft", f.raft, err), f.API.Close())
	}
	f.Self.RaftAddress = cmp.Or(f.Self.RaftAddress, f.Raft.Addr().String())
	f.Self.APIURL = cmp.Or(f.Self.APIURL, hostURL(f.TLS, f.API.Addr().String()))
	return nil
}

// parsePeers reads ID=RAFT/URL,...
func parsePeers(text string) ([]node.Peer, error) {
	var out []node.Peer
	seen := map[string]bool{}
	for _, item := range list(text) {
		id, rest, ok := strings.Cut(item, "=")
		raft, url, ok2 := strings.Cut(rest, "/")
		if !ok || !ok2 || id == "" || seen[id] || !strings.HasPrefix(url, "http") {
			return nil, usagef("--peers: %q isn't ID=RAFT/URL with a unique id, such as n1=127.0.0.1:7001/http://127.0.0.1:7101", item)
		}
		if _, _, err := net.SplitHostPort(raft); err != nil {
			return nil, usagef("--peers: raft address of %s: %v", id, err)
		}
		seen[id] = true
		out = append(out, node.Peer{ID: id, RaftAddress: raft, APIURL: url})
	}
	return out, nil
}

// version is the module's, where the binary knows one.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return ""
	}
	return info.Main.Version
}
