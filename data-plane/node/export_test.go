package node

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/peerstate"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// Leads counts the groups that the node leads.
func (n *Node) Leads() (count int) {
	for _, id := range n.groups.IDs() {
		if n.groups.Group(id).Leading() {
			count++
		}
	}
	return count
}

// TakeAll makes the node lead every group.
func (n *Node) TakeAll(ctx context.Context) error {
	for _, id := range n.groups.IDs() {
		if n.groups.Group(id).Leading() {
			continue
		}
		if err := n.members.TransferLeadership(ctx, id, n.cfg.ID); err != nil {
			return err
		}
	}
	return nil
}

// Groups is how many groups the node has.
func (n *Node) Groups() int { return len(n.groups.IDs()) }

// Write writes to the meta group, if this node leads it.
func (n *Node) Write(ctx context.Context, tenant *cellv1.Tenant) error {
	return n.apply(ctx, &cellv1.Change{Change: &cellv1.Change_Tenant{Tenant: tenant}})
}

// Diverge makes the state of a group in the folder of a stopped node differ: its digest
// is another.
func Diverge(dir string, group uint32) error {
	return changeApplied(dir, group, func(record []byte) { record[1+4*8]++ }) // Of the record's numbers, the fifth is the digest.
}

// Skew makes the state of a group in the folder of a stopped node one that no program opens.
func Skew(dir string, group uint32) error {
	return changeApplied(dir, group, func(record []byte) { record[1+6*8-2]++ }) // The sixth is the version of the cell.
}

func changeApplied(dir string, group uint32, change func(record []byte)) error {
	db, err := statedb.Open(filepath.Join(dir, stateDir), statedb.Options{})
	if err != nil {
		return err
	}
	g := db.Group(group)
	prefix := g.Prefix()
	key := append(prefix[:], 0x00)
	record, err := g.Get(key)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	change(record)
	txn := g.NewTxn()
	return errors.Join(txn.SetApplied(key, record), txn.Commit(), db.Sync(), db.Close())
}

// Damage removes a unique key of the queue mail from a running node's state, as a defect would.
func (n *Node) Damage(group uint32, namespace, uniqueKey string) error {
	ns, err := job.ParseNamespace(namespace)
	if err != nil {
		return err
	}
	g := n.state.Group(group)
	txn := g.NewTxn()
	txn.Delete(keys.In(g.Prefix()).Lock(ns, keys.Unique, "mail", uniqueKey))
	if _, err := txn.EndEntry(0, 0); err != nil {
		return err
	}
	return txn.Commit()
}

// Crash counts a crash of a group, as one would before it ends the process.
func (n *Node) Crash(group uint32, index uint64) { n.quarantine.crashed(group, index) }

// FirstKey is the key of a node alone that checks keys.
func (n *Node) FirstKey(ctx context.Context) (string, error) { return n.aloneKey(ctx) }

// Causes is why the node should not lead.
func (n *Node) Causes() string { return n.fitness.String() }

// LastScrub is what status says of the last scrub.
func (n *Node) LastScrub() *cellv1.Scrub { return n.lastScrub() }

// Hear notes in the folder of a stopped node what a peer said.
func Hear(dir, peer string, group uint32, committed uint64) error {
	_, err := withFolder(dir, slog.New(slog.DiscardHandler), func(f *folder) (Recovery, error) {
		known, _ := f.view.NodeByID(peer)
		peerstate.New(f.log, f.node.record.FolderID, f.node, f.node.logger).Remember(peer, transport.Statement{
			Folder: known.GetFolderId(), Groups: []transport.LogState{{Group: group, Committed: committed}},
		})
		return Recovery{}, nil
	})
	return err
}

// Garble makes unreadable, in the folder of a stopped node, what a peer said.
func Garble(dir, peer string) error {
	_, err := withFolder(dir, slog.New(slog.DiscardHandler), func(f *folder) (Recovery, error) {
		return Recovery{}, f.log.SetNodeValue("said/"+peer, []byte("x"))
	})
	return err
}

// Refuse notes in the folder of a stopped node that the cell refused it.
func Refuse(dir, why string) error {
	_, err := withFolder(dir, slog.New(slog.DiscardHandler), func(f *folder) (Recovery, error) {
		return Recovery{}, f.node.setRecord(func(r *record) { r.Refused = why })
	})
	return err
}

// BeginRecovery does the first step of a recovery.
func BeginRecovery(dir, newCellID string) error {
	_, err := withFolder(dir, slog.New(slog.DiscardHandler), func(f *folder) (Recovery, error) {
		return Recovery{}, f.node.setRecord(func(r *record) {
			r.Recovering, r.Replaced, r.CellID, r.Begun = r.CellID, append(r.Replaced, r.CellID), newCellID, false
		})
	})
	return err
}
