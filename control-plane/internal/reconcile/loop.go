package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/audit"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// SendMail sends the email of an outbox row.
type SendMail func(ctx context.Context, row store.Outbox) error

// Options of a Loop. Zero values are what production uses.
type Options struct {
	Log *slog.Logger
	Now func() time.Time
	// CellAhead is how far the time of a cell is ahead of Now; 0 by default.
	CellAhead func(ctx context.Context, cell string) time.Duration
	// Limits of a tenant as they are now, what is held back among them; nil: none are limited.
	Limits func(ctx context.Context, tx *store.Tx, t store.Tenant) (*cellv1.Limits, error)
	// TokenKeys are the public keys that every cell should have, and no others; nil
	// leaves the cells' keys alone.
	TokenKeys func(ctx context.Context, tx *store.Tx) ([]*cellv1.TokenKey, error)
	// MailRefused reports whether an error means that an email must not be retried.
	MailRefused func(error) bool
	// MailLocked reports whether an error lasts until this process's settings change:
	// the email is parked, and retried every LockedFor.
	MailLocked func(error) bool
	LockedFor  time.Duration
	// Audit are the keys that sign heads of the audit logs, of which entries are kept for
	// AuditRetention; nil signs and deletes nothing.
	Audit          *audit.Keys
	AuditRetention time.Duration
	// Ask is how long a cell may take for one answer. One without a leader takes all of it.
	Ask time.Duration
	// Claim is how long a row belongs to one loop. Work on a row is given up at half
	// of it.
	Claim time.Duration
	// Poll is how often a loop looks for what a process that died left behind, or one
	// without a loop wrote. Other writers wake their own loop, and so does the end of a
	// backoff.
	Poll time.Duration
	// Scan is how often records without an outbox row are checked; Compare how
	// often cells are asked for their state.
	Scan, Compare time.Duration
	// Acts is how often administrative acts are fetched from cells while nobody reads an
	// audit log.
	Acts time.Duration
	// Sightings is how often the cells are asked which keys are in use and who was refused.
	Sightings time.Duration
	// Usage is how often cells are asked what they counted for billing.
	Usage time.Duration
	// Guard is how long a cell's answer counts that this database is not an older copy.
	Guard time.Duration
	// BackoffMin doubles with every failure up to BackoffMax.
	BackoffMin, BackoffMax time.Duration
	// ParkAfter refusals a row is parked: retried only every ParkFor.
	ParkAfter int
	ParkFor   time.Duration
}

func (o *Options) fill() {
	o.Claim = cmp.Or(o.Claim, 30*time.Second)
	o.Ask = cmp.Or(o.Ask, 10*time.Second)
	o.Poll = cmp.Or(o.Poll, 2*time.Second)
	o.Scan = cmp.Or(o.Scan, time.Minute)
	o.Compare = cmp.Or(o.Compare, 10*time.Minute)
	o.Acts = cmp.Or(o.Acts, 10*time.Second)
	o.Sightings = cmp.Or(o.Sightings, 10*time.Second)
	o.Usage = cmp.Or(o.Usage, 15*time.Second)
	o.AuditRetention = cmp.Or(o.AuditRetention, audit.RetentionDefault)
	o.BackoffMin = cmp.Or(o.BackoffMin, 200*time.Millisecond)
	o.BackoffMax = cmp.Or(o.BackoffMax, 15*time.Second)
	o.Guard = cmp.Or(o.Guard, 5*time.Second)
	o.LockedFor = cmp.Or(o.LockedFor, time.Minute)
	o.ParkFor = cmp.Or(o.ParkFor, 10*time.Minute)
	o.ParkAfter = cmp.Or(o.ParkAfter, 8)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.CellAhead == nil {
		o.CellAhead = func(context.Context, string) time.Duration { return 0 }
	}
	if o.Limits == nil {
		o.Limits = func(context.Context, *store.Tx, store.Tenant) (*cellv1.Limits, error) { return nil, nil }
	}
	if o.MailLocked == nil {
		o.MailLocked = func(error) bool { return false }
	}
	if o.MailRefused == nil {
		o.MailRefused = func(error) bool { return false }
	}
}

