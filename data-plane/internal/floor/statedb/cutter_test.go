package statedb

import (
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// cutter takes a picture of what a power cut would leave before every change of
// the disk, when nothing survives that was not synced.
type cutter struct {
	vfs.FS
	mem   *vfs.MemFS
	mu    sync.Mutex
	on    bool
	taken []vfs.FS
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on {
		c.taken = append(c.taken, c.mem.CrashClone(vfs.CrashCloneCfg{}))
	}
}

func (c *cutter) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	c.cut()
	f, err := c.FS.Create(name, category)
	return c.wrap(f), err
}

func (c *cutter) Link(from, to string) error {
	c.cut()
	return c.FS.Link(from, to)
}

func (c *cutter) Rename(from, to string) error {
	c.cut()
	return c.FS.Rename(from, to)
}

func (c *cutter) Remove(name string) error {
	c.cut()
	return c.FS.Remove(name)
}

func (c *cutter) OpenDir(name string) (vfs.File, error) {
	f, err := c.FS.OpenDir(name)
	return c.wrap(f), err
}

func (c *cutter) wrap(f vfs.File) vfs.File {
	if f == nil {
		return nil
	}
	return &cutFile{f, c}
}

type cutFile struct {
	vfs.File
	c *cutter
}

func (f *cutFile) Write(p []byte) (int, error) {
	f.c.cut()
	return f.File.Write(p)
}

func (f *cutFile) Sync() error {
	f.c.cut()
	return f.File.Sync()
}

func (f *cutFile) SyncData() error {
	f.c.cut()
	return f.File.SyncData()
}
