package statedb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A transfer is the group's whole span as one SST followed by the SHA-256 of the
// group's prefix and the SST: installing another group's would overwrite that
// group's keys. It is built in the staging directory and installed by one manifest edit.

// ErrCorruptTransfer is returned when a received transfer does not match its checksum.
var ErrCorruptTransfer = errors.New("state transfer does not match its checksum")

// stagingSeq keeps staging names of one process apart.
var stagingSeq atomic.Uint64

func stagingDir(fs vfs.FS, dir string) string { return fs.PathJoin(dir, "staging") }

// clearStaging removes what an interrupted transfer left behind.
func (d *DB) clearStaging() error {
	dir := stagingDir(d.fs, d.dir)
	names, err := d.fs.List(dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, name := range names {
		if err := d.fs.Remove(d.fs.PathJoin(dir, name)); err != nil {
			return fmt.Errorf("clear staging: %w", err)
		}
	}
	return nil
}

func (d *DB) stagingPath(kind string, group uint32) string {
	return d.fs.PathJoin(stagingDir(d.fs, d.dir), fmt.Sprintf("%s-%d-%d", kind, group, stagingSeq.Add(1)))
}

// writeTransfer writes the view's span to a file and opens it for reading.
func (g *Group) writeTransfer(ctx context.Context, v *View, path string) (_ vfs.File, size int64, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, removeIfThere(g.db.fs, path))
		}
	}()
	if err := g.buildSST(ctx, v, path); err != nil {
		return nil, 0, err
	}
	if size, err = appendChecksum(ctx, g.db.fs, path, g.checksum()); err != nil {
		return nil, 0, err
	}
	f, err := g.db.fs.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("open export: %w", err)
	}
	return f, size, nil
}

func (g *Group) buildSST(ctx context.Context, v *View, path string) error {
	f, err := g.db.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("create export %s: %w", path, err)
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), sstable.WriterOptions{
		TableFormat: g.db.pebble.TableFormat(),
	})
	from, to := g.span()
	err = v.Scan(from, to, func(key, value []byte) (bool, error) {
		if ctx.Err() != nil {
			return false, ErrExportEnded
		}
		return true, w.Set(key, value)
	})
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write export %s: %w", path, err)
	}
	return nil
}

// checksum begins the hash of a transfer of this group.
func (g *Group) checksum() hash.Hash {
	h := sha256.New()
	if _, err := h.Write(g.prefix[:]); err != nil {
		panic(err) // Documented to never happen.
	}
	return h
}

// appendChecksum adds the hash of the file to its end and returns the new size.
func appendChecksum(ctx context.Context, disk vfs.FS, path string, h hash.Hash) (int64, error) {
	f, err := disk.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, fmt.Errorf("checksum export: %w", err)
	}
	size, err := io.Copy(h, &readerAt{ctx: ctx, f: f})
	if err == nil {
		_, err = f.WriteAt(h.Sum(nil), size)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return 0, fmt.Errorf("checksum export: %w", err)
	}
	return size + sha256.Size, nil
}

// readerAt reads a file from its start, until ctx ends, without moving a shared offset.
type readerAt struct {
	ctx context.Context
	f   io.ReaderAt
	off int64
}

func (r *readerAt) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, ErrExportEnded
	}
	n, err := r.f.ReadAt(p, r.off)
	r.off += int64(n)
	return n, err
}

// Import is a transfer being received.
type Import struct {
	group *Group
	path  string
	file  vfs.File
	hash  *tailHash
}

// Import starts receiving a transfer into a staging file.
func (g *Group) Import() (*Import, error) {
	path := g.db.stagingPath("import", g.id)
	f, err := g.db.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("create import %s: %w", path, err)
	}
	return &Import{group: g, path: path, file: f, hash: newTailHash(g.checksum())}, nil
}

func (m *Import) Write(p []byte) (int, error) {
	// All but the last 32 bytes are the SST.
	body := m.hash.push(p)
	if _, err := m.file.Write(body); err != nil {
		return 0, fmt.Errorf("write import: %w", err)
	}
	return len(p), nil
}

// Finish checks the transfer and makes the staged file durable.
func (m *Import) Finish() error {
	if !m.hash.matches() {
		return errors.Join(ErrCorruptTransfer, m.Abort())
	}
	err := m.file.Sync()
	if cerr := m.file.Close(); err == nil {
		err = cerr
	}
	m.file = nil
	if err != nil {
		return fmt.Errorf("finish import: %w", err)
	}
	return nil
}

// Abort drops the transfer.
func (m *Import) Abort() error {
	var err error
	if m.file != nil {
		err = m.file.Close()
		m.file = nil
	}
	return errors.Join(err, removeIfThere(m.group.db.fs, m.path))
}

// Install replaces the group's whole span by the transfer in one manifest edit:
// after a crash there is the old state or the new one, nothing between. A transfer
// of the old state that is being written is given up: its sender no longer leads.
func (m *Import) Install(ctx context.Context) error {
	exports := m.group.db.exports
	exports.retire(m.group.id)
	defer exports.spanLock(m.group.id).replace()()
	from, to := m.group.span()
	// What others commit meanwhile is seen only after it, in Pebble's order, so their turns may wait.
	err := m.group.db.hand(func() error {
		_, err := m.group.db.pebble.IngestAndExcise(ctx, []string{m.path}, nil, nil, pebble.KeyRange{Start: from, End: to})
		return err
	})
	if err != nil {
		return fmt.Errorf("install state of group %d: %w", m.group.id, err)
	}
	return removeIfThere(m.group.db.fs, m.path)
}

// MarkCovered durably records up to where the group's state is complete without the
// log; value says where. It also makes every earlier commit durable. The record is
// outside the group's span, so that installing a transfer does not remove it.
func (g *Group) MarkCovered(value []byte) error {
	if err := g.db.synced(func(b *pebble.Batch) error { return b.Set(g.noteKey(), value, nil) }); err != nil {
		return fmt.Errorf("note covered index of group %d: %w", g.id, err)
	}
	return nil
}

// Covered returns what MarkCovered recorded last, or ErrNotFound.
func (g *Group) Covered() ([]byte, error) { return get(g.db.pebble, noteGroup, g.noteKey()) }

// noteGroup is the prefix of these records, a number that no raft group has.
var noteGroup = [4]byte{0xff, 0xff, 0xff, 0xff}

func (g *Group) noteKey() []byte { return bytes.Join([][]byte{noteGroup[:], g.prefix[:]}, nil) }

func removeIfThere(disk vfs.FS, path string) error {
	if err := disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// Sync makes every commit of the store so far durable.
func (g *Group) Sync() error { return g.db.Sync() }