const (
	// claimMax rows are taken at a time.
	claimMax = 100
	// healthEvery is how old Health may be.
	healthEvery = 5 * time.Second
	// carriersMax tenants are carried at a time, and mailersMax emails.
	carriersMax = 16
	mailersMax  = 4
)

// Loop carries changes out. Make it with New, run it with Run.
type Loop struct {
	store  store.Store
	cells  map[string]Cell
	mail   SendMail
	o      Options
	holder string

	wakeCells, wakeMail chan struct{}
	waits               waitBook
	readers             map[string]*readerBook // By a cell's name.
	health              healthBook
	kept                keptRows
	shards              sync.Map // Of a cell by its name: []uint32.
	guards              sync.Map // By a cell's name: guarded.
	refills             sync.Map // By a recovered cell's name: refill.
}

// keptRows are rows that could not be given back because the database was
// unavailable. The first claim that succeeds gives them back; otherwise they would
// wait until their claim ends.
type keptRows struct {
	mu   sync.Mutex
	rows []store.Outbox // With their outcome as LastError. Guarded by mu.
}

func (k *keptRows) add(rows ...store.Outbox) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows = append(k.rows, rows...)
}

func (k *keptRows) take() []store.Outbox {
	k.mu.Lock()
	defer k.mu.Unlock()
	rows := k.rows
	k.rows = nil
	return rows
}

// New makes a Loop over the cells by their names.
func New(s store.Store, cells map[string]Cell, mail SendMail, o Options) *Loop {
	o.fill()
	holder, _ := seal.NewToken("loop_") // A unique name; it need not be secret.
	l := &Loop{
		store: s, cells: make(map[string]Cell), mail: mail, o: o, holder: holder[:20],
		wakeCells: make(chan struct{}, 1), wakeMail: make(chan struct{}, 1), waits: newWaitBook(),
		readers: make(map[string]*readerBook),
	}
	for name, cell := range cells {
		l.cells[name] = limited{cell, o.Ask}
		l.readers[name] = &readerBook{news: make(chan struct{}, 1)}
	}
	return l
}

// Wake makes the loop read the outbox at once; it does not block.
func (l *Loop) Wake() {
	for _, c := range []chan struct{}{l.wakeCells, l.wakeMail} {
		select {
		case c <- struct{}{}:
		default: // It is already awake.
		}
	}
}

// Run works until ctx ends, and returns when all it began has ended.
func (l *Loop) Run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { l.claimAll(ctx, l.wakeCells, carriersMax, byTenant, l.carry, cellKinds...) })
	parts.Go(func() { l.claimAll(ctx, l.wakeMail, mailersMax, oneByOne, l.send, store.OutboxMail) })
	parts.Go(func() { l.Watch(ctx) })
	parts.Go(func() { l.every(ctx, l.o.Scan, l.scan) })
	parts.Go(func() { l.every(ctx, l.o.Compare, l.compareCells) })
	for name, cell := range l.cells {
		parts.Go(func() { l.tend(ctx, name, cell) })
	}
	parts.Go(func() { l.every(ctx, l.o.Scan, l.sweep) })
	parts.Go(func() { l.every(ctx, l.o.Scan, l.tendAudit) })
	parts.Go(func() { l.every(ctx, min(l.o.Scan, healthEvery), l.takeHealth) })
	parts.Wait()
}

// tend does what is done to each cell on its own, so that one that is away holds up no other.
func (l *Loop) tend(ctx context.Context, name string, cell Cell) {
	var parts sync.WaitGroup
	parts.Go(func() {
		l.every(ctx, l.o.Guard, func(ctx context.Context) error { return l.keepGuard(ctx, name, cell) })
	})
	parts.Go(func() {
		l.everyOr(ctx, l.o.Acts, l.readers[name].news, func(ctx context.Context) error { return l.takeActs(ctx, name, cell) })
	})
	parts.Go(func() { l.every(ctx, l.o.Sightings, newSighter(l, name, cell).take) })
	parts.Go(func() { l.every(ctx, l.o.Usage, newMeter(l, name, cell).take) })
	parts.Wait()
}

