package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/corvo-cloud/corvo/services/e2e/mixed"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

var (
	seeds  = flag.Int("sim.seeds", 5, "how many seeds to run")
	first  = flag.Uint64("sim.first", 1, "the first seed")
	count  = flag.Int("sim.faults", 25, "faults of each seed")
	budget = flag.Duration("sim.for", 0, "begin no further seed after this time; 0 runs all")
)

// smallLogs are the bytes of log that a node keeps in some seeds: a few seconds' worth (F14).
const smallLogs = 32 << 10

const (
	childVariable = "CORVO_SIM_SEED"
	// forgetVariable makes the disks forget what they synced, instead of the faults.
	forgetVariable = "CORVO_SIM_FORGET"
	tempVariable   = "CORVO_SIM_TEMP"
	resultLine     = "RESULT "
)

// result is what one seed's process says at its end.
type result struct {
	Seed     uint64
	Nodes    int
	Breaches []string
	Faults   map[string]int
	Steps    map[string]int // Of F24, by the step that was not done.
	Jobs     int            // Acknowledged, of the queue that every run of a job is told about.
	Mixed    int            // Acknowledged, of the other queues.
	Runs     int
	Again    int
	Installs int // States that nodes took over whole.
	Compared int // Digests, with that of another node.
	Apart    int // Looks in which two nodes answered that did not hear each other.
	Heavy    int // Seeds with large jobs and waiting fetches.
	Met      mixed.Met
	Still    int // 1 if it ended early, without a verdict.
	Virtual  time.Duration
	Real     time.Duration
}

// One bubble to a process: Pebble pools channels over all stores of a process, and a
// second bubble may not use those of the first. So every seed is a process.
func TestSim_NoFaultBreaksAnInvariant(t *testing.T) {
	skipIfShort(t)
	rig.BuildAudit(t)
	began, total := time.Now(), result{Faults: map[string]int{}, Steps: map[string]int{}}
	ran := 0
	for i := range *seeds {
		if *budget > 0 && time.Since(began) > *budget {
			break
		}
		seed := *first + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { // Its files are removed at its end.
			total.add(runSeed(t, seed))
			ran++
		})
	}
	report(t, ran, total)
}

func skipIfShort(t *testing.T) {
	t.Helper()
	switch {
	case os.Getenv(childVariable) != "":
		t.Skip("this is the process of one seed")
	case testing.Short():
		t.Skip("takes half a minute a seed")
	}
}

// crashed are the faults of F24 that came to pass: a node may be asked to die before a step
// that it never comes to.
const crashed = "F24 died before a step"

// The control: what this finds, the run above would find too.
func TestSim_DisksThatForgetWhatTheySyncedLoseJobsAndItSeesThat(t *testing.T) {
	skipIfShort(t)
	r, out, _ := child(t, 1, forgetVariable+"=1")
	if !slices.ContainsFunc(r.Breaches, func(b string) bool { return strings.Contains(b, "INV-1:") }) {
		t.Errorf("no acknowledged job was missed:\n%s", tail(out))
	}
}

func (r *result) add(o result) {
	for k, n := range o.Faults {
		r.Faults[k] += n
	}
	for k, n := range o.Steps {
		r.Steps[k] += n
	}
	r.Jobs, r.Mixed, r.Runs, r.Again, r.Installs = r.Jobs+o.Jobs, r.Mixed+o.Mixed, r.Runs+o.Runs, r.Again+o.Again, r.Installs+o.Installs
	r.Compared, r.Apart, r.Still = r.Compared+o.Compared, r.Apart+o.Apart, r.Still+o.Still
	r.Heavy += o.Heavy
	r.Met.Add(o.Met)
	r.Virtual, r.Real = r.Virtual+o.Virtual, r.Real+o.Real
}

// runSeed runs one seed and fails the test with what it found.
func runSeed(t *testing.T, seed uint64) result {
	t.Helper()
	temp := t.TempDir()
	r, out, exit := child(t, seed, tempVariable+"="+temp)
	wrong, still := verdict(r, out, exit)
	switch {
	case wrong != "":
		t.Errorf("%s\nAgain: make sim SEEDS=1 FIRST=%d FAULTS=%d", wrong, seed, *count)
	case still:
		t.Logf("inconclusive: somebody waited for a mutex that was held over a slow disk, and time stood still\n%s", holdUps(out))
	case testing.Verbose():
		t.Logf("%s", out)
	}
	if still {
		return result{Still: 1}
	}
	audited := "nothing"
	if wrong == "" { // Else it may have left nothing.
		audited = rig.AuditState(t, filepath.Join(temp, worldDir, lastState))
	}
	t.Logf("seed %d: %d nodes, %d faults, %d jobs acknowledged, %d runs, %d again; %s of virtual time in %s; audited %s", seed, r.Nodes, sum(r.Faults), r.Jobs, r.Runs, r.Again,
		r.Virtual.Round(time.Second), r.Real.Round(100*time.Millisecond), audited)
	return r
}

