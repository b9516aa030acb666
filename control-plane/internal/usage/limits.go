package usage

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/bill"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Limits that hold jobs back.
const (
	LimitJobs  = "jobs_per_month"
	LimitSpend = plans.LimitSpend
)

// limitOpen holds nothing back by itself: a node refuses the jobs beyond it.
const limitOpen = "open_jobs"

const (
	leaseFor = time.Minute
	tick     = 10 * time.Second
	// checkedSetting is up to when changes were compared with limits.
	checkedSetting = "usage/checked"
	// overlap is how much later than its time a change may be committed.
	overlap = time.Minute
	atOnce  = 500

	// rejectEnqueues is the plan's word for what happens beyond its jobs in a month.
	rejectEnqueues = "reject_enqueues"
	// noticesKept is how long it is remembered what was mailed.
	noticesKept = 100 * day
)

// jobsAlerts are when emails about jobs in a month and about open jobs are written.
var jobsAlerts = []int{80, 100}

// Run compares usage with limits until ctx ends. Of several processes, one does at a time.
func (s *Service) Run(ctx context.Context) { s.loop.Run(ctx) }

// Compare compares the tenants whose usage or limits changed, and those that are held back.
func (s *Service) Compare(ctx context.Context) error { return s.loop.Pass(ctx) }

// pass may be made by two at once.
func (s *Service) pass(ctx context.Context, now time.Time) error {
	return errors.Join(s.compareChanged(ctx, now), s.compareHeld(ctx, LimitJobs), s.compareHeld(ctx, LimitSpend), s.forget(ctx, now))
}

// compareChanged goes on where the last pass came to. A tenant with a problem is not the others':
// they are compared, and it is compared again at each pass.
func (s *Service) compareChanged(ctx context.Context, now time.Time) error {
	checked, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) (time.Time, error) { return checkedTo(ctx, tx) })
	if err != nil {
		return err
	}
	list, err := s.changed(ctx, checked)
	if err != nil {
		return err
	}
	var problems []error
	var failed []store.UsageChange
	for len(list) > 0 {
		part := list[:min(atOnce, len(list))]
		list = list[len(part):]
		wrong, err := s.compareListed(ctx, part)
		if problems = append(problems, err); ctx.Err() != nil {
			return errors.Join(append(problems, ctx.Err())...) // Not all of them were compared.
		}
		to := oldest(list, now.Add(-overlap))
		if failed = append(failed, wrong...); !to.After(checked) {
			continue
		}
		checked = to
		if failed, err = s.keepChecked(ctx, to, failed); err != nil {
			return errors.Join(append(problems, err)...)
		}
	}
	return errors.Join(problems...)
}

// oldest is when the first of some changes was, or a time before them all.
func oldest(list []store.UsageChange, at time.Time) time.Time {
	for _, c := range list {
		if c.ChangedAt.Before(at) {
			at = c.ChangedAt
		}
	}
	return at
}

// changed are the tenants that changed since a time, those first whose last comparison is the
// oldest. In the order of their changes, a pass that doesn't get to all of them would leave the
// same ones to the next.
func (s *Service) changed(ctx context.Context, since time.Time) (list []store.UsageChange, _ error) {
	for after, more := (store.UsageChange{ChangedAt: since}), true; more; {
		page, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.UsageChange, error) { return tx.ChangedUsage(ctx, after, atOnce) })
		if err != nil {
			return nil, err
		}
		if more = len(page) == atOnce; more {
			after = page[atOnce-1]
		}
		list = append(list, page...)
	}
	slices.SortStableFunc(list, func(a, b store.UsageChange) int { return s.seen[a.TenantID].Compare(s.seen[b.TenantID]) })
	return list, nil
}

// compareListed compares tenants that changed since they were compared last, and gives those that
// couldn't be.
func (s *Service) compareListed(ctx context.Context, list []store.UsageChange) (failed []store.UsageChange, _ error) {
	var problems []error
	for _, c := range list {
		if s.seen[c.TenantID].Equal(c.ChangedAt) {
			continue
		}
		err := s.compare(ctx, c.TenantID)
		if ctx.Err() != nil {
			return failed, errors.Join(append(problems, err)...)
		}
		s.seen[c.TenantID] = c.ChangedAt
		if err != nil {
			failed, problems = append(failed, c), append(problems, err)
			s.seen[c.TenantID] = c.ChangedAt.Add(-1) // So it is compared again, but not before all others.
		}
	}
	return failed, errors.Join(problems...)
}

