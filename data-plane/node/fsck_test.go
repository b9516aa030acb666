package node_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// A node with a damaged state gets it from the others, and keeps its log and votes; one with a
// damaged log is told that it may not.
func TestRepairFolder_ADamagedStateIsCopiedFromTheOthers(t *testing.T) {
	t.Parallel()
	r := newCellRig(t, 3)
	r.startAndForm()
	r.Ready()
	r.writeSomewhere(t, 0, 1, 2)
	for range 2 { // A start flushes what it replays into tables.
		r.Stop(2)
		r.MustStart(2)
		r.Ready()
	}
	r.Stop(2)
	dir := r.Places[2].Dir
	if whole, err := node.CheckFolder(dir); err != nil || len(whole.Damaged) != 0 || whole.Files < 4 {
		t.Fatalf("whole: %+v, %v", whole, err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "state", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables: %v, %v", tables, err)
	}
	flip(t, tables[0], 30)
	if bad, err := node.CheckFolder(dir); err != nil || bad.LogDamaged || len(bad.Damaged) != 1 || !strings.Contains(bad.Damaged[0], tables[0]) {
		t.Fatalf("damaged: %+v, %v", bad, err)
	}

	manifests, _ := filepath.Glob(filepath.Join(dir, "raftlog", "MANIFEST-*"))
	manifest := manifests[len(manifests)-1] // The one in use.
	flip(t, manifest, 30)
	if _, err := node.DiscardState(dir, nodetest.Logger()); !errors.Is(err, node.ErrLogDamaged) || !strings.Contains(err.Error(), manifest) {
		t.Fatalf("with a damaged log: %v", err)
	}
	flip(t, manifest, 30)

	done, err := node.DiscardState(dir, nodetest.Logger())
	if err != nil || done.NodeID != "n3" || done.KeptAs == "" || len(done.Groups) < 2 || done.Groups[0] != 1 {
		t.Fatalf("discard: %+v, %v", done, err)
	}
	if again, err := node.DiscardState(dir, nodetest.Logger()); err != nil || !slices.Equal(again.Groups, done.Groups) {
		t.Fatalf("discard again: %+v, %v", again, err)
	}
	r.MustStart(2)
	r.writeSomewhere(t, 0, 1) // The others go on.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, id := range done.Groups {
		eventually.NoError(t, patience, "a group is copied", func() error {
			_, err := r.Admin().Repair(ctx, "n3", id, "", false)
			return err
		})
	}
	r.Ready()
	for _, id := range done.Groups {
		r.waitRole(id, "follower", "n3")
	}
	if causes := r.Nodes[2].Causes(); causes != "" {
		t.Errorf("causes %q", causes)
	}
}

func TestDiscardState_TheOnlyCopyStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fillFolder(t, dir)
	if _, err := node.DiscardState(dir, nodetest.Logger()); !errors.Is(err, node.ErrOnlyCopy) {
		t.Errorf("a node alone: %v", err)
	}
	if got, noticed := openFolder(t, dir); noticed != nil || got == "" {
		t.Errorf("afterwards: %v", noticed)
	}
}
