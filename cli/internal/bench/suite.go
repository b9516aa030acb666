package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Suite measures the limits of the machine, then the table of aims, each row on a
// fresh server of its own and beside its peers.
type Suite struct {
	Binary string
	// Cloud is the corvo-cloud binary; empty leaves out the rows that need it.
	Cloud string
	// Peers is the program that measures other queues; empty leaves them out.
	Peers string
	// Dir is where data goes; empty is the system's folder for temporary files.
	Dir string
	// Commit is what was built, as the caller knows it.
	Commit string
	Quick  bool   // A tenth of the work, no large backlogs.
	Only   string // Only work whose name contains this.

	Progress func(phase string, done, total int)
	RowDone  func(Row)

	limits   *Calibration
	peerRuns map[peerKey]*PeerRun // The latest of each.
	patience time.Duration        // How long a peer may take; 0 is peerMax.
}

// work is how much of a fixed amount is done.
func (s *Suite) work(jobs int) int {
	if s.Quick {
		return max(200, jobs/quickDivisor)
	}
	return jobs
}

// Row is one measured number beside its aim.
type Row struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"`
	Measured float64 `json:"measured"`
	Aim      float64 `json:"aim"`
	// AtMost: smaller is better.
	AtMost bool `json:"at_most"`
	Met    bool `json:"met"`
	Known  bool `json:"known"` // False when what this row needs was not measured.
	// Limit is the lowest limit of the machine that applies to this throughput, and
	// Share how much of it was reached, in percent.
	Limit *Limit  `json:"limit,omitempty"`
	Share float64 `json:"share_percent,omitempty"`
	// Peers did the same work in the same run.
	Peers []*PeerRun `json:"peers,omitempty"`
	// Problems are why this row says nothing, beyond those of its report.
	Problems []string `json:"problems,omitempty"`
	Report   *Report  `json:"report,omitempty"`
}

// valid: what the row says was measured on queues that kept their promises.
func (r Row) valid() bool {
	broken := slices.ContainsFunc(r.Peers, func(p *PeerRun) bool { return !p.Valid })
	return len(r.Problems) == 0 && !broken && (r.Report == nil || r.Report.Valid)
}

// SuiteResult is the whole table.
type SuiteResult struct {
	Machine     Machine      `json:"machine"`
	Quick       bool         `json:"quick"`
	Calibration *Calibration `json:"calibration"`
	Rows        []Row        `json:"rows"`
	Skipped     []Skipped    `json:"skipped,omitempty"`
	// Valid: all rows were measured, and no queue lost or duplicated a job. Missing an aim
	// does not make a result invalid.
	Valid bool `json:"valid"`
}

// Notes are what stands below the table: where it was measured, with which peers, what was left out.
func (r *SuiteResult) Notes() []string {
	notes := []string{"measured: " + r.Machine.String()}
	earlier := false
	for _, row := range r.Rows {
		for _, p := range row.Peers {
			if note := fmt.Sprintf("%s: %s", p.Peer, p.Version); p.Version != "" && !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
			earlier = earlier || p.Earlier
		}
	}
	if earlier {
		notes = append(notes, earlierMark+" measured beside an earlier row with as many callers")
	}
	for _, s := range r.Skipped {
		notes = append(notes, fmt.Sprintf("skipped: %s: %s", s.Name, s.Why))
	}
	if busy := r.Machine.busy(); busy != "" {
		notes = append(notes, busy)
	}
	return notes
}

// RowHeader is the header of Cells.
func RowHeader() []string {
	return []string{"WORK", "AIM", "MEASURED", "OF LIMIT", "PEERS (OURS ÷ THEIRS)", "SERVER CPU", "MEMORY", "VERDICT"}
}

// Cells is the row for a table.
func (r Row) Cells() []string {
	cells := []string{r.Name, r.bound(), "not measured", "-", "-", "-", "-", r.verdict()}
	if r.Known {
		cells[2] = number(r.Measured, r.Unit)
	}
	if r.Limit != nil {
		cells[3] = fmt.Sprintf("%.0f %% of %s", r.Share, r.Limit.Name)
	}
	var peers []string
	for _, p := range r.Peers {
		text := p.String()
		if p.Valid && r.Known {
			text += fmt.Sprintf(" (%.2f×)", r.Measured/p.PerSecond)
		}
		peers = append(peers, text)
	}
	if len(peers) > 0 {
		cells[4] = strings.Join(peers, ", ")
	}
	// A row about another row's run repeats nothing of it.
	if r.Report != nil && r.Unit == "jobs/s" && r.Report.Phase.ServerCPUMicrosJob >= 0 {
		cells[5] = fmt.Sprintf("%.1f µs/job", r.Report.Phase.ServerCPUMicrosJob)
	}
	if r.Report != nil && r.Unit == "jobs/s" && r.Report.Phase.ServerRSSBytes >= 0 {
		cells[6] = fmt.Sprintf("%.0f MB", megabytes(r.Report.Phase.ServerRSSBytes))
	}
	return cells
}