var cellKinds = []store.OutboxKind{store.OutboxTenant, store.OutboxNamespace, store.OutboxKey, store.OutboxAccess, store.OutboxUser, store.OutboxTokenKeys}

// every runs f about once per period, and sooner after a failure: at the start cells
// may not be up yet.
func (l *Loop) every(ctx context.Context, period time.Duration, f func(context.Context) error) {
	l.everyOr(ctx, period, nil, f)
}

// everyOr also runs f when it is woken.
func (l *Loop) everyOr(ctx context.Context, period time.Duration, wake <-chan struct{}, f func(context.Context) error) {
	failures := 0
	for {
		// Not all replicas at once.
		pause := period - period/4 + rand.N(period/2)
		err := f(ctx)
		switch {
		case err == nil:
			failures = 0
		case ctx.Err() == nil:
			failures++
			pause = min(pause, 2*l.backoff(failures))
			l.health.fail(l.o.Now(), err)
			l.o.Log.WarnContext(ctx, "background work failed; retrying", "error", err, "failures", failures, "next_in", pause)
		}
		select {
		case <-time.After(pause):
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}

// mine takes the lease on work that one loop at a time does; two do no harm.
func (l *Loop) mine(ctx context.Context, lease string, life time.Duration) (mine bool, _ error) {
	now := l.o.Now()
	err := l.store.Service(ctx, func(tx *store.Tx) (err error) {
		_, mine, err = tx.TakeLease(ctx, lease, l.holder, now, now.Add(life))
		return err
	})
	return mine, err
}

// claimAll takes due rows, splits them, and does the parts, at most many at a time. It
// does not wait for one part to be done before it takes the next rows.
func (l *Loop) claimAll(ctx context.Context, wake <-chan struct{}, many int, split func([]store.Outbox) [][]store.Outbox, do func(context.Context, []store.Outbox), kinds ...store.OutboxKind) {
	slots := make(chan struct{}, many)
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		claimed := time.Now() // No claim ends sooner than Claim after this.
		rows, err := l.claim(ctx, kinds)
		if err != nil && ctx.Err() == nil {
			l.health.fail(l.o.Now(), err)
			l.o.Log.WarnContext(ctx, "can't read the outbox", "error", err)
		}
		for _, part := range split(rows) {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			running.Go(func() {
				defer func() { <-slots }()
				l.work(ctx, part, claimed, do)
			})
		}
		if len(rows) == claimMax {
			continue // There may be more.
		}
		select {
		case <-wake:
		case <-time.After(l.o.Poll):
		case <-ctx.Done():
		}
	}
}

// work does a part, and ends before another loop may take its rows. If they have waited so long for
// a slot that their claim could end first, it is made to last; those that another loop
// has by now are left to it.
func (l *Loop) work(ctx context.Context, rows []store.Outbox, claimed time.Time, do func(context.Context, []store.Outbox)) {
	ctx, cancel := context.WithTimeout(ctx, l.o.Claim/2)
	defer cancel()
	if time.Since(claimed) > l.o.Claim/2 {
		rows = l.extend(ctx, rows)
	}
	if len(rows) > 0 {
		do(ctx, rows)
	}
}

// extend lets claims begin anew, and returns the rows of which that can be said.
func (l *Loop) extend(ctx context.Context, rows []store.Outbox) (held []store.Outbox) {
	err := l.store.Service(ctx, func(tx *store.Tx) error {
		held = nil
		till := l.o.Now().Add(l.o.Claim)
		for _, r := range rows {
			err := tx.ExtendOutbox(ctx, r, till)
			if err != nil && !isLost(err) {
				return err
			}
			if err == nil {
				held = append(held, r)
			}
		}
		return nil
	})
	if err != nil { // They are taken again when their claim has ended.
		l.health.fail(l.o.Now(), err)
		l.o.Log.WarnContext(ctx, "can't extend the claim on outbox rows", "rows", len(rows), "error", err)
		return nil
	}
	return held
}

// isLost: another loop has the row, or has finished it.
func isLost(err error) bool {
	return errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrNotFound)
}