// breachMark begins what world.breach says.
const breachMark = "BREACH "

// verdict is what was wrong with a seed, if anything, and whether it stood still before its end. What broke
// before that has broken.
func verdict(r result, out []byte, exit int) (wrong string, still bool) {
	broken := len(r.Breaches) > 0 || bytes.Contains(out, []byte(breachMark))
	switch still = exit == exitInconclusive; {
	case exit == exitStalled:
		return "somebody waits for a mutex whose holder waits for time, or spins, and time stands still\n" + holdUps(out), false
	case still && broken:
		return "stood still after a breach\n" + breaches(out), true
	case !still && (exit != 0 || broken):
		return fmt.Sprintf("exit code %d\n%s", exit, tail(out)), false
	}
	return "", still
}

// breaches are the lines that tell of some.
func breaches(out []byte) string {
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, breachMark) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// tooStill reports whether so many of the seeds came to no verdict that the run has none: more than a tenth,
// but one may, of several.
func tooStill(still, ran int) bool { return still > max(1, ran/10) || still > 0 && still == ran }

// exitUntold: a process ended without its result.
const exitUntold = -1

// child is the process of one seed, to its end.
func child(t *testing.T, seed uint64, env ...string) (r result, out []byte, exit int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestSeed$", "-test.timeout=20m", "-sim.faults="+strconv.Itoa(*count))
	// Raft draws its time-outs from the one source that a program can't seed any more.
	cmd.Env = append(append(os.Environ(), "GODEBUG=randautoseed=0", childVariable+"="+strconv.FormatUint(seed, 10), tempVariable+"="+t.TempDir()), env...)
	out, err = cmd.CombinedOutput()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	told := false
	for line := range strings.SplitSeq(string(out), "\n") {
		if text, ok := strings.CutPrefix(line, resultLine); ok {
			told = json.Unmarshal([]byte(text), &r) == nil
		}
	}
	if exit = cmd.ProcessState.ExitCode(); exit == 0 && !told {
		exit = exitUntold
	}
	return r, out, exit
}

