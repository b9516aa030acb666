package node

import (
	"context"

	"github.com/cockroachdb/pebble/v2/vfs"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// SetFS replaces the file system under both stores.
func (c *Config) SetFS(fs vfs.FS) { c.fs = fs }

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
