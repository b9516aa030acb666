package nemesis

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/services/e2e/mixed"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

var (
	stormSeeds  = flag.Int("nemesis.seeds", 1, "how many storms")
	stormFirst  = flag.Uint64("nemesis.first", 1, "the seed of the first")
	stormFaults = flag.Int("nemesis.faults", 5, "faults of each storm")
	stormLasts  = flag.Duration("nemesis.lasts", 3*time.Second, "how long a fault lasts, at most")
	stormOnly   = flag.String("nemesis.only", "", "only faults whose kind matches this expression")
	stormOlder  = flag.Bool("nemesis.older", false, "let the nodes of odd seeds run an older build now and then")
)

const (
	seedVariable = "CORVO_NEMESIS_SEED"
	resultLine   = "RESULT "

	stormNodes = 3
	// stormPace, of each producer, makes some 100 jobs a second.
	stormPace = 100 * time.Millisecond
	lookEvery = 300 * time.Millisecond
	// recoverLimit is how long after its faults the cell may take to be whole and to serve.
	recoverLimit = 60 * time.Second
	// longSilence, of one fault, is worth to know what was logged.
	longSilence = 4 * time.Second
	// faultsJudged are so many that each rule was put to the test meanwhile.
	faultsJudged = 15
	// failLimit is how long a node may go on after a sync of it has failed.
	failLimit = 10 * time.Second
)

// result is what the process of one storm says at its end.
type result struct {
	Faults  map[string]int
	Silence map[string]time.Duration // The longest without an acknowledged enqueue.
	Ended   int                      // Nodes that ended themselves, as they should.
	Jobs    int
	Runs    int
	Again   int
	Met     mixed.Met
}

// Real processes in network namespaces of their own, on small disks whose syncs the test can
// hold up, under load through the proxy: faults drawn from a seed, and then every rule.
func TestStorm_NoFaultOfProcessesBreaksAnInvariant(t *testing.T) {
	total := result{Faults: map[string]int{}, Silence: map[string]time.Duration{}}
	flags := []string{fmt.Sprint("-nemesis.faults=", *stormFaults), fmt.Sprint("-nemesis.lasts=", *stormLasts), "-nemesis.only=" + *stormOnly}
	if *stormOlder { // Here: a storm's process has no network to fetch sources from.
		if _, err := rig.BuildOlder(); err != nil {
			t.Fatal(err)
		}
	}
	rig.BuildAudit(t)
	began := time.Now()
	for i := range *stormSeeds {
		seed := *stormFirst + uint64(i)
		// With an older build, the order of jobs isn't judged.
		older := fmt.Sprint("-nemesis.older=", *stormOlder && seed%2 == 1)
		total.add(runStorm(t, seed, append(flags, older)))
	}
	total.report(t, time.Since(began))
}

// runStorm is one storm in a process of its own.
func runStorm(t *testing.T, seed uint64, flags []string) (r result) {
	t.Helper()
	t.Logf("storm of seed %d", seed)
	out, exit := rig.RunPrivate(t, "TestSeed", fmt.Sprint(seedVariable, "=", seed), flags...)
	told := false
	for line := range strings.SplitSeq(string(out), "\n") {
		if text, ok := strings.CutPrefix(line, resultLine); ok {
			told = json.Unmarshal([]byte(text), &r) == nil
		}
	}
	switch {
	case exit != 0 || !told:
		t.Errorf("seed %d: exit code %d\n%s\nAgain: make nemesis SEEDS=1 FIRST=%d FAULTS=%d", seed, exit, out, seed, *stormFaults)
	case testing.Verbose():
		t.Logf("%s", out)
	}
	return r
}

func (r *result) add(o result) {
	for k, n := range o.Faults {
		r.Faults[k] += n
	}
	for k, d := range o.Silence {
		r.Silence[k] = max(r.Silence[k], d)
	}
	r.Met.Add(o.Met)
	r.Ended, r.Jobs, r.Runs, r.Again = r.Ended+o.Ended, r.Jobs+o.Jobs, r.Runs+o.Runs, r.Again+o.Again
}