func (r Row) bound() string {
	switch {
	case r.Aim == 0:
		return "-"
	case r.AtMost:
		return "≤ " + number(r.Aim, r.Unit)
	default:
		return "≥ " + number(r.Aim, r.Unit)
	}
}

func (r Row) String() string {
	c := r.Cells()
	return fmt.Sprintf("%s: %s (aim %s) %s", c[0], c[2], c[1], r.verdict())
}

func (r Row) verdict() string {
	switch {
	case r.Report != nil && !r.Report.Valid:
		return "INVALID: " + strings.Join(append(slices.Clone(r.Report.Problems), r.Problems...), "; ")
	case len(r.Problems) > 0:
		return "INVALID: " + strings.Join(r.Problems, "; ")
	case !r.Known || r.Aim == 0:
		return "-"
	case r.Met:
		return "met"
	case r.AtMost:
		return fmt.Sprintf("missed (%.2f×)", r.Measured/r.Aim)
	default:
		return fmt.Sprintf("missed (%.0f %%)", 100*r.Measured/r.Aim)
	}
}

func number(v float64, unit string) string {
	switch {
	case unit == "jobs/s":
		return thousands(int64(v)) + " " + unit
	case unit == "×":
		return fmt.Sprintf("%.2f×", v)
	case v >= 100 || v == float64(int64(v)):
		return fmt.Sprintf("%.0f %s", v, unit)
	default:
		return fmt.Sprintf("%.3g %s", v, unit)
	}
}

// megabyte is that of the aims.
const megabyte = 1e6

func megabytes(bytes int64) float64 { return float64(bytes) / megabyte }

// quickDivisor is how much less work --quick does.
const quickDivisor = 10

// work is what fills some rows of the table, under the name that Only looks at.
type work struct {
	name    string
	cloud   bool // It needs corvo-cloud.
	peers   bool // Peers do it too.
	large   bool // Quick leaves it out.
	measure func(ctx context.Context) ([]Row, error)
}

func (s *Suite) works() []work {
	var all []work
	for _, sc := range scenarios() {
		all = append(all, work{name: sc.name, cloud: sc.nodes > 0, peers: len(sc.peers) > 0, measure: func(ctx context.Context) ([]Row, error) { return s.scenario(ctx, sc) }})
	}
	all = append(all, work{name: idleName, cloud: true, measure: s.idle})
	for _, b := range burdens() {
		all = append(all, work{name: b.name, large: true, measure: func(ctx context.Context) ([]Row, error) { return s.burdened(ctx, b) }})
	}
	return all
}

// Skipped is work that was asked for and left out.
type Skipped struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// skips says why work can't be done; empty if it can.
func (s *Suite) skips(w work) string {
	switch {
	case w.cloud && s.Cloud == "":
		return "corvo-cloud is not in the directory of corvo"
	case w.large && s.Quick:
		return "--quick leaves out large backlogs"
	}
	return ""
}

// ErrNoWork is matched when Only leaves nothing to do.
var ErrNoWork = errors.New("nothing to measure")

func (s *Suite) chosen() (chosen []work, skipped []Skipped, err error) {
	var names []string
	for _, w := range s.works() {
		names = append(names, w.name)
		if !strings.Contains(w.name, s.Only) {
			continue
		}
		if why := s.skips(w); why != "" {
			skipped = append(skipped, Skipped{w.name, why})
			continue
		}
		chosen = append(chosen, w)
	}
	switch {
	case len(chosen) == 0 && len(skipped) > 0:
		err = fmt.Errorf("%w: %s: %s", ErrNoWork, skipped[0].Name, skipped[0].Why)
	case len(chosen) == 0:
		err = fmt.Errorf("%w: no name contains %q; the names are\n  %s", ErrNoWork, s.Only, strings.Join(names, "\n  "))
	}
	return chosen, skipped, err
}

