package readmodel

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/feed"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Cause is why a job is dead: the queue and the error, without its varying parts. Dead
// jobs with the same cause form a group. 0 is the cause of jobs that are not dead.
type Cause int64

// String is the group's name on the wire.
func (c Cause) String() string { return fmt.Sprintf("%016x", int64(c)) }

// ParseCause reads what String wrote.
func ParseCause(text string) (Cause, bool) {
	n, err := strconv.ParseInt(text, 16, 64)
	return Cause(n), err == nil && n > 0 && Cause(n).String() == text
}

// patternBytesMax is how much of an error's first line distinguishes causes.
const patternBytesMax = 200

// causeOf is the cause of a job that died in queue for reason, after lastError.
func causeOf(queue, lastError string, reason records.DeadReason) Cause {
	text := pattern(lastError, reason)
	h := xxhash.New()
	_, _ = h.WriteString(queue) // A hash never fails.
	_, _ = h.Write([]byte{0})
	if text == "" {
		_, _ = h.Write([]byte{0, byte(reason)})
	}
	_, _ = h.WriteString(text)
	return Cause(max(h.Sum64()>>1, 1))
}

// pattern is what the errors of a cause have in common. It is "" if the last error is not
// what ended the job; then the reason says why.
func pattern(lastError string, reason records.DeadReason) string {
	switch reason {
	case records.DeadRetries, records.DeadTerminal, records.DeadCrashes:
		return ErrorPattern(lastError)
	default:
		return ""
	}
}

// ErrorPattern is the first line of an error with "…" for its varying parts:
// numbers, ids, memory addresses and quoted values. HTTP and SMTP statuses stay.
func ErrorPattern(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	line = cutTo(strings.TrimSpace(line), patternBytesMax)
	var out strings.Builder
	for i := 0; i < len(line); {
		n := quoted(line, i)
		if n > 0 {
			out.WriteString(line[i:i+1] + "…" + line[i:i+1])
			i += n
			continue
		}
		if n = wordAt(line, i); n == 0 {
			out.WriteByte(line[i])
			i++
			continue
		}
		if i+uuidLen <= len(line) && isUUID(line[i:i+uuidLen]) && wordAt(line, i+uuidLen) == 0 {
			out.WriteString("…")
			i += uuidLen
			continue
		}
		if k := numberAt(line, i, n); k > 0 {
			out.WriteString(number(line, i, k))
			i += k
			continue
		}
		if i > 0 && line[i-1] == '.' && all(line[i:i+n], isDigit) {
			out.WriteString(line[i : i+n]) // Of a version.
		} else {
			writeWord(&out, line[i:i+n])
		}
		i += n
	}
	return out.String()
}

// quoted is the length of the quoted value at i, 0 if there is none. An apostrophe
// inside a word is not a quote.
func quoted(line string, i int) int {
	q := line[i]
	if q != '"' && q != '\'' && q != '`' || i > 0 && isWord(line[i-1]) {
		return 0
	}
	for j := i + 1; j < len(line); j++ {
		if line[j] == q && (j+1 == len(line) || !isWord(line[j+1])) {
			return j + 1 - i
		}
	}
	return 0
}