func (r *result) report(t *testing.T, took time.Duration) {
	t.Helper()
	var b strings.Builder
	total := 0
	for _, k := range slices.Sorted(maps.Keys(r.Faults)) {
		fmt.Fprintf(&b, "%6d %s", r.Faults[k], k)
		if d, ok := r.Silence[k]; ok {
			fmt.Fprintf(&b, "; alone, no enqueue was acknowledged for %s at most", d.Round(10*time.Millisecond))
		}
		fmt.Fprintln(&b)
		total += r.Faults[k]
	}
	if total >= faultsJudged && r.Met.Missing(true) {
		t.Errorf("a rule was not put to the test by %d faults: %+v", total, r.Met)
	}
	t.Logf("%d storms, %d faults in %s; %d jobs acknowledged, %d runs, %d of them again; of other queues %+v; %d nodes ended themselves when their disk failed.\n%s",
		*stormSeeds, total, took.Round(time.Second), r.Jobs, r.Runs, r.Again, r.Met, r.Ended, b.String())
}

// TestSeed is the process of one storm.
func TestSeed(t *testing.T) {
	text := os.Getenv(seedVariable)
	if text == "" {
		t.Skip("TestStorm starts this in a process of its own")
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	s := newStorm(t, seed)
	load := s.startLoad(stormPace)
	s.waitEnqueues(enqueuesApart, recoverLimit)
	go s.quiet.listen(t.Context(), s.nemesis)
	s.run(*stormFaults)
	load.stopProducers()
	s.waitFinished()
	load.stopWorkers()
	s.judge(load)
	for _, n := range s.cell.Nodes {
		n.Kill()
		t.Logf("%s: audited %s", n.ID, rig.AuditState(t, filepath.Join(n.Dir, "state")))
	}
	s.result.Jobs, _ = s.history.Count()
	s.result.Met = s.mixed.Met()
	s.result.Runs, s.result.Again = s.history.Duplicates()
	line, err := json.Marshal(s.result)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(resultLine + string(line))
}

// storm makes faults in a cell, one after another and some at the same time.
type storm struct {
	*nemesis
	rng     *rand.Rand
	network *rig.Network
	sites   []*site         // By the node's number.
	busy    map[string]bool // Nodes that a fault of this round is about.
	excused map[string]bool // Nodes that may end themselves in this round.
	before  map[string]bool // And in the one before, of which that may only be seen now.
	older   string          // A program; empty if none is asked for.
	quiet   quiet
	result  result
}

// site is where one node runs.
type site struct {
	host   *rig.Host
	disk   *rig.Disk
	volume rig.Volume
}

func newStorm(t *testing.T, seed uint64) *storm {
	s := &storm{
		rng: rand.New(rand.NewPCG(seed, 0)), network: rig.NewNetwork(t),
		result: result{Faults: map[string]int{}, Silence: map[string]time.Duration{}},
	}
	if *stormOlder {
		var err error
		if s.older, err = rig.BuildOlder(); err != nil {
			t.Fatal(err)
		}
	}
	// Formed by the older build, the cell has the version that both speak.
	s.nemesis = newNemesis(t, rig.StartCell(t, rig.CellOptions{Nodes: stormNodes, Binary: s.older, Machine: func(i int) rig.Machine {
		at := s.newSite(t)
		s.sites = append(s.sites, at)
		return rig.Machine{Host: at.host.IP, Dir: filepath.Join(at.volume.Dir, "data"), Enter: []rig.Enter{at.disk.Enter, at.host.Enter}}
	}}))
	if s.older != "" {
		s.outOfTurn = true
		for _, n := range s.cell.Nodes[1:] {
			n.Kill()
			n.Binary = ""
			n.Start()
			n.WaitReady(restartLimit)
		}
	}
	return s
}

func (s *storm) newSite(t *testing.T) *site {
	t.Helper()
	volume, ok := rig.NewVolume(t)
	if !ok {
		t.Fatal("no file system of its own")
	}
	return &site{host: s.network.Host(), disk: &rig.Disk{Dir: volume.Dir}, volume: volume}
}

// at is where a node runs.
func (s *storm) at(n *rig.CellNode) *site {
	number, err := strconv.Atoi(strings.TrimPrefix(n.ID, "n"))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.sites[number-1]
}

// run makes count faults, a third of them while another one lasts.
func (s *storm) run(count int) {
	s.t.Helper()
	for made := 0; made < count; {
		together := 1
		if s.rng.IntN(3) == 0 {
			together = min(2, count-made)
		}
		made += s.round(together)
	}
}

// round makes some faults, lets them last, ends them, and waits until the cell is whole.
func (s *storm) round(together int) (made int) {
	s.t.Helper()
	s.busy, s.excused, s.before = map[string]bool{}, map[string]bool{}, s.excused
	s.quiet.take()
	began := time.Now()
	var kinds []string
	var undo, finish []func()
	for range together {
		f := s.draw()
		what, end := f.make(s)
		if end == nil {
			continue
		}
		s.t.Logf("%s: %s", f.kind, what)
		s.result.Faults[f.kind]++
		kinds = append(kinds, f.kind)
		if f.slow {
			finish = append(finish, end)
		} else {
			undo = append(undo, end)
		}
		s.watch(s.between(0, time.Second))
	}
	if len(kinds) == 0 {
		return 0
	}
	s.watch(s.between(200*time.Millisecond, *stormLasts))
	lasted := time.Since(began)
	for _, end := range undo {
		end()
	}
	s.recover()
	for _, end := range finish {
		end()
		s.recover()
	}
	silence := s.quiet.take()
	s.t.Logf("over: %s, after %s; no enqueue was acknowledged for %s", strings.Join(kinds, ", "), lasted.Round(time.Millisecond), silence.Round(time.Millisecond))
	if len(kinds) == 1 {
		if silence > longSilence && kinds[0] != wholeCell {
			s.t.Logf("logged meanwhile:\n%s", s.said(began))
		}
		s.result.Silence[kinds[0]] = max(s.result.Silence[kinds[0]], silence)
	}
	return len(kinds)
}

// said is what nodes and the proxy have logged since a moment.
func (s *storm) said(since time.Time) string {
	var b strings.Builder
	from := since.UTC().Format("2006-01-02T15:04:05.000")
	add := func(name, log string) {
		for line := range strings.Lines(log) {
			if at, ok := strings.CutPrefix(line, "time="); ok && at >= from {
				fmt.Fprintf(&b, "%s: %s", name, line)
			}
		}
	}
	for _, n := range s.cell.Nodes {
		add(n.ID, n.Stderr())
	}
	add("proxy", s.cell.Proxies[0].Stderr())
	return b.String()
}

// watch looks at all replicas until d has passed.
func (s *storm) watch(d time.Duration) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		s.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// recover waits until every node runs and is ready, starting those again that ended for a
// reason, and jobs go in.
func (s *storm) recover() {
	s.t.Helper()
	var waits string
	ok := func() bool {
		for _, n := range s.cell.Nodes {
			if n.Exited() {
				s.ended(n)
				n.Start()
			}
			if !n.Ready() {
				waits = n.ID
				return false
			}
		}
		return true
	}
	eventually.NoError(s.t, recoverLimit, "all nodes are ready", func() error {
		if !ok() {
			return fmt.Errorf("%s is not", waits)
		}
		return nil
	})
	s.waitEnqueues(enqueuesApart, recoverLimit)
}

// diskCodes are the exit codes that tell a supervisor and its operator of a disk: the node's,
// and those of the log and the watchdog, which end a process at once.
var diskCodes = []int{node.ExitStopped, 74}

// ended is about a node that has ended itself.
func (s *storm) ended(n *rig.CellNode) {
	s.t.Helper()
	if !s.excused[n.ID] && !s.before[n.ID] {
		s.t.Errorf("%s ended with code %d though nothing was wrong with its disk:\n%s", n.ID, n.WaitExit(time.Second), n.Stderr())
		s.excused[n.ID] = true // Said once.
		return
	}
	code := n.WaitExit(time.Second)
	if n.Binary == "" && !slices.Contains(diskCodes, code) {
		s.t.Errorf("%s ended with code %d, which says nothing of its disk:\n%s", n.ID, code, n.Stderr())
	}
	lines := strings.Split(strings.TrimSpace(n.Stderr()), "\n")
	s.t.Logf("%s ended itself with code %d: %s", n.ID, code, lines[len(lines)-1])
	s.result.Ended++
}

func (s *storm) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.rng.Int64N(int64(b-a)))
}

// quiet is how long no enqueue was acknowledged.
type quiet struct {
	mu      sync.Mutex // Guards the rest.
	last    time.Time
	longest time.Duration
}

// listen hears every acknowledged enqueue until ctx ends.
func (q *quiet) listen(ctx context.Context, n *nemesis) {
	for {
		_, more := n.history.Count()
		select {
		case <-more:
			q.heard()
		case <-ctx.Done():
			return
		}
	}
}

func (q *quiet) heard() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.longest, q.last = max(q.longest, now.Sub(q.last)), now
}

// take is the longest silence since the last take.
func (q *quiet) take() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	longest := q.longest
	q.longest, q.last = 0, time.Now()
	return longest
}
