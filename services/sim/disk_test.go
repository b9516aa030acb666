package sim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

const diskBytes = 1 << 40

// disk is the disk of a host. It outlives processes; each opens it under a folder of its
// own name, so that what a dead one still does reaches nothing.
type disk struct {
	mu  sync.Mutex // Guards mem.
	mem *vfs.MemFS
}

// dataDir is the node's folder on its disk. The operator made it long ago.
const dataDir = "/data"

func newDisk() *disk {
	mem := vfs.NewCrashableMem()
	err := mem.MkdirAll(dataDir, 0o700)
	root, openErr := mem.OpenDir("/")
	if err := errors.Join(err, openErr); err != nil {
		panic(err)
	}
	if err := errors.Join(root.Sync(), root.Close()); err != nil {
		panic(err)
	}
	return &disk{mem: mem}
}

// crash leaves what a crash at this instant leaves: of what was not synced, each block
// with this probability.
func (d *disk) crash(percent int, rng *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mem = d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
}

// forget is a crash of a disk that only claimed to sync: everything since then is gone.
func (d *disk) forget(then *vfs.MemFS) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mem = then
}

// rotSpares is the end of a write-ahead log that is left as it is: what is damaged there looks like
// what a loss of power leaves, which no program can tell apart.
const rotSpares = 32 << 10

// rot changes one bit, or all of a block, of one file of the stores, and says what.
func (d *disk) rot(rng *rand.Rand) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	type choice struct {
		path string
		size int64
	}
	var files []choice
	for _, store := range []string{"raftlog", "state"} {
		names, err := d.mem.List(filepath.Join(dataDir, store))
		if err != nil {
			continue // It has not been made yet.
		}
		for _, name := range names {
			c := choice{path: filepath.Join(dataDir, store, name)}
			if info, err := d.mem.Stat(c.path); err == nil {
				c.size = info.Size()
			}
			switch ext := filepath.Ext(name); {
			case ext == ".log":
				c.size -= rotSpares
			case ext != ".sst" && !strings.HasPrefix(name, "MANIFEST"):
				continue
			}
			if c.size > 0 {
				files = append(files, c)
			}
		}
	}
	if len(files) == 0 {
		return "which has no files"
	}
	c := files[rng.IntN(len(files))]
	at, size := rng.Int64N(c.size), int64(1)
	if rng.IntN(2) == 0 {
		size = min(4<<10, c.size-at)
	}
	return fmt.Sprintf("%d bytes at %d of %s", size, at, c.path) + problem(d.change(c.path, at, size, byte(1)<<rng.IntN(8)))
}

func problem(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

func (d *disk) change(path string, at, size int64, mask byte) error {
	f, err := d.mem.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	b := make([]byte, size)
	_, err = f.ReadAt(b, at)
	for i := range b {
		b[i] ^= mask
	}
	_, writeErr := f.WriteAt(b, at)
	return errors.Join(err, writeErr, f.Sync(), f.Close())
}

// copy is what a loss of power would leave now.
func (d *disk) copy() *vfs.MemFS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mem.CrashClone(vfs.CrashCloneCfg{})
}

// mount is the disk as one process sees it, with faults.
func (d *disk) mount(p *process) *mount {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := &mount{process: p}
	m.FS = errorfs.Wrap(&folder{FS: d.mem, dir: p.dir, full: m.full}, errorfs.InjectorFunc(m.before))
	return m
}

// mount injects faults before operations.
type mount struct {
	vfs.FS
	process *process
	dead    atomic.Bool

	mu     sync.Mutex // Guards the rest.
	faults []*diskFault
}

// diskFault is what one fault does to a disk. Several may last at the same time, so each is added and
// removed by itself.
type diskFault struct {
	// rng is of this fault alone. After it was added, the mutex of its mount guards it.
	rng        *rand.Rand
	full       bool
	latency    time.Duration // Each write and sync takes up to this much longer.
	fail       func(errorfs.Op) error
	unreadable float64 // The share of reads that fail,
	unread     *atomic.Int64
	held       chan struct{} // Writes and syncs wait until it is closed; nil: they don't.
	release    func()        // Closes it.
	// crash is called once, before the countdown-th step that counts.
	crash     func(p *process, step string)
	counts    func(step string) bool
	countdown int
}

