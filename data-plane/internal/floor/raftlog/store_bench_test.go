package raftlog

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
)

// BenchmarkStoreLogs stores batches of 64 entries of 200 bytes, each batch one
// synced commit. "disk" is the bare disk, "1ms" the standard setting.
func BenchmarkStoreLogs(b *testing.B) {
	for _, setting := range []struct {
		name string
		fs   vfs.FS
	}{{"disk", vfs.Default}, {"1ms", disk.DelayedSync(vfs.Default, time.Millisecond)}} {
		for _, groups := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/groups=%d", setting.name, groups), func(b *testing.B) {
				benchmarkStoreLogs(b, setting.fs, groups)
			})
		}
	}
}

func benchmarkStoreLogs(b *testing.B, fs vfs.FS, groups int) {
	const batch, payload = 64, 200
	s, err := Open(b.TempDir(), Options{FS: fs})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	data := make([]byte, payload)
	var next atomic.Uint32
	b.ReportAllocs()
	b.SetBytes(batch * payload)
	b.ResetTimer()
	done := make(chan struct{}, groups)
	var left atomic.Int64
	left.Store(int64(b.N))
	for range groups {
		go func() {
			defer func() { done <- struct{}{} }()
			g := s.Group(next.Add(1))
			logs := make([]*raft.Log, batch)
			for at := uint64(1); left.Add(-1) >= 0; at += batch {
				for i := range logs {
					logs[i] = &raft.Log{Index: at + uint64(i), Term: 1, Data: data}
				}
				if err := g.StoreLogs(logs); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	for range groups {
		<-done
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)*batch/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkGetLog(b *testing.B) {
	for name, tail := range map[string]int{"tail": 64 << 20, "pebble": -1} {
		b.Run(name, func(b *testing.B) {
			s := open(b, vfs.NewMem(), Options{TailBytes: tail})
			g := s.Group(1)
			store(b, g, entries(1, 10_000, 1))
			b.ReportAllocs()
			var log raft.Log
			for i := range b.N {
				if err := g.GetLog(uint64(i%10_000)+1, &log); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
