package statedb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// wideKey is one of so many keys that ranges nest, touch, overlap and miss each other.
func wideKey(g *Group, n int) []byte { return keyOf(g, fmt.Sprintf("%02d", n)) }

// Batch and digests are, byte for byte, those of the plainest Txn there can be, and
// every read gives the same: removed ranges are found by search, not by walking.
func TestTxn_WritesWhatTheNaiveOneWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, compareWithNaive)
}

func FuzzTxn(f *testing.F) { f.Fuzz(rapid.MakeFuzz(compareWithNaive)) }

func compareWithNaive(t *rapid.T) {
	const keys = 40
	db := openOn(t, vfs.NewMem())
	defer closeDB(t, db)
	g := db.Group(2)
	stored := map[string]string{}
	for n := range keys / 2 {
		stored[fmt.Sprintf("%02d", 2*n)] = "stored"
	}
	fill(t, g, stored)
	txn, naive := g.NewTxn(), newNaive(g)
	defer func() {
		if err := errors.Join(txn.Discard(), naive.Discard()); err != nil {
			t.Fatalf("discard: %v", err)
		}
	}()
	key := rapid.IntRange(0, keys-1)
	same := func(n int) {
		k := wideKey(g, n)
		got, err := txn.Get(k)
		want, wantErr := naive.Get(k)
		if !bytes.Equal(got, want) || errors.Is(err, ErrNotFound) != errors.Is(wantErr, ErrNotFound) {
			t.Fatalf("%s is %q, %v, want %q, %v", k[4:], got, err, want, wantErr)
		}
	}
	digest := uint64(0)
	inOrder := func() {}
	for index := range uint64(rapid.IntRange(1, 6).Draw(t, "entries")) {
		for range rapid.IntRange(0, 40).Draw(t, "changes") {
			a, b := key.Draw(t, "key"), key.Draw(t, "other key")
			k, v := wideKey(g, a), []byte{byte(b)}
			switch rapid.SampledFrom([]string{"get", "order", "set", "new", "delete", "cut", "cut", "cut"}).Draw(t, "op") {
			case "get":
				same(a)
			case "order": // Until the next one.
				inOrder()
				var err error
				if inOrder, err = txn.InOrder(); err != nil {
					t.Fatal(err)
				}
			case "set":
				txn.Set(k, v)
				naive.Set(k, v)
			case "new":
				txn.SetNew(k, v)
				naive.SetNew(k, v)
			case "delete":
				txn.Delete(k)
				naive.Delete(k)
			case "cut": // Empty or the wrong way round now and then: a batch takes that too.
				txn.DeleteRange(k, wideKey(g, b))
				naive.DeleteRange(k, wideKey(g, b))
			}
		}
		d, err := txn.EndEntry(digest, index)
		want, wantErr := naive.EndEntry(digest, index)
		if err != nil || wantErr != nil || d != want {
			t.Fatalf("digest of entry %d is %x, %v, want %x, %v", index, d, err, want, wantErr)
		}
		digest = d
	}
	for n := range keys {
		same(n)
	}
	if !bytes.Equal(txn.batch.Repr(), naive.batch.Repr()) {
		t.Fatalf("the batch is %x, want %x", txn.batch.Repr(), naive.batch.Repr())
	}
}

// What makes adding and asking cheap: however many ranges there are, in whatever
// order they came, they lie in a logarithm of ordered runs.
func TestCutMap_HasFewRuns(t *testing.T) {
	t.Parallel()
	const most = 1 << 14
	random := rand.New(rand.NewPCG(1, 2))
	at := func(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	for name, begin := range map[string]func(i int) int{
		"ascending":  func(i int) int { return 2 * i },
		"descending": func(i int) int { return 2 * (most - i) },
		"random":     func(int) int { return random.IntN(most) },
	} {
		var m cutMap
		for i := range most {
			from := begin(i)
			m.add(at(from), at(from+1+random.IntN(3)))
			total := 0
			for j, run := range m.runs {
				total += len(run)
				if j > 0 && 2*len(run) >= len(m.runs[j-1]) {
					t.Fatalf("%s: after %d ranges run %d has %d of them, the one before it %d", name, i+1, j, len(run), len(m.runs[j-1]))
				}
			}
			if total > 2*(i+1) {
				t.Fatalf("%s: %d ranges became %d", name, i+1, total)
			}
		}
	}
}

// sweeper is what a sweep's entry does with a Txn.
type sweeper interface {
	Get(key []byte) ([]byte, error)
	Delete(key []byte)
	DeleteRange(from, to []byte)
	EndEntry(digest, index uint64) (uint64, error)
	Discard() error
}

// sweepJobs is a batch of entries that sweep jobs: of each one reads its head, deletes
// three rows, and removes the range of its errors.
func sweepJobs(b *testing.B, g *Group, txn sweeper, jobs []int) {
	b.Helper()
	row := func(family byte, job int) []byte {
		p := g.Prefix()
		return binary.BigEndian.AppendUint64(append(p[:], family), uint64(job))
	}
	for i, job := range jobs {
		if _, err := txn.Get(row(1, job)); !errors.Is(err, ErrNotFound) {
			b.Fatal(err)
		}
		for family := range byte(3) {
			txn.Delete(row(family, job))
		}
		txn.DeleteRange(row(9, job), row(9, job+1))
		if i%500 == 499 {
			if _, err := txn.EndEntry(0, 1); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := txn.Discard(); err != nil {
		b.Fatal(err)
	}
}

// The same work done by a Txn and by the naive one; CPU-ns/job is what grows or does
// not, whatever else the machine does. Run it with -benchtime 3x.
func BenchmarkSweep(b *testing.B) {
	for name, begin := range map[string]func(*Group) sweeper{
		"txn":   func(g *Group) sweeper { return g.NewTxn() },
		"naive": func(g *Group) sweeper { return newNaive(g) },
	} {
		for _, jobs := range []int{2000, 4000, 8000} {
			b.Run(fmt.Sprintf("%s/jobs=%d", name, jobs), func(b *testing.B) { benchmarkSweep(b, begin, jobs) })
		}
	}
	for _, jobs := range []int{32000, 64000, 128000} { // The naive one would take minutes.
		b.Run(fmt.Sprintf("txn/jobs=%d", jobs), func(b *testing.B) {
			benchmarkSweep(b, func(g *Group) sweeper { return g.NewTxn() }, jobs)
		})
	}
}

func benchmarkSweep(b *testing.B, begin func(*Group) sweeper, jobs int) {
	db := openOn(b, vfs.NewMem())
	defer closeDB(b, db)
	order := rand.New(rand.NewPCG(1, 2)).Perm(jobs)
	b.ResetTimer()
	before := cpuTime(b)
	for range b.N {
		sweepJobs(b, db.Group(2), begin(db.Group(2)), order)
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N)/float64(jobs), "CPU-ns/job")
}

// cpuTime is what the process has used, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return syscall.TimevalToNsec(r.Utime) + syscall.TimevalToNsec(r.Stime)
}