// isWord: bytes of other alphabets are letters.
func isWord(c byte) bool {
	return c == '_' || isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// wordAt is the length of the word at i.
func wordAt(line string, i int) int {
	n := 0
	for i+n < len(line) && isWord(line[i+n]) {
		n++
	}
	return n
}

func all(s string, is func(byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}

const uuidLen = 36

func isUUID(s string) bool {
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && !isHex(s[i]) {
			return false
		}
	}
	return true
}

// numberAt is the length of the number at i whose first word has n bytes: digits, with
// dots between them.
func numberAt(line string, i, n int) int {
	if !all(line[i:i+n], isDigit) || i > 0 && line[i-1] == '.' {
		return 0
	}
	for i+n+1 < len(line) && line[i+n] == '.' && isDigit(line[i+n+1]) {
		k := wordAt(line, i+n+1)
		if !all(line[i+n+1:i+n+1+k], isDigit) {
			break
		}
		n += 1 + k
	}
	return n
}

func number(line string, i, n int) string {
	if s := line[i : i+n]; n == 3 && all(s, isDigit) && s[0] >= '2' && s[0] <= '5' && (i == 0 || line[i-1] != '-') {
		return s // A status distinguishes errors.
	}
	return "…"
}

// writeWord writes a word with "…" for an id, and for numbers at its start or after an
// underscore: 30s, user_17.
func writeWord(out *strings.Builder, w string) {
	prefix, rest, named := strings.Cut(w, "_")
	switch {
	case named && idPrefixes[prefix] && rest != "",
		len(w) > 2 && w[0] == '0' && w[1]|0x20 == 'x' && all(w[2:], isHex),
		len(w) >= 8 && all(w, isHex) && strings.ContainsAny(w, "0123456789"):
		out.WriteString("…")
		return
	}
	for i := 0; i < len(w); {
		n := i
		for n < len(w) && isDigit(w[n]) {
			n++
		}
		switch {
		case n > i && (isDigit(w[0]) || w[i-1] == '_'):
			out.WriteString("…")
			i = n
		case n > i:
			out.WriteString(w[i:n])
			i = n
		default:
			out.WriteByte(w[i])
			i++
		}
	}
}

// idPrefixes are those of our own ids.
var idPrefixes = map[string]bool{"job": true, "batch": true, "chn": true, "sched": true, "budget": true, "apol": true, "bulk": true}

// CauseNow is the cause of a job in the state; 0 if it is not dead.
func CauseNow(store *statedb.Group, ns job.Namespace, id job.ID, h *records.Head) (Cause, error) {
	if h.State != job.Dead {
		return 0, nil
	}
	text, err := lastError(store, ns, id, h)
	return causeOf(h.Queue, text, h.Reason), err
}

// DeadGroup is the dead jobs with one cause.
type DeadGroup struct {
	Cause       Cause
	Queue       string
	Pattern     string // "" if Reason says it all.
	Reason      records.DeadReason
	Jobs        int64
	First, Last int64 // When the first and the latest of them died.
	// Sample is the job that died last, and SampleError its error.
	Sample      job.ID
	SampleError string
}

// DeadGroups are the largest groups of a namespace, and the totals of all.
type DeadGroups struct {
	Page
	Groups []DeadGroup // The largest first.
	// All groups, and the dead jobs in them.
	All  int
	Jobs int64
}

// DeadGroupsMax bounds how many groups one call returns.
const DeadGroupsMax = 1000

// DeadGroups reads the largest groups of dead jobs, of one queue or ("") of all, or of all
// that match a pattern of only.
func (p *Projector) DeadGroups(ctx context.Context, ns job.Namespace, by Reader, queue string, only []string, limit int) (DeadGroups, error) {
	m, err := feed.MarkOf(p.store, ns)
	if err != nil {
		return DeadGroups{}, err
	}
	out := DeadGroups{Page: p.freshen(ctx, ns, m.Seq)}
	gone, err := stateread.ReadDeletedQueues(p.store, ns)
	if err != nil {
		return DeadGroups{}, err
	}
	err = p.query(ctx, ns, by, func(ctx context.Context, db *sql.DB, _ func() bool) error {
		return out.read(ctx, db, queuesOf(queue, only), limit, gone)
	})
	return out, err
}

// read adds up the totals of queues and looks up the largest groups in one read
// transaction, so that no group disappears in between.
func (d *DeadGroups) read(ctx context.Context, db *sql.DB, queues []string, limit int, gone map[string]stateread.DeletedQueue) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("read causes: %w", err)
	}
	defer func() { err = errors.Join(err, finish(tx, err)) }()
	if err := d.readTotals(ctx, tx, queues, gone); err != nil {
		return err
	}
	largest, err := largestGroups(ctx, tx, queues, limit, gone)
	if err != nil {
		return err
	}
	for _, g := range largest {
		one, err := lookAt(ctx, tx, g)
		if err != nil {
			return err
		}
		d.Groups = append(d.Groups, one)
	}
	return nil
}