// keepChecked keeps up to when changes were compared. Those before it that couldn't be are changes
// of now, so that they are listed again, by another process too; the rest is given back.
func (s *Service) keepChecked(ctx context.Context, to time.Time, failed []store.UsageChange) (rest []store.UsageChange, _ error) {
	var again []string
	for _, c := range failed {
		if c.ChangedAt.Before(to) {
			again = append(again, c.TenantID)
		} else {
			rest = append(rest, c)
		}
	}
	slices.Sort(again) // As in all transactions, so that two never wait for each other.
	now := s.Now()
	return rest, s.Store.Service(ctx, func(tx *store.Tx) error {
		for some := range slices.Chunk(again, atOnce) {
			if err := tx.TouchUsage(ctx, some, now); err != nil {
				return err
			}
		}
		return tx.PutSetting(ctx, checkedSetting, strconv.FormatInt(to.UnixNano(), 10), now)
	})
}

func checkedTo(ctx context.Context, tx *store.Tx) (time.Time, error) {
	text, err := tx.GetSetting(ctx, checkedSetting)
	if errors.Is(err, store.ErrNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(0, n), err
}

// compareHeld looks again at tenants that a limit holds back: a period may have ended, or the
// plan changed.
func (s *Service) compareHeld(ctx context.Context, limit string) error {
	var problems []error
	for after, more := "", true; more && ctx.Err() == nil; {
		list, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]string, error) { return tx.HeldTenants(ctx, limit, after, atOnce) })
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		for _, id := range list {
			problems = append(problems, s.compare(ctx, id))
			after = id
		}
		more = len(list) == atOnce
	}
	return errors.Join(problems...)
}

func (s *Service) forget(ctx context.Context, now time.Time) error {
	return s.Store.Service(ctx, func(tx *store.Tx) error {
		_, err := tx.DeleteLimitNoticesBefore(ctx, now.Add(-noticesKept))
		return err
	})
}

// compare compares one tenant with its limits. Most are far below: that is seen by reading.
func (s *Service) compare(ctx context.Context, tenantID string) error {
	var far bool
	err := s.Store.ReadService(ctx, func(tx *store.Tx) error {
		limits, st, err := s.limitsOf(ctx, tx, tenantID)
		if err != nil {
			return err
		}
		holds, err := tx.ListHolds(ctx, st.Tenant.ID)
		far = !slices.ContainsFunc(limits, passed.any) && !slices.ContainsFunc(holds, func(h store.Hold) bool { return h.Limit == LimitJobs || h.Limit == LimitSpend })
		return err
	})
	if err == nil && !far {
		err = s.Store.Service(ctx, func(tx *store.Tx) error {
			limits, st, err := s.limitsOf(ctx, tx, tenantID)
			ctx := callerOf(ctx, st.Tenant)
			for _, p := range limits {
				if err == nil {
					err = s.settle(ctx, tx, st, p)
				}
			}
			return err
		})
		s.Wake()
	}
	if errors.Is(err, errDeleted) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("tenant %s: %w", tenantID, err)
	}
	return nil
}

// errDeleted is a tenant that is no more. Other rows that are missing are a problem: its limits
// wouldn't hold, and nobody would know.
var errDeleted = errors.New("the tenant was deleted")

// passed is a limit and how far it is used.
type passed struct {
	limit       string
	used, value int64
	unlimited   bool
	hold        store.Hold
	alerts      []int
	page        string // Of the console, about it.
	letter      func(to, link string, percent int) (mail.Message, error)
}

// any reports whether something of it is reached.
func (p passed) any() bool {
	return !p.unlimited && (p.used >= p.value || slices.ContainsFunc(p.alerts, func(n int) bool { return reached(p.used, p.value, n) }))
}

// limitsOf are a tenant's limits.
func (s *Service) limitsOf(ctx context.Context, tx *store.Tx, tenantID string) (_ []passed, st standing, err error) {
	st.now = s.Now()
	if st.Tenant, err = tx.GetTenant(ctx, tenantID); errors.Is(err, store.ErrNotFound) {
		return nil, st, errDeleted
	}
	if err != nil {
		return nil, st, err
	}
	if st.UsageClosing, err = closingOf(ctx, tx, st.Tenant); err != nil {
		return nil, st, err
	}
	e, err := tx.Entitlements(ctx, st.Tenant.ID, st.now)
	if err != nil {
		return nil, st, err
	}
	u, err := UsedBy(ctx, tx, st.Tenant.ID, st.now)
	if err != nil {
		return nil, st, err
	}
	spend, err := moneyLimit(ctx, tx, st)
	return []passed{jobsLimit(st, e, u), openLimit(st, e, u), spend}, st, err
}

