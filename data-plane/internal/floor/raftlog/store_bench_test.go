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

// BenchmarkWritten stores a gibibyte of entries in each of some groups' logs, which are cut as
// the groups do, and reports how many bytes are written for each byte of an entry.
func BenchmarkWritten(b *testing.B) {
	const (
		total, payload = 1 << 30, 32 << 10
		every, keep    = 64 << 20, 256 << 20 // Between two cuts, and what they leave.
	)
	for _, groups := range []uint64{1, 16} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			data := make([]byte, payload)
			for b.Loop() {
				s, err := Open(b.TempDir(), Options{})
				if err != nil {
					b.Fatal(err)
				}
				for at := uint64(1); at <= total/payload/groups; at++ {
					for id := range groups {
						g := s.Group(uint32(id) + 1)
						if err := g.StoreLogsAnd([]*raft.Log{{Index: at, Term: 1, Data: data}}, []byte("applied"), at); err != nil {
							b.Fatal(err)
						}
						if kept := keep / payload / groups; at%(every/payload/groups) == 0 && at > kept {
							if err := g.DeleteRange(1, at-kept); err != nil {
								b.Fatal(err)
							}
						}
					}
				}
				m := s.db.Metrics()
				written := m.WAL.BytesWritten
				for _, level := range m.Levels {
					written += level.TableBytesFlushed + level.TableBytesCompacted
				}
				b.ReportMetric(float64(written)/float64(s.Metrics().EntryBytes), "written/entry-byte")
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
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