// queuesOf is a queue, if there is one, as a pattern: names have no *.
func queuesOf(queue string, only []string) []string {
	if queue != "" {
		return []string{queue}
	}
	return only
}

// isGone reports whether the jobs of the group are those of a deleted queue.
func (g groupKey) isGone(gone map[string]stateread.DeletedQueue) bool {
	q, deleted := gone[g.queue]
	return deleted && !q.Has(g.generation, false)
}

// readTotals reads a row per queue, however many groups there are.
func (d *DeadGroups) readTotals(ctx context.Context, tx *sql.Tx, queues []string, gone map[string]stateread.DeletedQueue) error {
	s := &statement{}
	s.add(`SELECT queue, generation, causes, jobs FROM dead_total`)
	s.inQueues(` WHERE `, `queue`, queues)
	return s.each(ctx, tx, "count dead jobs", func(rows *sql.Rows) (bool, error) {
		var q groupKey
		var causes, jobs int64
		err := rows.Scan(&q.queue, &q.generation, &causes, &jobs)
		if !q.isGone(gone) {
			d.All += int(causes)
			d.Jobs += jobs
		}
		return true, err
	})
}

// goneGroupsMax is how many groups of deleted queues are skipped; groups after them are
// counted, and listed once the deleted queues' jobs are swept.
const goneGroupsMax = 50_000

// sized is a group and how many jobs are in it.
type sized struct {
	groupKey
	jobs int64
}

// largestGroups walks the groups by size, no further than it has to.
func largestGroups(ctx context.Context, tx *sql.Tx, queues []string, limit int, gone map[string]stateread.DeletedQueue) (out []sized, err error) {
	s := &statement{}
	s.add(`SELECT queue, generation, cause, jobs FROM cause`)
	s.inQueues(` WHERE `, `queue`, queues)
	s.add(` ORDER BY jobs DESC, cause, generation LIMIT ?`, limit+goneGroupsMax)
	err = s.each(ctx, tx, "read causes", func(rows *sql.Rows) (bool, error) {
		var g sized
		err := rows.Scan(&g.queue, &g.generation, &g.cause, &g.jobs)
		if !g.isGone(gone) {
			out = append(out, g)
		}
		return len(out) < limit, err
	})
	return out, err
}

// lookAt reads the oldest and the latest job of the group.
func lookAt(ctx context.Context, tx *sql.Tx, g sized) (DeadGroup, error) {
	out := DeadGroup{Cause: g.cause, Queue: g.queue, Jobs: g.jobs}
	const of = ` WHERE d.cause = ? AND d.generation = ? ORDER BY d.finished_at `
	key := []any{int64(g.cause), int64(g.generation)}
	err := tx.QueryRowContext(ctx, `SELECT d.finished_at FROM dead d`+of+`ASC LIMIT 1`, key...).Scan(&out.First)
	if err != nil {
		return DeadGroup{}, fmt.Errorf("first of cause %s: %w", g.cause, missing(err))
	}
	var id []byte
	var reason uint8
	err = tx.QueryRowContext(ctx, `SELECT d.finished_at, j.id, j.last_error, j.reason FROM dead d CROSS JOIN job j ON j.id = d.id`+of+`DESC LIMIT 1`, key...).
		Scan(&out.Last, &id, &out.SampleError, &reason)
	if err != nil {
		return DeadGroup{}, fmt.Errorf("last of cause %s: %w", g.cause, missing(err))
	}
	if len(id) != len(out.Sample) {
		return DeadGroup{}, fmt.Errorf("%w: last of cause %s has an id of %d bytes", errDamaged, g.cause, len(id))
	}
	out.Sample, out.Reason = job.ID(id), records.DeadReason(reason)
	out.Pattern = pattern(out.SampleError, out.Reason)
	return out, nil
}

// missing is err, or errDamaged if a counted group has no job.
func missing(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}
