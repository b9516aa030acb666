package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
)

// Peer is a node of the cell as configured, before the cell's own records are
// known.
type Peer struct {
	// ID is the raft server id. It never changes; the addresses may.
	ID          string
	RaftAddress string
	// APIURL is the base URL of the node's API, for example http://127.0.0.1:7101.
	APIURL string
}

// Config of a node. Zero values take the defaults.
type Config struct {
	// ID is this node's name; one of Peers unless the node joins.
	ID string
	// Dir holds everything the node stores.
	Dir string
	// API and Raft are the listeners; the node closes them.
	API  net.Listener
	Raft net.Listener
	// Peers says where nodes of the cell are, this one included, and wins over the
	// cell's own records. It makes no node a member: see Formation and Join.
	Peers []Peer
	// Join is the API URL of a node of the cell that a new folder joins.
	Join string
	// LogDir, if set, is a folder on another disk that the raft log is kept in. It belongs to
	// Dir for life: without it, the node does not start.
	LogDir string
	// Formation forms the cell from this process. Nil: a new folder waits for Join or for
	// somebody who forms a cell (corvo.cell.v1.FormationService). A node alone forms
	// its cell by itself.
	Formation *Formation
	// Self says where this node is, if Peers does not; ID is filled in.
	Self Peer
	// Shards is how many job groups a new cell gets. Default 2.
	Shards int
	// Secrets are shared by the processes of a cell. Without any, one is made and kept
	// in Dir, which suits a node alone.
	Secrets *cellsecret.Secrets
	// TLS, if set, is mutual TLS under raft and API traffic inside the cell.
	TLS *tls.Config
	// Access says who may call the API.
	Access Access
	// Relaxed does not sync the log: a crash of the machine loses acknowledged
	// jobs. Only for a node alone.
	Relaxed bool
	// AcceptLoss starts although the log lost entries the state has seen.
	AcceptLoss bool
	// SyncDelay is added to every sync of the log, as a slow disk would.
	SyncDelay time.Duration
	// PayloadBytesMax is the largest payload unless a plan says otherwise.
	PayloadBytesMax int
	// Retention is what a node alone keeps of what has ended; what is not set is as by default.
	Retention retention.Policy
	// LogBytesMax is how much of the raft logs of all groups is kept for nodes that lag or are
	// away; one that needs more gets the whole state. Default 4 GiB.
	LogBytesMax uint64
	// Heartbeat is the raft heartbeat and election timeout.
	Heartbeat time.Duration
	// ScrubEvery is how often all stored bytes are read and checked, 24 hours by default, with
	// at most ScrubBytesPerSecond, 8 MiB by default; negative turns it off, or does not limit.
	ScrubEvery          time.Duration
	ScrubBytesPerSecond int64
	// Version is reported by /api/v1/info.
	Version string
	// FS holds what has to survive a crash: log, state and the notes beside them. Nil is
	// the operating system's, which what can be made again is always in: read models and
	// transfers under way.
	FS vfs.FS
	// Dial opens connections to other nodes; nil means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Nap sleeps for less than the grain of Go's timers, where time is not the machine's;
	// nil asks the operating system.
	Nap func(time.Duration)
	// Clock replaces the machine's in tests.
	Clock group.Clock
	// SharesClock: all nodes of the cell are in this process, so that no two of them can
	// differ about the time, and none is asked for it.
	SharesClock bool
	Logger      *slog.Logger
	// Fatal ends the process; it must not return. Nil logs and exits with
	// ExitStopped, or with ExitVersion for ErrVersion.
	Fatal func(error)
}

// Exit codes of a process that ends because of its node.
const (
	// ExitStopped (EX_SOFTWARE): the node's disk or log failed, what it stored is
	// damaged, or it read something it does not understand. Restarting it does not
	// help; an operator must look.
	ExitStopped = 70
	// ExitStuck (EX_TEMPFAIL): the shutdown did not end in time and was cut off, as
	// a kill would. Nothing that was acknowledged is lost.
	ExitStuck = 75
	// exitCrashed: applying an entry panicked. Starting again helps: the group is left out
	// if it does that again (R7).
	exitCrashed = 1
	// ExitVersion (EX_CONFIG): this program does not speak the version of the cell. Its data
	// is as it should be; start another program.
	ExitVersion = 78
)

// Access is whom the API of a node trusts.
type Access uint8

const (
	// Signed trusts identities signed with the cell's secret: a node behind a proxy.
	Signed Access = iota
	// Open lets everybody do everything in one namespace. Loopback only.
	Open
	// Keys checks API keys itself: a node alone, reachable by others.
	Keys
)