// stall is a fault that lets no write or sync end.
func stall() *diskFault {
	f := &diskFault{held: make(chan struct{})}
	f.release = sync.OnceFunc(func() { close(f.held) })
	return f
}

func (m *mount) add(f *diskFault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, f)
}

// remove ends a fault, if it is there.
func (m *mount) remove(f *diskFault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = slices.DeleteFunc(m.faults, func(o *diskFault) bool { return o == f })
	f.end()
}

func (f *diskFault) end() {
	if f.release != nil {
		f.release()
	}
}

// die lets everything pass that the dead process still does.
func (m *mount) die() {
	m.dead.Store(true)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.faults {
		f.end()
	}
	m.faults = nil
}

func (m *mount) full() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.faults, func(f *diskFault) bool { return f.full })
}

// waitingForDisk counts changes that a fault holds up.
var waitingForDisk atomic.Int32

// before is called before every operation.
func (m *mount) before(op errorfs.Op) error {
	switch {
	case m.dead.Load():
		return nil
	case reads(op):
		return m.read(op)
	case changes(op):
		return m.change(op)
	}
	return nil
}

// change does to a change what the faults want.
func (m *mount) change(op errorfs.Op) error {
	step := stepOf(op)
	var held []chan struct{}
	var latency time.Duration
	var crashes []*diskFault
	m.mu.Lock()
	faults := slices.Clone(m.faults)
	for _, f := range faults {
		if f.held != nil {
			held = append(held, f.held)
		}
		if f.latency > 0 && writes(op) {
			latency += time.Duration(f.rng.Int64N(int64(f.latency)))
		}
		if f.reaches(step) {
			crashes = append(crashes, f)
		}
	}
	m.mu.Unlock()
	if writes(op) && (len(held) > 0 || latency > 0) {
		m.wait(step, held, latency)
	}
	for _, f := range crashes {
		f.crash(m.process, step)
	}
	for _, f := range faults {
		if f.fail == nil || m.dead.Load() {
			continue
		}
		if err := f.fail(op); err != nil {
			// What is written ahead of a log (WriteAt) may be left out.
			if syncs(op) || op.Kind == errorfs.OpFileWrite && strings.HasSuffix(step, " write log") {
				m.process.hasFailed(step)
			}
			return err
		}
	}
	return nil
}

func (m *mount) wait(step string, held []chan struct{}, latency time.Duration) {
	served := m.process.node.Load() != nil
	waitingForDisk.Add(1)
	began := time.Now()
	for _, open := range held {
		<-open
	}
	if took := time.Since(began); served && !m.dead.Load() {
		m.process.hasWaited(step, took)
	}
	time.Sleep(latency)
	waitingForDisk.Add(-1)
}

// reaches is called with the mount's mutex held.
func (f *diskFault) reaches(step string) bool {
	if f.crash == nil || f.countdown == 0 || !f.counts(step) {
		return false
	}
	f.countdown--
	return f.countdown == 0
}

// read fails some reads of the stores. What a file is named, and how large it is, is always known.
func (m *mount) read(op errorfs.Op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.faults {
		if f.unreadable == 0 || f.rng.Float64() >= f.unreadable {
			continue
		}
		if err := inputOutput(op); err != nil {
			f.unread.Add(1)
			return err
		}
	}
	return nil
}

func reads(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileRead || op.Kind == errorfs.OpFileReadAt
}

// changes reports whether an operation makes something durable or visible: the steps
// between which a node may die (F24).
func changes(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpCreate, errorfs.OpLink, errorfs.OpRemove, errorfs.OpRename, errorfs.OpReuseForWrite,
		errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		return true
	default:
		return false
	}
}

// writes reports whether an operation may be held up. Those on names are not: Pebble makes
// its next log while it holds the mutex of all commits.
func writes(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		return true
	default:
		return false
	}
}

