package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Report is one run.
type Report struct {
	Workload     Workload   `json:"workload"`
	Protocol     Protocol   `json:"protocol"`
	Jobs         int        `json:"jobs"`
	Batch        int        `json:"batch"`
	Connections  int        `json:"connections"`
	Concurrency  int        `json:"concurrency"`
	PayloadBytes int        `json:"payload_bytes"`
	Backlog      int        `json:"backlog,omitempty"`
	Rate         int        `json:"rate,omitempty"`
	Durability   Durability `json:"durability"`
	Machine      Machine    `json:"machine"`
	Phase        Phase      `json:"result"`
	Check        Check      `json:"check"`
	Valid        bool       `json:"valid"`
	Problems     []string   `json:"problems,omitempty"`
	Notes        []string   `json:"notes,omitempty"`
}

// Durability is what the server says about its log.
type Durability struct {
	// Sync is "on", "off" or "unknown".
	Sync string `json:"sync"`
	// Reported: the server said so. Otherwise Sync of a spawned server is how it
	// was started.
	Reported bool `json:"reported"`
	// SyncDelayMS is added to every sync.
	SyncDelayMS float64 `json:"sync_delay_ms"`
	Spawned     bool    `json:"spawned"`
}

func (d Durability) String() string {
	text := map[string]string{"on": "every acknowledged job is synced", "off": "NOT durable: the log is not synced", "unknown": "not reported by the server"}[d.Sync]
	if d.Sync != "unknown" && !d.Reported {
		text += " (as started)"
	}
	if d.SyncDelayMS > 0 {
		text += fmt.Sprintf("; %g ms added to every sync", d.SyncDelayMS)
	} else if d.Spawned {
		text += "; bare disk"
	}
	return text
}

// Phase is what was measured. Negative numbers are not known.
type Phase struct {
	Jobs      int         `json:"jobs"`
	Seconds   float64     `json:"seconds"`
	PerSecond float64     `json:"jobs_per_second"`
	Latency   Percentiles `json:"latency"`

	ServerCPUSeconds   float64 `json:"server_cpu_seconds"`
	ServerCPUMicrosJob float64 `json:"server_cpu_us_per_job"`
	ServerRSSBytes     int64   `json:"server_rss_bytes"`
	ServerPeakRSSBytes int64   `json:"server_peak_rss_bytes"`
	Syncs              int64   `json:"syncs"`
	SyncsPerThousand   float64 `json:"syncs_per_1000_jobs"`
	ClientCPUSeconds   float64 `json:"client_cpu_seconds"`
	// ReadModelLagMaxMS is how late lists were at worst, looked at a few times a second.
	ReadModelLagMaxMS int64 `json:"read_model_lag_max_ms"`
}

func newReport(o Options, d Durability, m Machine) *Report {
	return &Report{Machine: m, Workload: o.Workload, Protocol: o.Protocol, Jobs: o.Jobs, Batch: o.Batch, Connections: o.Connections,
		Concurrency: o.Concurrency, PayloadBytes: o.PayloadBytes, Backlog: o.Backlog, Rate: o.Rate, Durability: d}
}

func newPhase(p *phase, took time.Duration, before, after usage, own time.Duration) Phase {
	done := int(p.done.Load())
	out := Phase{Jobs: done, Seconds: took.Seconds(), PerSecond: float64(done) / took.Seconds(), Latency: p.latency.percentiles(),
		ServerCPUSeconds: -1, ServerCPUMicrosJob: -1, ServerRSSBytes: after.rss, ServerPeakRSSBytes: after.peak, Syncs: -1, SyncsPerThousand: -1,
		ClientCPUSeconds: own.Seconds(), ReadModelLagMaxMS: -1}
	if before.cpu >= 0 && after.cpu >= 0 {
		out.ServerCPUSeconds = (after.cpu - before.cpu).Seconds()
		if done > 0 {
			out.ServerCPUMicrosJob = out.ServerCPUSeconds * 1e6 / float64(done)
		}
	}
	if before.syncs >= 0 && after.syncs >= 0 && done > 0 {
		out.Syncs = after.syncs - before.syncs
		out.SyncsPerThousand = float64(out.Syncs) * 1000 / float64(done)
	}
	return out
}

// inMemory says that a folder is on no disk; empty if it may be on one.
func inMemory(dir string) string {
	if name, memory := storageOf(dir); memory {
		return fmt.Sprintf("%s is memory (%s)", dir, name)
	}
	return ""
}