// Run measures every row. What can't be measured is a row with a problem. An error means that
// there is no result, or, if there is one too, that ctx ended before the last row.
func (s *Suite) Run(ctx context.Context) (*SuiteResult, error) {
	chosen, skipped, err := s.chosen()
	if err != nil {
		return nil, err
	}
	if s.Peers != "" && slices.ContainsFunc(chosen, func(w work) bool { return w.peers }) { // Not half an hour later.
		if _, err := exec.LookPath(s.Peers); err != nil {
			return nil, fmt.Errorf("find the program that measures peers: %w", err)
		}
	}
	if s.Dir != "" { // Peers run in folders of their own.
		if s.Dir, err = filepath.Abs(s.Dir); err != nil {
			return nil, fmt.Errorf("find %s: %w", s.Dir, err)
		}
	}
	if why := inMemory(os.TempDir()); why != "" && s.Dir == "" { // Who names a folder knows it.
		return nil, errors.New(why + ", so no sync would be measured: give a folder on a disk (--data-dir)")
	}
	s.peerRuns = make(map[peerKey]*PeerRun)
	result := &SuiteResult{Valid: true, Machine: s.machine(), Quick: s.Quick, Skipped: skipped}
	if s.limits, err = s.calibrate(ctx); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	result.Calibration = s.limits
	return result, s.measureAll(ctx, chosen, result)
}

func (s *Suite) machine() Machine {
	m := thisMachine()
	m.Commit = s.Commit
	var memory bool
	if m.FileSystem, memory = storageOf(cmp.Or(s.Dir, os.TempDir())); memory {
		m.FileSystem += " (memory: no sync was measured)"
	}
	return m
}

func (s *Suite) measureAll(ctx context.Context, chosen []work, result *SuiteResult) error {
	for _, w := range chosen {
		rows, err := w.measure(ctx)
		if ctx.Err() != nil {
			result.Valid = false
			return ctx.Err()
		}
		if err != nil {
			rows = append(rows, Row{Name: w.name, Problems: []string{"not measured: " + err.Error()}})
		}
		s.add(result, rows...)
	}
	return nil
}

func (s *Suite) add(result *SuiteResult, rows ...Row) {
	for _, row := range rows {
		result.Rows = append(result.Rows, row)
		result.Valid = result.Valid && row.valid()
		if s.RowDone != nil {
			s.RowDone(row)
		}
	}
}

// scenario runs one, then what it is compared with, so that they meet the machine in the same
// state. A run to compare with that failed is a problem of the rows that need it.
func (s *Suite) scenario(ctx context.Context, sc scenario) ([]Row, error) {
	report, err := s.measure(ctx, sc)
	if err != nil {
		return nil, err
	}
	m := measured{report: report, limits: s.limits}
	if sc.base != "" {
		m.compare(s.again(ctx, sc.base))
	}
	if s.Peers != "" {
		m.peers = s.measurePeers(ctx, sc)
	}
	var rows []Row
	for _, a := range sc.aims {
		row := a.row(sc.name, m)
		if row.Unit == "jobs/s" {
			row.Peers = m.peers
			if row.Limit = sc.limit(s.limits); row.Limit != nil {
				row.Share = percent(row.Measured, row.Limit.Value)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// again runs the scenario that another one is compared with, right after that one: the machine is
// not as fast at one moment as at another.
func (s *Suite) again(ctx context.Context, name string) (*Report, error) {
	all := scenarios()
	base := all[slices.IndexFunc(all, func(sc scenario) bool { return sc.name == name })] // A test looks for it.
	report, err := s.measure(ctx, base)
	return sound(report, name, err)
}

// sound refuses to compare with a run that lost jobs or handed them out twice.
func sound(report *Report, name string, err error) (*Report, error) {
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s, to compare with: %w", name, err)
	case !report.Valid:
		return nil, fmt.Errorf("%s, to compare with: INVALID: %s", name, strings.Join(report.Problems, "; "))
	}
	return report, nil
}

// compare takes a run to compare with, or why there is none.
func (m *measured) compare(base *Report, err error) {
	m.base = base
	if err != nil {
		m.problems = append(m.problems, err.Error())
	}
}

// runRow is Run without a note that the machine was busy: it was, with the row before.
func runRow(ctx context.Context, o Options, target *Target) (*Report, error) {
	r, err := prepare(o, target)
	if err != nil {
		return nil, err
	}
	return r.report(ctx)
}

func (s *Suite) measure(ctx context.Context, sc scenario) (report *Report, err error) {
	o := sc.options
	o.Jobs = s.work(o.Jobs)
	o.Progress = s.Progress
	spawn := SpawnOptions{Binary: s.Binary, SyncDelay: sc.syncDelay, Nodes: sc.nodes, Under: s.Dir}
	if sc.nodes > 0 {
		spawn.Binary = s.Cloud
	}
	target, err := Spawn(ctx, spawn)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	return runRow(ctx, o, target)
}