// holdUps are the stacks of those who hold up time: they wait for a mutex, or run.
func holdUps(out []byte) string {
	var found []string
	for stack := range strings.SplitSeq(string(out), "\n\n") {
		if head, _, _ := strings.Cut(stack, "\n"); strings.Contains(head, "synctest bubble") && !strings.Contains(head, "(durable)") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

func tail(out []byte) []byte { return out[max(0, len(out)-20_000):] }

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// seedsJudged are so many that each rule was put to the test.
const seedsJudged = 3

// partitionsSeen are so many partitions that some last until the next look.
const partitionsSeen = 5

func report(t *testing.T, ran int, r result) {
	t.Helper()
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(r.Faults)) {
		fmt.Fprintf(&b, "%6d %s\n", r.Faults[k], k)
	}
	fmt.Fprintf(&b, "steps not done by a node that died just before (F24):\n")
	for _, k := range slices.Sorted(maps.Keys(r.Steps)) {
		fmt.Fprintf(&b, "%6d %s\n", r.Steps[k], k)
	}
	faults, secs := sum(r.Faults), max(r.Real.Seconds(), 0.001)
	if tooStill(r.Still, ran) {
		t.Errorf("%d of %d seeds were inconclusive", r.Still, ran)
	}
	if faults > 0 && r.Compared == 0 {
		t.Error("INV-16 was not looked at: no two nodes told their digest of one index")
	}
	if r.Faults[partitioned] >= partitionsSeen && r.Apart == 0 {
		t.Error("INV-17 was not looked at: never did both sides of a cut link answer")
	}
	if ran-r.Still >= seedsJudged && r.Met.Missing(r.Heavy > 0) {
		t.Errorf("a rule was not put to the test by %d seeds: %+v", ran-r.Still, r.Met)
	}
	t.Logf("%d seeds (%d inconclusive, not counted further), %d faults, %d whole states taken over, %d digests compared, %d looks at both sides of a cut link, %d jobs acknowledged, %d runs, %d of them again; "+
		"%d jobs of other queues: %+v; %d heavy loads. %.2f faults a second; virtual to real time %.1f.\n%s",
		ran, r.Still, faults, r.Installs, r.Compared, r.Apart, r.Jobs, r.Runs, r.Again, r.Mixed, r.Met, r.Heavy, float64(faults)/secs, r.Virtual.Seconds()/secs, b.String())
}

// TestSeed is the process of one seed.
func TestSeed(t *testing.T) {
	text := os.Getenv(childVariable)
	if text == "" {
		t.Skip("TestSim starts this in a process of its own")
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	cryptotest.SetGlobalRandom(t, seed) // Ids and nonces.
	real := realTime()
	go watchTime()
	synctest.Test(t, func(t *testing.T) {
		r := runWorld(t, seed)
		r.Real = realTime() - real
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(resultLine + string(line))
		// What dead nodes left behind never ends: the bubble could not.
		if len(r.Breaches) > 0 {
			os.Exit(1)
		}
		os.Exit(0)
	})
}

// realTime is the time of the machine, which a bubble does not tell.
func realTime() time.Duration {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	secs, _ := strconv.ParseFloat(strings.Fields(string(b))[0], 64)
	return time.Duration(secs * float64(time.Second))
}

// virtualNow is the time inside the bubble, which it tells now and then.
var virtualNow atomic.Int64

const (
	tellEvery   = 100 * time.Millisecond // Of virtual time.
	stillFor    = 20 * time.Second       // Of real time.
	exitStalled = 3
	// exitInconclusive: the holder of that mutex waits for a disk that a fault slows down,
	// which with real time would only have taken longer.
	exitInconclusive = 4
)

// watchTime ends a process whose virtual time stands still: somebody in the bubble waits
// for a mutex whose holder waits for time to pass. It runs outside of the bubble.
func watchTime() {
	for last := int64(-1); ; {
		time.Sleep(stillFor)
		now := virtualNow.Load()
		if now == last {
			fmt.Println("virtual time stands still")
			_ = pprof.Lookup("goroutine").WriteTo(os.Stdout, 2)
			if waitingForDisk.Load() > 0 {
				os.Exit(exitInconclusive)
			}
			os.Exit(exitStalled)
		}
		last = now
	}
}

// tellTime is for watchTime.
func tellTime() {
	for {
		virtualNow.Store(time.Now().UnixNano())
		time.Sleep(tellEvery)
	}
}

// worldDir is for the files of a seed.
const worldDir = "world"

func runWorld(t *testing.T, seed uint64) (r result) {
	temp := filepath.Join(os.Getenv(tempVariable), worldDir)
	nodes := 3
	if seed%4 == 0 {
		nodes = 5
	}
	w := newWorld(t, seed, nodes, temp)
	// F14: whoever is away for a moment has to take over a whole state.
	if seed%3 == 2 {
		w.logBytes = smallLogs
	}
	// Two that are busy may wait for each other in Pebble, under a mutex, while a fault holds up
	// their disk: such seeds come to no verdict.
	if w.shards = 1; seed%4 == 3 {
		w.shards = 2
	}
	// A simulated disk copies a file with each sync, so that large jobs cost as many seconds as all the rest.
	w.heavy = seed%3 == 1
	w.say("seed %d, %d nodes, %d shards, logs of %d bytes, heavy: %t", seed, nodes, w.shards, w.logBytes, w.heavy)
	go tellTime()
	r = result{Seed: seed, Nodes: nodes, Steps: map[string]int{}, Faults: map[string]int{}}
	if err := w.begin(); err != nil {
		w.breach("INV-2: the cell does not begin: %v", err)
		r.Breaches = w.told()
		return r
	}
	loads, err := w.startLoads()
	if err != nil {
		w.breach("INV-2: the load does not begin: %v", err)
		r.Breaches = w.told()
		return r
	}
	go w.watchRaft()
	time.Sleep(2 * time.Second)
	s := &storm{w: w, l: loads[0], steps: map[string]int{}, drawn: map[string]int{}}
	if os.Getenv(forgetVariable) != "" {
		s.forget()
	} else {
		s.run(plan(seed, *count))
	}
	w.say("no more faults")
	time.Sleep(5 * time.Second)
	for _, l := range loads {
		l.end()
	}
	for _, l := range loads {
		l.judge()
		jobs, _ := l.history.Count()
		runs, again := l.history.Duplicates()
		r.Jobs, r.Runs, r.Again = r.Jobs+jobs, r.Runs+runs, r.Again+again
		r.Mixed += l.mixed.Acked()
		r.Met.Add(l.mixed.Met())
	}
	w.waitEqual()
	w.compareDisks()
	if w.heavy {
		r.Heavy = 1
	}
	s.report(&r)
	r.Installs, r.Compared, r.Apart = int(w.installs.Load()), w.replicas.Compared(), int(w.bothSides.Load())
	r.Virtual = time.Since(w.began)
	r.Breaches = w.told()
	return r
}
