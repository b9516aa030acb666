package server_test

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/server"
)

// The command waits for another process to carry the rotation to the cell, and ends
// without one: the rotation is kept either way.
func TestRotateTokenKeys_WaitsForAControlPlaneThatCarriesIt(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	database := "sqlite:" + filepath.Join(t.TempDir(), "control.db")
	other, err := store.Open(ctx, database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	m := server.Maintenance{Database: database, MasterKeys: [][]byte{seal.NewKey()}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}

	alone, err := server.RotateTokenKeys(ctx, m, time.Millisecond)
	if err != nil || alone.Carried || len(alone.New) == 0 {
		t.Fatalf("without a control plane: %+v, %v", alone, err)
	}

	running, stop := context.WithCancel(ctx)
	var carrier sync.WaitGroup
	carrier.Go(func() { reconcile.New(other, nil, nil, reconcile.Options{}).Run(running) })
	defer carrier.Wait()
	defer stop()
	beside, err := server.RotateTokenKeys(ctx, m, time.Minute)
	if err != nil || !beside.Carried || len(beside.Old) != len(alone.New) {
		t.Fatalf("beside a control plane: %+v after %+v, %v", beside, alone, err)
	}
}