func jobsLimit(st standing, e store.Entitled, u Used) passed {
	most, limited := e.Values["jobs_per_month_max"]
	p := passed{limit: LimitJobs, alerts: jobsAlerts, page: "plan", value: most, unlimited: !limited, used: u.JobsThisMonth,
		hold: store.Hold{Dispatch: e.OverLimit != rejectEnqueues, Enqueue: e.OverLimit == rejectEnqueues}}
	p.letter = func(to, link string, percent int) (mail.Message, error) {
		return mail.JobsLimit(to, st.Name, link, percent, p.used, p.value, p.hold.Enqueue, bill.Month(st.now).End, st.now)
	}
	return p
}

func openLimit(st standing, e store.Entitled, u Used) passed {
	most, limited := e.Values["open_jobs_max"]
	p := passed{limit: limitOpen, alerts: jobsAlerts, page: "plan", value: most, unlimited: !limited, used: u.OpenJobs}
	p.letter = func(to, link string, percent int) (mail.Message, error) {
		return mail.OpenJobsLimit(to, st.Name, link, percent, p.used, p.value, st.now)
	}
	return p
}

func moneyLimit(ctx context.Context, tx *store.Tx, st standing) (p passed, _ error) {
	p = passed{limit: LimitSpend, page: "billing"}
	l, err := spendLimit(ctx, tx, st.Tenant.ID)
	if p.unlimited = l.Amount == 0; err != nil || p.unlimited {
		return p, err
	}
	amount, currency, err := spent(ctx, tx, st)
	p.used, p.value, p.alerts = amount, l.Amount, l.Alerts
	p.hold = store.Hold{Dispatch: l.Action != ActionAlert, Enqueue: l.Action == ActionReject}
	p.letter = func(to, link string, percent int) (mail.Message, error) {
		return mail.SpendLimit(to, st.Name, link, percent, amount, l.Amount, currency, l.Action, bill.Month(st.now).End, st.now)
	}
	return p, err
}

// settle holds back what a passed limit says until the period ends, or ends that, and writes
// the emails that are due.
func (s *Service) settle(ctx context.Context, tx *store.Tx, st standing, p passed) error {
	if p.unlimited {
		return s.ClearHold(ctx, s.Kit, tx, st.Tenant.ID, p.limit)
	}
	p.hold.TenantID, p.hold.Limit, p.hold.Value, p.hold.Until = st.Tenant.ID, p.limit, p.value, bill.Month(st.now).End
	var err error
	if p.used >= p.value && (p.hold.Dispatch || p.hold.Enqueue) {
		err = s.SetHold(ctx, s.Kit, tx, p.hold)
	} else {
		err = s.ClearHold(ctx, s.Kit, tx, st.Tenant.ID, p.limit)
	}
	if err != nil {
		return err
	}
	return s.tell(ctx, tx, st, p)
}

// tell writes the email of the highest percentage that is reached, if it was not in this
// period; those of smaller ones are then never written. A limit that was raised begins anew.
func (s *Service) tell(ctx context.Context, tx *store.Tx, st standing, p passed) error {
	due := 0
	for _, percent := range slices.Sorted(slices.Values(p.alerts)) {
		if !reached(p.used, p.value, percent) {
			break
		}
		err := tx.NoteLimitNotice(ctx, st.Tenant.ID, bill.Month(st.now).Start, fmt.Sprintf("%s/%d/%d", p.limit, p.value, percent), st.now)
		switch {
		case err == nil:
			due = percent
		case errors.Is(err, store.ErrExists):
			due = 0
		default:
			return err
		}
	}
	if due == 0 {
		return nil
	}
	return s.write(ctx, tx, st, p, due)
}

// reached reports whether used is at least so many percent of a value.
func reached(used, value int64, percent int) bool {
	hi, lo := bits.Mul64(uint64(max(used, 0)), 100)
	wantHi, wantLo := bits.Mul64(uint64(value), uint64(percent))
	return hi > wantHi || hi == wantHi && lo >= wantLo
}

func (s *Service) write(ctx context.Context, tx *store.Tx, st standing, p passed, percent int) error {
	readers, err := mail.BillingReaders(ctx, tx, st.Tenant.ID)
	if err != nil {
		return err
	}
	link := s.URLs.Console("/" + st.Name + "/settings/" + p.page)
	for _, to := range readers {
		m, err := p.letter(to, link, percent)
		if err == nil {
			err = mail.Put(ctx, s.Kit, tx, st.Tenant.ID, p.limit, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
