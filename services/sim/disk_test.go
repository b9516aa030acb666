package sim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
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
func (d *disk) mount(dir string) *mount {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := &mount{open: make(chan struct{})}
	close(m.open)
	m.FS = errorfs.Wrap(&folder{FS: d.mem, dir: dir, full: &m.full}, errorfs.InjectorFunc(m.before))
	return m
}

// mount injects faults before operations.
type mount struct {
	vfs.FS
	full atomic.Bool
	dead atomic.Bool

	mu      sync.Mutex    // Guards the rest.
	open    chan struct{} // Operations wait until it is closed.
	release func()        // Closes it.
	latency time.Duration // Each change takes up to this much longer.
	fail    func(errorfs.Op) error
	// unreadable is the share of reads that fail, of which unread have.
	unreadable float64
	unread     *atomic.Int64
	crash      func()                 // Called before the change that countdown reaches.
	count      int                    // Changes until then.
	at         func(step string) bool // Which steps count.
}

// waitingForDisk counts changes that a fault holds up.
var waitingForDisk atomic.Int32

// before is called before every operation.
func (m *mount) before(op errorfs.Op) error {
	if m.dead.Load() {
		return nil
	}
	if reads(op) {
		return m.read(op)
	}
	if !changes(op) {
		return nil
	}
	m.mu.Lock()
	open, latency, fail := m.open, m.latency, m.fail
	crash := m.countDown(stepOf(op))
	m.mu.Unlock()
	if writes(op) {
		waitingForDisk.Add(1)
		<-open
		if latency > 0 {
			time.Sleep(rand.N(latency))
		}
		waitingForDisk.Add(-1)
	}
	if crash != nil {
		crash()
	}
	if fail != nil {
		return fail(op)
	}
	return nil
}

// read fails some reads of the stores. What a file is named, and how large it is, is always known.
func (m *mount) read(op errorfs.Op) error {
	m.mu.Lock()
	share, unread := m.unreadable, m.unread
	m.mu.Unlock()
	if share == 0 || rand.Float64() >= share {
		return nil
	}
	err := inputOutput(op)
	if err != nil {
		unread.Add(1)
	}
	return err
}

func reads(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileRead || op.Kind == errorfs.OpFileReadAt
}

// failReads lets a share of reads fail, and counts them.
func (m *mount) failReads(share float64, unread *atomic.Int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unreadable, m.unread = share, unread
}

// countDown is called with the mutex held.
func (m *mount) countDown(step string) (crash func()) {
	if m.crash == nil || !m.at(step) {
		return nil
	}
	if m.count--; m.count > 0 {
		return nil
	}
	crash, m.crash = m.crash, nil
	return crash
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

// crashAt calls crash before the count-th change of a step.
func (m *mount) crashAt(count int, at func(step string) bool, crash func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count, m.at, m.crash = count, at, crash
}

func (m *mount) slow(latency time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.latency = latency
}

func (m *mount) failWith(f func(errorfs.Op) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = f
}

// stall holds every change until the returned function is called.
func (m *mount) stall() (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	open := make(chan struct{})
	m.open = open
	m.release = sync.OnceFunc(func() { close(open) })
	return m.release
}

// folder shows a memory file system under a name, with a size. The ballast is not
// stored: its blocks mean nothing.
type folder struct {
	vfs.FS
	dir  string
	full *atomic.Bool
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
	if f.full.Load() {
		u = vfs.DiskUsage{AvailBytes: 1 << 20, TotalBytes: diskBytes, UsedBytes: diskBytes - 1<<20}
	}
	return u, nil
}

func (f *folder) Unwrap() vfs.FS { return f.FS }

type blank struct{ vfs.File }

func (b blank) Write(p []byte) (int, error)            { return len(p), nil }
func (b blank) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// inputOutput fails what is done to one of the stores, as a bad block does.
func inputOutput(op errorfs.Op) error {
	if strings.Contains(op.Path, "/raftlog") || strings.Contains(op.Path, "/state") {
		return syscall.EIO
	}
	return nil
}
