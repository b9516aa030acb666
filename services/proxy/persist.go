package proxy

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/services/datadir"
)

// The state files: state-<sequence> holds a magic line, the SHA-256 of the rest,
// and the marshalled cellv1.State.
const (
	fileMagic  = "corvo proxy state 1\n"
	filePrefix = "state-"
	fileSuffix = ".bin"
	filesKept  = 3
	// fileBytesMax bounds what a damaged length can make us read: 100,000 keys are
	// about 10 MB.
	fileBytesMax = 256 << 20
)

// stateFiles keeps the last states on disk, so that a proxy started while the
// cell's meta group is unavailable still knows its keys. Used by one goroutine at a
// time.
type stateFiles struct {
	dir string
	log *slog.Logger
	seq uint64 // Of the newest file.
}

// openStateFiles makes the directory; an empty dir keeps nothing.
func openStateFiles(dir string, log *slog.Logger) (*stateFiles, error) {
	f := &stateFiles{dir: dir, log: log}
	if dir == "" {
		return f, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make state directory %s: %w", dir, err)
	}
	if err := datadir.RemoveUnfinished(dir); err != nil {
		return nil, err
	}
	seqs, err := f.list()
	if err != nil {
		return nil, err
	}
	if len(seqs) > 0 {
		f.seq = seqs[0]
	}
	return f, nil
}

// load returns the newest intact state, or nil.
func (f *stateFiles) load() (*cellv1.State, error) {
	if f.dir == "" {
		return nil, nil
	}
	seqs, err := f.list()
	if err != nil {
		return nil, err
	}
	for _, seq := range seqs {
		state, err := readStateFile(f.path(seq))
		if err == nil {
			return state, nil
		}
		f.log.Warn("the state file is damaged; using the previous one", "file", f.path(seq), "err", err)
	}
	return nil, nil
}

// save writes state as the newest file and removes the oldest.
func (f *stateFiles) save(state *cellv1.State) error {
	if f.dir == "" {
		return nil
	}
	head := len(fileMagic) + sha256.Size
	text, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(make([]byte, head), state)
	if err != nil {
		return fmt.Errorf("marshal state at index %d: %w", state.GetIndex(), err)
	}
	sum := sha256.Sum256(text[head:])
	copy(text, fileMagic+string(sum[:]))
	if err := datadir.WriteFile(f.path(f.seq+1), text); err != nil {
		return err
	}
	f.seq++
	return f.prune()
}

func (f *stateFiles) prune() error {
	seqs, err := f.list()
	if err != nil {
		return err
	}
	for _, seq := range seqs[min(filesKept, len(seqs)):] {
		if err := os.Remove(f.path(seq)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove old state file: %w", err)
		}
	}
	return nil
}

// list returns the sequences on disk, newest first.
func (f *stateFiles) list() ([]uint64, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, fmt.Errorf("list state directory %s: %w", f.dir, err)
	}
	var seqs []uint64
	for _, e := range entries {
		digits, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), fileSuffix), filePrefix)
		if seq, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && f.path(seq) == filepath.Join(f.dir, e.Name()) {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	slices.Reverse(seqs)
	return seqs, nil
}

func (f *stateFiles) path(seq uint64) string {
	return filepath.Join(f.dir, fmt.Sprintf("%s%020d%s", filePrefix, seq, fileSuffix))
}

func readStateFile(path string) (*cellv1.State, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, fileBytesMax))
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	return decodeState(data)
}

func decodeState(data []byte) (*cellv1.State, error) {
	rest, ok := bytes.CutPrefix(data, []byte(fileMagic))
	if !ok || len(rest) < sha256.Size {
		return nil, errors.New("not a state file")
	}
	body := rest[sha256.Size:]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], rest[:sha256.Size]) {
		return nil, errors.New("checksum does not match")
	}
	state := &cellv1.State{}
	if err := proto.Unmarshal(body, state); err != nil {
		return nil, fmt.Errorf("unmarshal: %w", err)
	}
	return state, nil
}
