package rig

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Pebble writes its log as chunks: checksum 4, length 2, type 1, log number 4, and
// in newer formats how far the log was synced 8 (pebble/record). A crash leaves
// the chunk that was being written without its end.
const (
	chunkLengthAt = 4
	chunkHeader   = 19
	chunkBody     = 2000 // Promised.
	chunkTorn     = 700  // There.
)

// TearLogEnd leaves a raft log as a crash in the middle of a write does: the synced
// records are followed by the start of one more. dir is a node's; the
// node must not run.
//
// Cutting off a synced record would not be a crash: a node that forgets
// what it confirmed is a broken disk, and then it must not start.
func TearLogEnd(t testing.TB, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "raftlog", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no log files in %s: %v", dir, err)
	}
	newest := slices.MaxFunc(logs, strings.Compare) // Numbers with leading zeros.
	content := must(os.ReadFile(newest))(t)
	if len(content) < chunkHeader {
		t.Fatalf("%s holds no record", newest)
	}
	torn := make([]byte, chunkTorn)
	copy(torn, content[:chunkHeader]) // Right type and log number.
	torn[chunkLengthAt], torn[chunkLengthAt+1] = byte(chunkBody&0xff), byte(chunkBody>>8)
	for i := chunkHeader; i < len(torn); i++ {
		torn[i] = byte(i)
	}
	f := must(os.OpenFile(newest, os.O_WRONLY|os.O_APPEND, 0))(t)
	_, err = f.Write(torn)
	check(t, errors.Join(err, f.Close()))
}
