package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// The values of --output.
const (
	outputText = "text"
	outputJSON = "json"
)

type adminFlags struct {
	nodes   string
	cell    cellFlags
	timeout time.Duration
}

func (s *session) cellCommand() *cobra.Command {
	var f adminFlags
	c := &cobra.Command{
		Use:   "cell",
		Short: "Form a cell, and show or change its nodes, leaders, tenants and keys",
		Long: `Talks to the nodes of a cell, using the cell's secret. Every command can be run again safely.
(The secret of "up" is the file cell.secret in its --data.)`,
		Example: `  export F="--nodes http://127.0.0.1:7101,http://127.0.0.1:7102 --cell-secret-file cell.secret"
  corvo-cloud cell form $F
  corvo-cloud cell status $F
  corvo-cloud cell tenant create acme $F
  corvo-cloud cell key create --tenant acme --role producer --role worker $F`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(s.formCommand(&f), s.statusCommand(&f), s.proxiesCommand(&f), s.secretsCommand(&f), s.addNodeCommand(&f), s.removeNodeCommand(&f), s.transferCommand(&f), s.raiseVersionCommand(&f), s.repairCommand(&f),
		s.tenantCommand(&f), s.namespaceCommand(&f), s.keyCommand(&f))
	fs := c.PersistentFlags()
	fs.StringVar(&f.nodes, "nodes", "", "API `URL,...` of the cell's nodes; list all that you know")
	fs.StringVarP(&s.output, "output", "o", outputText, "`FORMAT` of stdout: text or json")
	fs.DurationVar(&f.timeout, "timeout", 30*time.Second, "give up after this long")
	f.cell.add(c)
	return c
}

// asking runs what asks the nodes of the cell for something.
func (f *adminFlags) asking(run func(ctx context.Context, secrets *cellsecret.Secrets, o celladmin.Options, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if len(list(f.nodes)) == 0 {
			return usagef("--nodes is required")
		}
		secrets, cellTLS, err := f.cell.load()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), f.timeout)
		defer cancel()
		return run(ctx, secrets, celladmin.Options{Name: "operator", TLS: cellTLS}, args)
	}
}

// with runs one call to the cell.
func (f *adminFlags) with(run func(ctx context.Context, c *celladmin.Client, args []string) error) func(*cobra.Command, []string) error {
	return f.asking(func(ctx context.Context, secrets *cellsecret.Secrets, o celladmin.Options, args []string) error {
		client, err := celladmin.New(secrets, list(f.nodes), o)
		if err != nil {
			return usagef("%v", err)
		}
		defer client.Close()
		return cellFailure(run(ctx, client, args))
	})
}

func (s *session) formCommand(f *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "form", Short: "Form a new cell from waiting nodes, once", Args: cobra.NoArgs,
		Long: `Makes the nodes of --nodes the first voters of a new cell. All of them must be
running with empty folders. Nothing is changed if one doesn't respond or already belongs to a
cell. If the command is interrupted, run it again with the same nodes.

Do this once in the life of a cell. Replace a node that loses its folder later
with one that has a new id (remove-node, then a node with --join); forming never brings it back.`,
		RunE: f.asking(func(ctx context.Context, secrets *cellsecret.Secrets, o celladmin.Options, _ []string) error {
			formed, err := celladmin.Form(ctx, secrets, list(f.nodes), o)
			if err != nil {
				return formFailure(err)
			}
			out := formOutput{CellID: formed.CellID, Already: formed.Already}
			for _, n := range formed.Nodes {
				out.Nodes = append(out.Nodes, n.GetId())
			}
			return s.emit(out, out.write)
		}),
	}
}

type formOutput struct {
	CellID  string   `json:"cell_id"`
	Nodes   []string `json:"nodes"`
	Already bool     `json:"already"` // It was formed before.
}

func (o formOutput) write(w io.Writer) {
	if o.Already {
		fmt.Fprintf(w, "cell %s was already formed from the nodes %s\n", o.CellID, strings.Join(o.Nodes, ", "))
		return
	}
	fmt.Fprintf(w, "formed cell %s from the nodes %s\n", o.CellID, strings.Join(o.Nodes, ", "))
}

