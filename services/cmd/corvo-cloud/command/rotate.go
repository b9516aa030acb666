package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
)

// secretsPoll is how often --wait asks again; processes read their files every second.
const secretsPoll = 500 * time.Millisecond

func (s *session) secretsCommand(f *adminFlags) *cobra.Command {
	var wait bool
	c := &cobra.Command{
		Use: "secrets", Short: "Show which cell secrets each node and proxy has, by their ids", Args: cobra.NoArgs,
		Long: `Shows which secrets each node and proxy has. Secrets are named by ids derived from them, and
never shown. With --wait, it returns once every node and proxy has the secrets of this
command's --cell-secret-file, in that order; that is when the next step of a rotation is safe.

To replace the secret while the cell runs, change the file of every process in three steps,
and wait after each: add the new secret as a second line; swap the two lines; remove the
old one. Processes read their files every second. A control plane isn't listed: it is one of those
that LAST USED BY names while it still signs with the other secret.`,
		RunE: f.asking(func(ctx context.Context, secrets *cellsecret.Secrets, o celladmin.Options, _ []string) error {
			client, err := celladmin.New(secrets, list(f.nodes), o)
			if err != nil {
				return usagef("%v", err)
			}
			defer client.Close()
			want := secrets.Now().IDs()
			out, err := readSecrets(ctx, client, want)
			for wait && (err != nil || !out.Settled) && pauseFor(ctx, secretsPoll) {
				out, err = readSecrets(ctx, client, want)
			}
			if err != nil {
				return cellFailure(err)
			}
			if err := s.emit(out, out.write); err != nil || !wait || out.Settled {
				return err
			}
			return &Failure{Exit: ExitTimeout, Code: "NOT_EVERYWHERE", What: "not every node and proxy has the secrets of --cell-secret-file yet",
				Fix: "change the files of those that differ, and run this again before the next step"}
		}),
	}
	c.Flags().BoolVar(&wait, "wait", false, "wait until every node and proxy has the secrets of --cell-secret-file, at most --timeout")
	return c
}

func pauseFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

type secretsOutput struct {
	// Secrets are the ids of those in --cell-secret-file; the first one signs.
	Secrets []string `json:"secrets"`
	// Settled: every node and proxy answered and has exactly these.
	Settled   bool            `json:"settled"`
	Processes []secretsHolder `json:"processes"`
}

type secretsHolder struct {
	Kind    string   `json:"kind"` // node or proxy.
	ID      string   `json:"id"`
	Secrets []string `json:"secrets"`
	// LastUsedAt and LastUsedBy say which process last signed with the secret that this
	// one only accepts.
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
	LastUsedBy string     `json:"last_used_by,omitempty"`
	Error      string     `json:"error,omitempty"`
}

func readSecrets(ctx context.Context, c *celladmin.Client, want []string) (secretsOutput, error) {
	out := secretsOutput{Secrets: want, Settled: true, Processes: []secretsHolder{}}
	status, err := c.Status(ctx)
	if err != nil {
		return out, err
	}
	proxies, silent, err := c.Proxies(ctx)
	if err != nil {
		return out, err
	}
	for _, n := range status.GetNodes() {
		h := secretsHolder{Kind: "node", ID: n.GetNode().GetId(), Error: n.GetError()}
		for _, secret := range n.GetSecrets() {
			h.Secrets = append(h.Secrets, secret.GetId())
			if ns := secret.GetLastUsedNs(); ns != 0 {
				at := time.Unix(0, ns).UTC()
				h.LastUsedAt, h.LastUsedBy = &at, secret.GetLastUsedBy()
			}
		}
		out.Processes = append(out.Processes, h)
	}
	for _, p := range proxies {
		out.Processes = append(out.Processes, secretsHolder{Kind: "proxy", ID: p.GetProxyId(), Secrets: p.GetSecretIds()})
	}
	for _, h := range out.Processes {
		out.Settled = out.Settled && slices.Equal(h.Secrets, want)
	}
	out.Settled = out.Settled && len(silent) == 0 && len(out.Processes) > 0
	return out, nil
}

func (o secretsOutput) write(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PROCESS\tSIGNS WITH\tALSO ACCEPTS\tLAST USED BY")
	row := func(name string, ids []string, used string) {
		signs, accepts := "unknown", "-"
		if len(ids) > 0 {
			signs = ids[0]
		}
		if len(ids) > 1 {
			accepts = strings.Join(ids[1:], ",")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", name, signs, accepts, used)
	}
	for _, h := range o.Processes {
		used := "-"
		if h.LastUsedAt != nil {
			used = fmt.Sprintf("%s, %s ago", h.LastUsedBy, time.Since(*h.LastUsedAt).Round(time.Second))
		}
		row(h.Kind+" "+h.ID, h.Secrets, used)
	}
	row("this file", o.Secrets, "-")
	_ = t.Flush() // Into memory.
}