const (
	defaultShards = 2
	secretBytes   = 32
	dirMode       = 0o700
	spreadEvery   = 5 * time.Second
	// ballastBytes is the room that a full disk gets back: enough to flush what is
	// in memory.
	ballastBytes = 64 << 20
	logBytesMax  = 4 << 30
)

func (c *Config) check() error {
	var problems []error
	need := func(ok bool, what string) {
		if !ok {
			problems = append(problems, errors.New(what))
		}
	}
	need(c.ID != "", "the node id is required")
	need(c.Dir != "", "the data directory is required")
	need(c.LogDir == "" || !within(c.Dir, c.LogDir) && !within(c.LogDir, c.Dir), "the log's folder and the data directory can't be one inside the other")
	need(c.API != nil, "the API listener is required")
	need(c.Raft != nil, "the raft listener is required")
	need(!c.alone() || len(c.Peers) == 1, "a single node can only have itself as a peer")
	need(!c.Relaxed || len(c.Peers) == 1, "relaxed is only for a single node: replicas that don't sync can lose what they confirmed to each other")
	need(!c.AcceptLoss || len(c.Peers) == 1, "accepting loss is only for a single node; in a cell, replace the node with one that has a new id and an empty folder")
	need(c.Secrets != nil || len(c.Peers) == 1, "the cell's secret is required")
	if len(c.Peers) > 0 {
		_, found := c.peer(c.ID)
		need(found, fmt.Sprintf("node %q isn't among the peers", c.ID))
	}
	return errors.Join(problems...)
}

// within reports whether path is dir, or in it.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// alone: a node without a proxy in front is the whole cell, for good.
func (c *Config) alone() bool { return c.Access != Signed }

func (c *Config) peer(id string) (Peer, bool) {
	for _, p := range c.Peers {
		if p.ID == id {
			return p, true
		}
	}
	return Peer{}, false
}

func (c *Config) withDefaults() {
	if c.Shards == 0 {
		c.Shards = defaultShards
	}
	if c.LogBytesMax == 0 {
		c.LogBytesMax = logBytesMax
	}
	if c.Clock == nil {
		c.Clock = group.SystemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Version == "" {
		c.Version = "0.4.0"
	}
	c.ScrubEvery = cmp.Or(c.ScrubEvery, defaultScrubEvery)
	c.ScrubBytesPerSecond = cmp.Or(c.ScrubBytesPerSecond, defaultScrubBytesPerSecond)
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Fatal == nil {
		log := c.Logger
		c.Fatal = func(err error) {
			lastWords(log, err)
			os.Exit(exitCode(err))
		}
	}
}

// lastWordsMax is how long the end of the process waits for its log, which may lie on the disk
// that is the reason.
const lastWordsMax = time.Second

func lastWords(log *slog.Logger, err error) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		log.Error("the node stops", "err", err)
	}()
	select {
	case <-said:
	case <-time.After(lastWordsMax):
	}
}

// exitCode is what a process ends with because of err.
func exitCode(err error) int {
	switch {
	case errors.Is(err, ErrVersion):
		return ExitVersion
	case errors.Is(err, group.ErrCrashed):
		return exitCrashed
	default:
		return ExitStopped
	}
}

// ErrKeyFile: a file with a secret of this node does not hold one.
var ErrKeyFile = errors.New("damaged key file")

// secrets returns the cell's secrets.
func (c *Config) secrets() (*cellsecret.Secrets, error) {
	if c.Secrets != nil {
		return c.Secrets, nil
	}
	own, err := c.ownSecret()
	if err != nil {
		return nil, err
	}
	return cellsecret.New(own)
}

// ownSecret is made and kept in Dir on first use.
func (c *Config) ownSecret() ([]byte, error) {
	path := filepath.Join(c.Dir, "cell.secret")
	b, err := os.ReadFile(path)
	if err == nil && len(b) == secretBytes {
		return b, nil
	}
	if err == nil {
		return nil, fmt.Errorf("%w: the cell secret in %s has %d bytes, not %d: the file is damaged; remove it to get a new one", ErrKeyFile, path, len(b), secretBytes)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read cell secret: %w", err)
	}
	b = make([]byte, secretBytes)
	if _, err := rand.Read(b); err != nil {
		return nil, fmt.Errorf("make cell secret: %w", err)
	}
	if err := disk.WriteFile(vfs.Default, path, b); err != nil {
		return nil, fmt.Errorf("keep cell secret: %w", err)
	}
	return b, nil
}
