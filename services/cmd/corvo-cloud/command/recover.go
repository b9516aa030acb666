package command

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/services/datadir"
)

func (s *session) recoverCommand() *cobra.Command {
	var dir string
	var accept bool
	c := &cobra.Command{
		Use: "recover", Short: "Make a new cell of one node when most nodes are lost for good", Args: cobra.NoArgs,
		Long: `Use this only if most nodes of a cell are lost for good: as long as most of them can come back, the cell
continues without loss. It works on the folder of one stopped node: choose the one that has the most
(run it without --accept-loss on each, which changes nothing).

It makes the node the only voter of a new cell. What only the lost nodes had confirmed is gone. What
this node has and nobody confirmed to a client becomes part of the cell. The ids of the old
nodes never come back: add nodes with new ids and empty folders (--join).

Never start the other nodes with their old folders again. They can't vote with this node,
but together they might still be most of the old cell, and serve its old jobs.`,
		Example: `  corvo-cloud node recover --data n1
  corvo-cloud node recover --data n1 --accept-loss`,
		RunE: func(*cobra.Command, []string) error { return s.recover(dir, accept) },
	}
	c.Flags().StringVar(&dir, "data", "", "`DIR` of the node's data")
	c.Flags().BoolVar(&accept, "accept-loss", false, "do it: what this folder lacks is lost")
	c.Flags().StringVarP(&s.output, "output", "o", outputText, "`FORMAT` of stdout: text or json")
	return c
}

func (s *session) recover(data string, accept bool) error {
	if data == "" {
		return usagef("--data is required")
	}
	dir, err := datadir.Claim(data, "node")
	if err != nil {
		return serverFailure("the node isn't recovered", err)
	}
	run := node.PlanRecovery
	if accept {
		run = node.Recover
	}
	r, err := run(dir.Path, s.logger())
	if err := errors.Join(err, dir.Release()); err != nil {
		return serverFailure("the node isn't recovered", err)
	}
	if err := s.print(r, func() { writeRecovery(s.proc.Stdout, r) }); err != nil || accept {
		return err
	}
	return &Failure{
		Exit: ExitConflict, Code: "NOT_CONFIRMED", What: "nothing was changed", Why: "what this folder lacks would be lost",
		Fix: "if the other nodes are lost for good, run it again with --accept-loss",
	}
}

func writeRecovery(w io.Writer, r node.Recovery) {
	fmt.Fprintf(w, "node %s of cell %s; the other nodes were %s\n\n", r.NodeID, r.OldCellID, strings.Join(r.Others, ", "))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GROUP\tLAST ENTRY\tWRITTEN\tSURELY MISSING\tOTHERS HAD COMMITTED")
	for _, g := range r.Groups {
		written := "unknown"
		if !g.LastAt.IsZero() {
			written = g.LastAt.UTC().Format(time.RFC3339)
		}
		missing, others := uint64(0), []string{}
		for _, o := range g.Others {
			missing = max(missing, o.Missing)
			at := "unknown"
			if o.Known {
				at = fmt.Sprint(o.Committed)
			}
			others = append(others, o.NodeID+" "+at)
		}
		fmt.Fprintf(t, "%d\t%d\t%s\t%d\t%s\n", g.Group, g.Last, written, missing, strings.Join(others, ", "))
	}
	_ = t.Flush() // Into memory.
	for _, g := range r.Groups {
		if g.Quarantined != "" {
			fmt.Fprintf(w, "\ngroup %d is quarantined here (%s): its state may be wrong\n", g.Group, g.Quarantined)
		}
	}
	fmt.Fprintln(w, "\nWhat the others had is what they said while this node ran, a second before the last of it at best.\nWhatever they confirmed after that is missing too, and nobody here can know how much it was.")
	if r.NewCellID != "" {
		fmt.Fprintf(w, "\nDone: cell %s has the one node %s. Start it, and add nodes with new ids. Never start %s with the old folders again.\nThis is also in %s in the folder.\n",
			r.NewCellID, r.NodeID, strings.Join(r.Others, ", "), "recovered.json")
	}
}