// formFailure explains why no cell was formed.
func formFailure(err error) error {
	f, ok := cellFailure(err).(*Failure) // It is one, or it passes unchanged.
	if !ok || !errors.Is(err, celladmin.ErrNotFormed) {
		return cellFailure(err)
	}
	f.What, f.Why = "no cell was formed", strings.TrimPrefix(err.Error(), celladmin.ErrNotFormed.Error()+": ")
	if f.Code == "CELL" {
		f.Exit, f.Code = ExitConflict, "NOT_FORMED"
	}
	return f
}

func (s *session) statusCommand(f *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the nodes and which groups they lead", Args: cobra.NoArgs,
		RunE: f.with(func(ctx context.Context, c *celladmin.Client, _ []string) error {
			status, err := c.Status(ctx)
			if err != nil {
				return err
			}
			return s.emit(status, func(w io.Writer) { writeStatus(w, status) })
		}),
	}
}

func writeStatus(w io.Writer, status *cellv1.ListNodesResponse) {
	nodes := status.GetNodes()
	if len(nodes) == 0 { // They are recorded by the first leader.
		fmt.Fprintln(w, "The cell has not elected a leader yet. The logs of its nodes say why.")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tAPI\tREACHABLE\tVERSIONS\tLEADS\tBEHIND\tSCRUBBED\tHEALTH")
	for _, n := range nodes {
		var leads []string
		var behind uint64
		for _, g := range n.GetGroups() {
			if g.GetRole() == "leader" {
				leads = append(leads, strconv.FormatUint(uint64(g.GetGroup()), 10))
			}
			behind += g.GetCommitIndex() - min(g.GetCommitIndex(), g.GetAppliedIndex())
		}
		reachable := "yes"
		if !n.GetReachable() {
			reachable = "no"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", n.GetNode().GetId(), n.GetNode().GetApiUrl(), reachable, versions(n.GetNode()), strings.Join(leads, ","), behind, scrubbed(n), nodeHealth(n))
	}
	_ = t.Flush() // Into memory.
	fmt.Fprintf(w, "The cell is at version %d.", status.GetVersion())
	if next := newestOfAll(nodes); next > status.GetVersion() {
		fmt.Fprintf(w, " Every node can do version %d: once you won't go back, run `corvo-cloud cell raise-version`.", next)
	}
	fmt.Fprintln(w)
}

// scrubbed is when a node last read all its files; -o json has what that found.
func scrubbed(n *cellv1.NodeStatus) string {
	at := n.GetScrub().GetEndedNs()
	switch {
	case at > 0:
		return time.Unix(0, at).UTC().Format(time.RFC3339)
	case !n.GetReachable():
		return "unknown"
	default:
		return "not yet"
	}
}

// versions are those that a node's program speaks.
func versions(n *cellv1.Node) string {
	switch {
	case n.GetHighestVersion() == 0:
		return "unknown"
	case n.GetLowestVersion() == n.GetHighestVersion():
		return strconv.FormatUint(uint64(n.GetHighestVersion()), 10)
	default:
		return fmt.Sprintf("%d-%d", n.GetLowestVersion(), n.GetHighestVersion())
	}
}

// newestOfAll is the highest version that every node speaks.
func newestOfAll(nodes []*cellv1.NodeStatus) uint32 {
	most := nodes[0].GetNode().GetHighestVersion()
	for _, n := range nodes {
		most = min(most, n.GetNode().GetHighestVersion())
	}
	return most
}

func (s *session) raiseVersionCommand(f *adminFlags) *cobra.Command {
	var to uint32
	c := &cobra.Command{
		Use: "raise-version", Short: "End an upgrade: switch the cell to a newer version", Args: cobra.NoArgs,
		Long: `Switches the cell to the forms of stored data that the new program brings. Until then, all
nodes can go back to the program of before; afterwards none can. Every node has to be running the
new program, and must respond. Run it when the upgrade has proved itself.`,
		RunE: f.with(func(ctx context.Context, c *celladmin.Client, _ []string) error {
			version, raised, err := c.RaiseVersion(ctx, to)
			if err != nil {
				return err
			}
			return s.emit(&cellv1.RaiseVersionResponse{Version: version, Raised: raised}, func(w io.Writer) {
				if !raised {
					fmt.Fprintf(w, "the cell is already at version %d\n", version)
					return
				}
				fmt.Fprintf(w, "the cell is at version %d now\n", version)
			})
		}),
	}
	c.Flags().Uint32Var(&to, "to", 0, "`VERSION` to switch to (default: the newest that every node can do)")
	return c
}

func (s *session) proxiesCommand(f *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "proxies", Short: "Show the proxies and how up to date each one is", Args: cobra.NoArgs,
		RunE: f.with(func(ctx context.Context, c *celladmin.Client, _ []string) error {
			index, err := c.Index(ctx)
			if err != nil {
				return err
			}
			proxies, silent, err := c.Proxies(ctx)
			if err != nil {
				return err
			}
			out := proxiesOutput{Index: index, SilentNodes: append([]string{}, silent...), Proxies: []proxyOutput{}}
			for _, p := range proxies {
				out.Proxies = append(out.Proxies, proxyOutput{
					ID: p.GetProxyId(), Index: p.GetIndex(), Ready: p.GetReady(), Connections: p.GetConnections(), ConnectionsClosed: p.GetConnectionsClosed(),
				})
			}
			return s.emit(out, out.write)
		}),
	}
}

type proxiesOutput struct {
	Index       uint64        `json:"index"` // Of the newest change.
	Proxies     []proxyOutput `json:"proxies"`
	SilentNodes []string      `json:"silent_nodes"`
}

type proxyOutput struct {
	ID    string `json:"id"`
	Index uint64 `json:"index"`
	Ready bool   `json:"ready"`
	// Of clients: open, and closed because there were too many.
	Connections       uint64 `json:"connections"`
	ConnectionsClosed uint64 `json:"connections_closed"`
}

func (o proxiesOutput) write(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PROXY\tREADY\tBEHIND\tCONNECTIONS\tCLOSED")
	for _, p := range o.Proxies {
		ready := "yes"
		if !p.Ready {
			ready = "no"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\n", p.ID, ready, o.Index-min(o.Index, p.Index), p.Connections, p.ConnectionsClosed)
	}
	_ = t.Flush() // Into memory.
	if len(o.SilentNodes) > 0 {
		fmt.Fprintf(w, "these nodes didn't respond, or have just started: %s\n", strings.Join(o.SilentNodes, ", "))
	}
}

// everywhereWait is how long a change is waited for that is made all the same.
const everywhereWait = 3 * time.Second

// everywhere waits until every proxy has what was just written, and says so if one
// has not: the change itself is made and lasts.
func (s *session) everywhere(ctx context.Context, c *celladmin.Client) {
	ctx, cancel := context.WithTimeout(ctx, everywhereWait)
	defer cancel()
	index, err := c.Index(ctx)
	if err == nil {
		_, _, err = c.WaitProxies(ctx, index)
	}
	if err != nil {
		fmt.Fprintf(s.proc.Stderr, "done, but not every proxy has confirmed it: %v\n  check with `corvo-cloud cell proxies`\n", err)
	}
}

func (s *session) addNodeCommand(f *adminFlags) *cobra.Command {
	var n cellv1.Node
	c := &cobra.Command{
		Use: "add-node", Short: "Add a node that runs with --join (it also asks on its own)", Args: cobra.NoArgs,
		RunE: f.with(func(ctx context.Context, c *celladmin.Client, _ []string) error {
			if n.Id == "" || n.RaftAddress == "" || n.ApiUrl == "" {
				return usagef("--id, --raft and --api are required")
			}
			added, err := c.AddNode(ctx, &n)
			if err != nil {
				return err
			}
			return s.emit(&cellv1.AddNodeResponse{Added: added}, func(w io.Writer) {
				fmt.Fprintf(w, "node %s is a member of every group\n", n.GetId())
			})
		}),
	}
	c.Flags().StringVar(&n.Id, "id", "", "`NAME` of the node")
	c.Flags().StringVar(&n.RaftAddress, "raft", "", "its raft `ADDRESS`")
	c.Flags().StringVar(&n.ApiUrl, "api", "", "its API `URL`")
	return c
}

func (s *session) removeNodeCommand(f *adminFlags) *cobra.Command {
	var id string
	c := &cobra.Command{
		Use: "remove-node", Short: "Permanently remove a node from the cell", Args: cobra.NoArgs,
		RunE: f.with(func(ctx context.Context, c *celladmin.Client, _ []string) error {
			if id == "" {
				return usagef("--id is required")
			}
			if err := c.RemoveNode(ctx, id); err != nil {
				return err
			}
			return s.emit(&cellv1.RemoveNodeResponse{}, func(w io.Writer) { fmt.Fprintf(w, "node %s is removed\n", id) })
		}),
	}
	c.Flags().StringVar(&id, "id", "", "`NAME` of the node")
	return c
}

func (s *session) transferCommand(f *adminFlags) *cobra.Command {
	var group uint32
	var to string
	c := &cobra.Command{
		Use: "transfer", Short: "Move the leadership of a group", Args: cobra.NoArgs,
		RunE: f.with(func(ctx context.Context, c *celladmin.Client, _ []string) error {
			if group == 0 {
				return usagef("--group is required")
			}
			if err := c.Transfer(ctx, group, to); err != nil {
				return err
			}
			return s.emit(&cellv1.TransferLeadershipResponse{}, func(w io.Writer) { fmt.Fprintf(w, "group %d has a new leader\n", group) })
		}),
	}
	c.Flags().Uint32Var(&group, "group", 0, "`NUMBER` of the group (1 is the cell's own)")
	c.Flags().StringVar(&to, "to", "", "`NAME` of the node (default: the cell chooses)")
	return c
}

func (s *session) repairCommand(f *adminFlags) *cobra.Command {
	var node, from string
	var group uint32
	var keep bool
	c := &cobra.Command{
		Use: "repair", Short: "End the quarantine of a node's replica of a group", Args: cobra.NoArgs,
		Long: `A replica whose state differs from that of most voters, or that ended its process twice at the
same entry, is quarantined: it takes no part, and its data is kept. This command replaces its
state with a copy from another node, and lets it take part again. Copy the node's folder first if
you want to find out what happened: the old state is gone afterwards.

If replicas differ and no majority agrees (cell status says "disputed"), decide which node is right, and
repair the others --from it. Give --timeout time to copy 64 MB a second.`,
		RunE: f.with(func(ctx context.Context, c *celladmin.Client, _ []string) error {
			if node == "" || group == 0 {
				return usagef("--node and --group are required")
			}
			if keep && from != "" {
				return usagef("use --from or --keep-state, not both")
			}
			res, err := c.Repair(ctx, node, group, from, keep)
			if err != nil {
				return err
			}
			return s.emit(res, func(w io.Writer) {
				if keep {
					fmt.Fprintf(w, "group %d takes part on node %s again, with the state it had\n", group, node)
					return
				}
				fmt.Fprintf(w, "group %d takes part on node %s again: copied %d bytes, up to entry %d\n", group, node, res.GetBytes(), res.GetIndex())
			})
		}),
	}
	c.Flags().StringVar(&node, "node", "", "`NAME` of the node to repair")
	c.Flags().Uint32Var(&group, "group", 0, "`NUMBER` of the group (1 is the cell's own)")
	c.Flags().StringVar(&from, "from", "", "`NAME` of the node to copy from (default: the group's leader)")
	c.Flags().BoolVar(&keep, "keep-state", false, "copy nothing: after a program was replaced that crashed on a good state")
	return c
}

func (s *session) keyCommand(f *adminFlags) *cobra.Command {
	return group("key", "Create and revoke API keys", s.createKeyCommand(f), s.revokeKeyCommand(f))
}

func (s *session) createKeyCommand(f *adminFlags) *cobra.Command {
	in := celladmin.NewKey{}
	var kind string
	c := &cobra.Command{
		Use: "create", Short: "Create an API key; it is printed once and not stored", Args: cobra.NoArgs,
		RunE: f.with(func(ctx context.Context, c *celladmin.Client, _ []string) error {
			if in.Tenant == "" {
				return usagef("--tenant is required")
			}
			if len(in.Roles)+len(in.Permissions) == 0 {
				in.Roles = []string{permission.RoleAdmin}
			}
			in.Kind = apikey.Kind(kind)
			if in.Kind != apikey.DataPlane && in.Kind != apikey.Management {
				return usagef("--kind %q: use dp or mg", kind)
			}
			k, err := c.CreateKey(ctx, in)
			if err != nil {
				return err
			}
			s.everywhere(ctx, c)
			return s.emit(map[string]any{"id": k.ID(), "api_key": k.Reveal(), "roles": in.Roles, "permissions": in.Permissions, "queues": in.Queues, "cidrs": in.CIDRs},
				func(w io.Writer) { fmt.Fprintln(w, k.Reveal()) })
		}),
	}
	fs := c.Flags()
	fs.StringVar(&in.Tenant, "tenant", "", "`NAME` of the tenant")
	fs.StringVar(&in.Name, "name", "", "name that says what uses the key")
	fs.StringArrayVar(&in.Roles, "role", nil, "`ROLE` that the key has: admin, operator, producer, worker or viewer; can be repeated (default admin, unless --permission is set)")
	fs.StringArrayVar(&in.Permissions, "permission", nil, "`NAME` of a permission that the key has, such as job.enqueue; can be repeated")
	fs.StringArrayVar(&in.Queues, "queue", nil, "`PATTERN` of the queues to which the key is limited, such as email.*; can be repeated (default: all queues)")
	fs.StringArrayVar(&in.CIDRs, "cidr", nil, "`ADDRESS` or prefix from which the key can be used, such as 10.1.0.0/16; can be repeated (default: any)")
	fs.StringArrayVar(&in.Namespaces, "namespace", nil, "`NAME` of a namespace the key can use, the first is its default; can be repeated (default: all of the tenant)")
	fs.StringVar(&kind, "kind", string(apikey.DataPlane), "dp (jobs) or mg (management)")
	return c
}

func (s *session) revokeKeyCommand(f *adminFlags) *cobra.Command {
	return &cobra.Command{
		Use: "revoke KEY_ID", Short: "Revoke a key; it stops working within a second", Args: cobra.ExactArgs(1),
		RunE: f.with(func(ctx context.Context, c *celladmin.Client, args []string) error {
			id := args[0]
			if k, err := apikey.Parse(id); err == nil {
				id = k.ID() // A whole key names itself.
			}
			if err := c.RevokeKey(ctx, id); err != nil {
				return err
			}
			s.everywhere(ctx, c)
			return s.emit(map[string]any{"id": id, "revoked": true}, func(w io.Writer) { fmt.Fprintf(w, "%s is revoked\n", id) })
		}),
	}
}

// group is a command that only holds others.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(children...)
	return c
}

// emit prints v, a message of the cell's protocol with its field names as in the proto.
func (s *session) emit(v any, text func(io.Writer)) error {
	if s.output != outputJSON {
		return s.write(text)
	}
	raw, err := json.Marshal(v)
	if m, ok := v.(proto.Message); ok {
		raw, err = protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	}
	var b bytes.Buffer
	if err := errors.Join(err, json.Indent(&b, raw, "", "  ")); err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	return s.write(func(w io.Writer) { fmt.Fprintln(w, b.String()) })
}

func (s *session) write(text func(io.Writer)) error {
	var b bytes.Buffer
	text(&b)
	if _, err := s.proc.Stdout.Write(b.Bytes()); err != nil {
		return &Failure{Exit: ExitFail, Code: "OUTPUT", What: "can't write to stdout", Why: err.Error()}
	}
	return nil
}

// nodeHealth is why a node should not lead.
func nodeHealth(n *cellv1.NodeStatus) string {
	var causes []string
	for _, c := range n.GetCauses() {
		text := c.GetReason()
		if c.GetDetail() != "" {
			text += " (" + c.GetDetail() + ")"
		}
		causes = append(causes, text)
	}
	switch {
	case len(causes) > 0:
	case !n.GetReachable():
		return "unknown"
	default:
		return "ok"
	}
	return strings.Join(causes, ", ")
}