func syncs(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
}

// stepOf names a change: what is done to which kind of file.
func stepOf(op errorfs.Op) string {
	verb := map[errorfs.OpKind]string{
		errorfs.OpCreate: "create", errorfs.OpLink: "link", errorfs.OpRemove: "remove", errorfs.OpRename: "rename",
		errorfs.OpReuseForWrite: "reuse", errorfs.OpFileWrite: "write", errorfs.OpFileWriteAt: "write",
		errorfs.OpFileSync: "sync", errorfs.OpFileSyncData: "sync", errorfs.OpFileSyncTo: "sync",
	}[op.Kind]
	store := "node"
	for _, s := range []string{"raftlog", "state"} {
		if strings.Contains(op.Path, "/"+s) {
			store = s
		}
	}
	kind := strings.TrimPrefix(filepath.Ext(op.Path), ".")
	if name := filepath.Base(op.Path); kind == "" {
		kind, _, _ = strings.Cut(name, "-")
	}
	if len(kind) > 0 && kind[0] >= '0' && kind[0] <= '9' {
		kind = "dir"
	}
	return store + " " + verb + " " + kind
}

// folder shows a memory file system under a name, with a size. The ballast is not
// stored: its blocks mean nothing.
type folder struct {
	vfs.FS
	dir  string
	full func() bool
}

func (f *folder) in(path string) string {
	if rest, ok := strings.CutPrefix(path, f.dir); ok {
		return dataDir + rest
	}
	return path
}

func (f *folder) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(f.in(name), c)
	if err == nil && filepath.Base(name) == "ballast" {
		return blank{file}, nil
	}
	return file, err
}

func (f *folder) Link(old, name string) error { return f.FS.Link(f.in(old), f.in(name)) }

func (f *folder) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return f.FS.Open(f.in(name), o...)
}

func (f *folder) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.FS.OpenReadWrite(f.in(name), c, o...)
}
func (f *folder) OpenDir(name string) (vfs.File, error) { return f.FS.OpenDir(f.in(name)) }
func (f *folder) Remove(name string) error              { return f.FS.Remove(f.in(name)) }
func (f *folder) RemoveAll(name string) error           { return f.FS.RemoveAll(f.in(name)) }
func (f *folder) Rename(old, name string) error         { return f.FS.Rename(f.in(old), f.in(name)) }

func (f *folder) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.FS.ReuseForWrite(f.in(old), f.in(name), c)
}
func (f *folder) MkdirAll(dir string, p os.FileMode) error { return f.FS.MkdirAll(f.in(dir), p) }
func (f *folder) Lock(name string) (io.Closer, error)      { return f.FS.Lock(f.in(name)) }
func (f *folder) List(dir string) ([]string, error)        { return f.FS.List(f.in(dir)) }
func (f *folder) Stat(name string) (vfs.FileInfo, error)   { return f.FS.Stat(f.in(name)) }

func (f *folder) GetDiskUsage(string) (vfs.DiskUsage, error) {
	u := vfs.DiskUsage{AvailBytes: diskBytes / 2, TotalBytes: diskBytes, UsedBytes: diskBytes / 2}
	if f.full() {
		u = vfs.DiskUsage{AvailBytes: 1 << 20, TotalBytes: diskBytes, UsedBytes: diskBytes - 1<<20}
	}
	return u, nil
}

func (f *folder) Unwrap() vfs.FS { return f.FS }

type blank struct{ vfs.File }

func (b blank) Write(p []byte) (int, error)            { return len(p), nil }
func (b blank) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// noSpace fails what takes space in one of the stores.
func noSpace(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileWriteAt:
		if ofStores(op) {
			return syscall.ENOSPC
		}
	}
	return nil
}

// inputOutput fails what is done to one of the stores, as a bad block does.
func inputOutput(op errorfs.Op) error {
	if ofStores(op) {
		return syscall.EIO
	}
	return nil
}

func ofStores(op errorfs.Op) bool {
	return strings.Contains(op.Path, "/raftlog") || strings.Contains(op.Path, "/state")
}