func (l *Loop) claim(ctx context.Context, kinds []store.OutboxKind) (rows []store.Outbox, err error) {
	now, kept := l.o.Now(), l.kept.take()
	err = l.store.Service(ctx, func(tx *store.Tx) (err error) {
		for _, r := range kept {
			if err := deferRow(ctx, tx, r, now, r.LastError); err != nil {
				return err
			}
		}
		rows, err = tx.ClaimOutbox(ctx, l.holder, now, now.Add(l.o.Claim), claimMax, kinds...)
		return err
	})
	if err != nil {
		l.kept.add(kept...)
	}
	return rows, err
}

// deferRow gives a row back, if no other loop has it by now.
func deferRow(ctx context.Context, tx *store.Tx, r store.Outbox, due time.Time, problem string) error {
	err := tx.DeferOutbox(ctx, r, due, problem)
	if isLost(err) {
		return nil
	}
	return err
}

// finish removes rows that are done, and records in the same transaction what the
// cell has applied.
func (l *Loop) finish(ctx context.Context, rows []store.Outbox, seen []observed) error {
	err := l.store.Service(ctx, func(tx *store.Tx) error {
		for _, s := range seen {
			if err := s.note(ctx, tx); err != nil {
				return err
			}
		}
		for _, r := range rows {
			// Another loop that has it reads the same records.
			if err := tx.FinishOutbox(ctx, r); err != nil && !isLost(err) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("note what is done: %w", err)
	}
	l.waits.tell(rows)
	return nil
}

// fail puts a row back for a while. A row that was refused often is parked.
func (l *Loop) fail(ctx context.Context, row store.Outbox, refused bool, cause error) {
	now, wait, problem := l.o.Now(), l.backoff(row.Attempts), problemText(cause)
	if refused && row.Attempts >= l.o.ParkAfter {
		l.park(ctx, row, l.o.ParkFor, cause)
		return
	}
	l.letGo(ctx, row, now.Add(wait), problem, cause)
}

// park puts a row back for long, and logs it once.
func (l *Loop) park(ctx context.Context, row store.Outbox, wait time.Duration, cause error) {
	if !strings.HasPrefix(row.LastError, parkedPrefix) {
		l.o.Log.ErrorContext(ctx, "an outbox row keeps failing and was parked; see its last_error",
			"outbox", row.ID, "kind", row.Kind, "tenant", row.TenantID, "subject", row.Subject, "attempts", row.Attempts, "error", cause)
	}
	l.letGo(ctx, row, l.o.Now().Add(wait), parkedPrefix+problemText(cause), cause)
}

func (l *Loop) letGo(ctx context.Context, row store.Outbox, due time.Time, problem string, cause error) {
	l.health.fail(l.o.Now(), cause)
	// A failure by timeout must still be recorded.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	err := l.store.Service(ctx, func(tx *store.Tx) error { return deferRow(ctx, tx, row, due, problem) })
	if err != nil {
		row.LastError = problem
		l.kept.add(row)
		l.o.Log.WarnContext(ctx, "can't record why an outbox row failed", "outbox", row.ID, "cause", cause, "error", err)
	}
	if wait := due.Sub(l.o.Now()); wait < l.o.Poll {
		time.AfterFunc(wait, l.Wake)
	}
}

const (
	noteTimeout = 5 * time.Second
	problemMax  = 500
	// parkedPrefix marks a row whose parking was logged.
	parkedPrefix = "parked: "
)

func problemText(err error) string {
	text := err.Error()
	if len(text) > problemMax {
		text = text[:problemMax]
	}
	return text
}

// backoff doubles, with jitter so that retries do not come in step.
func (l *Loop) backoff(attempts int) time.Duration {
	d := min(l.o.BackoffMin<<min(attempts-1, 20), l.o.BackoffMax)
	return d/2 + rand.N(d/2+1)
}
