package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Suite measures the limits of the machine, then the table of aims, each row on a
// fresh server of its own and beside its peers.
type Suite struct {
	Binary string
	// Cloud is the corvo-cloud binary; empty leaves out the rows that need it.
	Cloud string
	// Peers is the program that measures other queues; empty leaves them out.
	Peers string
	Quick bool   // A tenth of the work, no large backlogs.
	Only  string // Only rows whose name contains this.

	Progress func(phase string, done, total int)
	RowDone  func(Row)

	limits   *Calibration
	peerRuns map[peerKey]*PeerRun
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
	Peers  []*PeerRun `json:"peers,omitempty"`
	Report *Report    `json:"report,omitempty"`
}

// SuiteResult is the whole table.
type SuiteResult struct {
	Machine     Machine      `json:"machine"`
	Quick       bool         `json:"quick"`
	Calibration *Calibration `json:"calibration"`
	Rows        []Row        `json:"rows"`
	// Valid: no row lost or duplicated a job. Missing an aim does not make a
	// result invalid.
	Valid bool `json:"valid"`
}

// Note says what a reader of the table must know; often nothing.
func (r *SuiteResult) Note() string { return r.Machine.busy() }

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
		cells[6] = fmt.Sprintf("%d MB", r.Report.Phase.ServerRSSBytes>>20)
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
		return "INVALID: " + strings.Join(r.Report.Problems, "; ")
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

// quickDivisor is how much less work --quick does.
const quickDivisor = 10

// Run measures every row. It stops at the first that cannot be measured at all.
func (s *Suite) Run(ctx context.Context) (*SuiteResult, error) {
	s.peerRuns = make(map[peerKey]*PeerRun)
	result := &SuiteResult{Valid: true, Machine: thisMachine(), Quick: s.Quick}
	var err error
	if s.limits, err = s.calibrate(ctx); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	result.Calibration = s.limits
	for _, sc := range scenarios() {
		if !s.wants(sc.name) || sc.nodes > 0 && s.Cloud == "" {
			continue
		}
		rows, err := s.scenario(ctx, sc)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sc.name, err)
		}
		s.add(result, rows...)
	}
	for _, special := range s.specials() {
		if !s.wants(special.name) {
			continue
		}
		rows, err := special.measure(ctx)
		s.add(result, rows...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", special.name, err)
		}
	}
	return result, nil
}

func (s *Suite) wants(name string) bool { return strings.Contains(name, s.Only) }

func (s *Suite) add(result *SuiteResult, rows ...Row) {
	for _, row := range rows {
		result.Rows = append(result.Rows, row)
		result.Valid = result.Valid && (row.Report == nil || row.Report.Valid)
		if s.RowDone != nil {
			s.RowDone(row)
		}
	}
}

// scenario runs one, then its peers, so that they meet the machine in the same state.
func (s *Suite) scenario(ctx context.Context, sc scenario) ([]Row, error) {
	report, err := s.measure(ctx, sc)
	if err != nil {
		return nil, err
	}
	m := measured{report: report, limits: s.limits}
	if sc.base != "" {
		if m.base, err = s.again(ctx, sc.base); err != nil {
			return nil, err
		}
	}
	if s.Peers != "" {
		for _, peer := range sc.peers {
			run, err := s.peerRun(ctx, peerKey{peer, sc.options.Workload, sc.callers(), sc.syncDelay})
			if err != nil {
				return nil, err
			}
			m.peers = append(m.peers, run)
		}
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
	if err == nil && !report.Valid {
		err = fmt.Errorf("%s, to compare with: INVALID: %s", name, strings.Join(report.Problems, "; "))
	}
	return report, err
}

func (s *Suite) measure(ctx context.Context, sc scenario) (report *Report, err error) {
	o := sc.options
	o.Jobs = s.work(o.Jobs)
	o.Progress = s.Progress
	spawn := SpawnOptions{Binary: s.Binary, SyncDelay: sc.syncDelay, Nodes: sc.nodes}
	if sc.nodes > 0 {
		spawn.Binary = s.Cloud
	}
	target, err := Spawn(ctx, spawn)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	return Run(ctx, o, target)
}
