package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/services/datadir"
)

func (s *session) nodeRepairCommand() *cobra.Command {
	var dir string
	var discard bool
	c := &cobra.Command{
		Use: "repair", Short: "Find damaged files of a stopped node, and have its state copied from the others", Args: cobra.NoArgs,
		Long: `Reads every byte of the node's log and state and names damaged files. It changes nothing without
--discard-state.

With --discard-state, and if the log is whole, the state is moved away (delete it when the node works again),
and every group is quarantined on this node: it keeps its votes, and takes no part. Then start the node, and copy each
group from its leader, group 1 first: corvo-cloud cell repair --node ... --group ...

A damaged log can't be repaired: the node may have forgotten what it confirmed, so it may not vote again.
Start a node with a new id, an empty folder and --join, and then remove the old id.`,
		Example: `  corvo-cloud node repair --data n1
  corvo-cloud node repair --data n1 --discard-state`,
		RunE: func(*cobra.Command, []string) error { return s.repairNode(dir, discard) },
	}
	c.Flags().StringVar(&dir, "data", "", "`DIR` of the node's data; DATA/node-1 of a stopped \"up\"")
	c.Flags().BoolVar(&discard, "discard-state", false, "move the state away; the other nodes have copies")
	c.Flags().StringVarP(&s.output, "output", "o", outputText, "`FORMAT` of stdout: text or json")
	return c
}

func (s *session) repairNode(data string, discard bool) error {
	if data == "" {
		return usagef("--data is required")
	}
	dir, folder, err := claimNode(data)
	if err != nil {
		return serverFailure("nothing was changed", err)
	}
	var r node.FolderCheck
	if discard {
		r, err = node.DiscardState(folder, s.logger())
	} else {
		r, err = node.CheckFolder(folder)
	}
	if err := errors.Join(err, dir.Release()); err != nil {
		return serverFailure("the node isn't repaired", err)
	}
	if err := s.print(r, func() { s.writeCheck(r) }); err != nil || discard || len(r.Damaged) == 0 {
		return err
	}
	f := &Failure{Exit: ExitStopped, Code: "STORAGE", What: "files are damaged; nothing was changed", Fix: "run it again with --discard-state; the other nodes have copies"}
	if r.LogDamaged {
		f.Why, f.Fix = "the log is damaged, so this node may not vote again", newNode+", then remove the old id with `corvo-cloud cell remove-node`"
	}
	return f
}

// claimNode takes the folder of a node. What "up" keeps for its nodes is part of its own folder,
// which is taken as a whole.
func claimNode(data string) (dir *datadir.Dir, folder string, err error) {
	if folder, err = filepath.Abs(data); err != nil {
		return nil, "", err
	}
	if whole := filepath.Dir(folder); datadir.KindOf(whole) == "up" {
		if _, err := os.Stat(folder); err != nil {
			return nil, "", err
		}
		dir, err = datadir.Claim(whole, "up")
		return dir, folder, err
	}
	dir, err = datadir.Claim(folder, "node")
	return dir, folder, err
}

func (s *session) writeCheck(r node.FolderCheck) {
	for _, d := range r.Damaged {
		fmt.Fprintln(s.proc.Stdout, d)
	}
	fmt.Fprintf(s.proc.Stdout, "%d files read, %d damaged\n", r.Files, len(r.Damaged))
	if len(r.Groups) == 0 {
		return
	}
	if r.KeptAs != "" {
		fmt.Fprintf(s.proc.Stdout, "the state is now %s; delete it when the node works again\n", r.KeptAs)
	}
	fmt.Fprintln(s.proc.Stdout, "start the node, then copy each group, in this order:")
	for _, id := range r.Groups {
		fmt.Fprintf(s.proc.Stdout, "  corvo-cloud cell repair --node %s --group %d\n", r.NodeID, id)
	}
}