// durability reads what the server reports; a spawned one was told.
func (t *Target) durability(ctx context.Context, o Options) Durability {
	d := Durability{Sync: "unknown", SyncDelayMS: milliseconds(t.syncDelay), Spawned: t.pid != 0}
	if d.Spawned {
		d.Sync = syncWord(t.relaxed)
	}
	status := t.status(ctx, o)
	if status == nil {
		return d
	}
	d.Sync, d.Reported, d.SyncDelayMS = syncWord(status.RaftNoSync), true, status.SyncDelayMS
	return d
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func syncWord(off bool) string {
	if off {
		return "off"
	}
	return "on"
}

// Machine is where the generator ran; a spawned server shares it.
type Machine struct {
	CPUs int `json:"cpus"`
	// LoadBefore is the load average of the minute before the run; negative when
	// the system does not tell.
	LoadBefore float64 `json:"load_before"`
	Kernel     string  `json:"kernel,omitempty"`
	// FileSystem is that of the data and Commit what was built; a suite knows them.
	FileSystem string `json:"file_system,omitempty"`
	Commit     string `json:"commit,omitempty"`
}

func (m Machine) String() string {
	parts := []string{fmt.Sprintf("%d processors", m.CPUs)}
	for _, p := range [][2]string{{"", m.Kernel}, {"", m.FileSystem}, {"commit ", m.Commit}} {
		if p[1] != "" {
			parts = append(parts, p[0]+p[1])
		}
	}
	return strings.Join(parts, ", ")
}

func thisMachine() Machine {
	m := Machine{CPUs: runtime.NumCPU(), LoadBefore: -1, Kernel: kernelOf()}
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(raw), " ")
		if load, err := strconv.ParseFloat(first, 64); err == nil {
			m.LoadBefore = load
		}
	}
	return m
}

// busy says that others used the machine, so that the numbers are too low.
func (m Machine) busy() string {
	if m.LoadBefore <= float64(m.CPUs)/2 {
		return ""
	}
	return fmt.Sprintf("the machine was busy before the run: load %.1f on %d processors", m.LoadBefore, m.CPUs)
}

// note adds what a reader must know; often nothing.
func (r *Report) note(text string) {
	if text != "" {
		r.Notes = append(r.Notes, text)
	}
}

// WriteText prints the report for people.
func (r *Report) WriteText(w io.Writer) {
	p := r.Phase
	fmt.Fprintln(w, r.title())
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-11s "+format+"\n", append([]any{name}, args...)...)
	}
	row("durability", "%s", r.Durability)
	row("throughput", "%s jobs/s  (%s jobs in %.2f s)", thousands(int64(p.PerSecond)), thousands(int64(p.Jobs)), p.Seconds)
	l := p.Latency
	row("latency", "p50 %.3f  p90 %.3f  p99 %.3f  p99.9 %.3f  max %.3f ms", l.P50, l.P90, l.P99, l.P999, l.Max)
	row("server", "%s", serverText(p))
	if p.ReadModelLagMaxMS >= 0 {
		row("lists", "%d ms late at worst", p.ReadModelLagMaxMS)
	}
	row("client", "%.2f CPU s", p.ClientCPUSeconds)
	row("check", "%s", r.checkText())
	for _, problem := range r.Problems {
		row("", "INVALID: %s", problem)
	}
	for _, note := range r.Notes {
		row("note", "%s", note)
	}
}

func (r *Report) title() string {
	parts := []string{string(r.Workload), string(r.Protocol)}
	if r.Workload != Latency {
		parts = append(parts, fmt.Sprintf("%d × %d callers", r.Connections, r.Concurrency), fmt.Sprintf("%d per call", r.Batch))
	}
	parts = append(parts, fmt.Sprintf("%d-byte payload", r.PayloadBytes))
	if r.Rate > 0 {
		parts = append(parts, thousands(int64(r.Rate))+" a second")
	}
	if r.Backlog > 0 {
		parts = append(parts, thousands(int64(r.Backlog))+" more waiting")
	}
	return strings.Join(parts, " · ")
}

func serverText(p Phase) string {
	var parts []string
	if p.ServerCPUSeconds >= 0 {
		parts = append(parts, fmt.Sprintf("%.2f CPU s (%.1f µs a job, %.0f %% of a core)", p.ServerCPUSeconds, p.ServerCPUMicrosJob, 100*p.ServerCPUSeconds/p.Seconds))
	}
	if p.ServerRSSBytes >= 0 {
		parts = append(parts, fmt.Sprintf("%.0f MB resident", megabytes(p.ServerRSSBytes)))
	}
	if p.ServerPeakRSSBytes >= 0 {
		parts = append(parts, fmt.Sprintf("%.0f MB at most", megabytes(p.ServerPeakRSSBytes)))
	}
	if p.SyncsPerThousand >= 0 {
		parts = append(parts, fmt.Sprintf("%.1f syncs per 1,000 jobs", p.SyncsPerThousand))
	}
	if len(parts) == 0 {
		return "not reported"
	}
	return strings.Join(parts, "; ")
}

func (r *Report) checkText() string {
	c := r.Check
	verdict := "VALID"
	if !r.Valid {
		verdict = "INVALID"
	}
	return fmt.Sprintf("%s: %s in, %s out, %d lost, %d twice, %d unexpected, %d acks refused", verdict,
		thousands(int64(c.Enqueued)), thousands(int64(c.Delivered)), c.Lost, c.Duplicated, c.Unexpected, c.Refused)
}

// thousands groups digits: 12,345.
func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
