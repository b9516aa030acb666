package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/account"
	"github.com/corvo-cloud/corvo/control-plane/internal/audit"
	"github.com/corvo-cloud/corvo/control-plane/internal/auditing"
	"github.com/corvo-cloud/corvo/control-plane/internal/device"
	"github.com/corvo-cloud/corvo/control-plane/internal/directory"
	"github.com/corvo-cloud/corvo/control-plane/internal/domains"
	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
	"github.com/corvo-cloud/corvo/control-plane/internal/exchange"
	"github.com/corvo-cloud/corvo/control-plane/internal/factors"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/login"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/masterkey"
	"github.com/corvo-cloud/corvo/control-plane/internal/members"
	"github.com/corvo-cloud/corvo/control-plane/internal/notices"
	"github.com/corvo-cloud/corvo/control-plane/internal/operators"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/policy"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/reconcile"
	"github.com/corvo-cloud/corvo/control-plane/internal/refusals"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/server"
	"github.com/corvo-cloud/corvo/control-plane/internal/signup"
	"github.com/corvo-cloud/corvo/control-plane/internal/sinks"
	"github.com/corvo-cloud/corvo/control-plane/internal/sso"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/stripe"
	"github.com/corvo-cloud/corvo/control-plane/internal/tenancy"
	"github.com/corvo-cloud/corvo/control-plane/internal/tokenkeys"
	"github.com/corvo-cloud/corvo/control-plane/internal/urls"
	"github.com/corvo-cloud/corvo/control-plane/internal/usage"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellclock"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// Config of a control plane.
type Config struct {
	// Database is sqlite:PATH or postgres://…
	Database string
	// PublicURL is where browsers find the console: http(s)://host[:port].
	PublicURL string
	// TenantURL is the base URL of a tenant's jobs.
	TenantURL func(tenant string) string
	// Cells are where tenants can live; new ones get the first.
	Cells []Cell
	// MasterKeys, 32 bytes each, seal secrets in the database; the first one seals, all
	// of them open.
	MasterKeys [][]byte
	Mail       Mail
	// Console is the built console: package web.
	Console fs.FS
	// AllowPrivateIssuers lets identity providers and audit sinks be at private addresses: for
	// development and for companies' own networks.
	AllowPrivateIssuers bool
	// DNS is the server that is asked for the records of tenants' domains, HOST or HOST:PORT;
	// empty: the system's.
	DNS string
	// Payments are off without a key.
	Payments Payments
	// AllowSuperuser starts on PostgreSQL though row-level security does not bind the
	// role: for a laptop.
	AllowSuperuser bool
	// Peer tells a client's address; nil: the connection's.
	Peer    func(*http.Request) string
	Version string
	Logger  *slog.Logger
	// Clock is this machine's; nil outside tests.
	Clock cellclock.Clock
}

// Cell is a cell of the data plane as its administration sees it.
type Cell struct {
	Name string
	// URLs are the API addresses of its nodes.
	URLs    []string
	Secrets *cellsecret.Secrets
	// TLS is the cell's mutual TLS; nil speaks h2c.
	TLS *tls.Config
	// SharesClock: its nodes are in this process, and aren't asked for the time.
	SharesClock bool
}

// Mail is how mails leave.
type Mail struct {
	// URL of the mail server: smtp://[user:password@]host:port, or smtps://.
	URL string
	// From is the sender's address.
	From string
}

// Server is a control plane.
type Server struct {
	config     Config
	kit        kit.Kit
	keys       tokenkeys.Keys
	audit      audit.Keys
	tenancy    *tenancy.Service
	auditing   *auditing.Service
	refusals   *refusals.Log
	sinks      *sinks.Service
	login      *login.Service
	device     *device.Service
	account    *account.Service
	factors    *factors.Service
	signup     *signup.Service
	members    *members.Service
	principals *principals.Service
	policy     *policy.Service
	sso        *sso.Service
	directory  *directory.Service
	domains    *domains.Service
	notices    *notices.Service
	plans      *plans.Service
	exchange   *exchange.Service
	stripe     *stripe.Service
	usage      *usage.Service
	operators  *operators.Service
	cells      []*celladmin.Client
	loop       *reconcile.Loop
	handler    http.Handler
}

// New opens the database and builds a control plane. Nothing runs before Run.
func New(ctx context.Context, c Config) (*Server, error) {
	s, err := open(ctx, c, store.Options{})
	if err != nil {
		return nil, err
	}
	if err := s.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("control plane: %w", err), s.Close())
	}
	return s, nil
}

// look opens the database beside whoever else uses it, with what reads it and asks the cells.
// New writes: it migrates, says which master key is in use, and makes keys.
func look(ctx context.Context, c Config) (*Server, error) {
	s, err := open(ctx, c, store.Options{Beside: true})
	if err != nil {
		return nil, err
	}
	if err := s.buildLoop(); err != nil {
		return nil, errors.Join(fmt.Errorf("control plane: %w", err), s.Close())
	}
	return s, nil
}

// open makes a Server that has no use cases yet.
func open(ctx context.Context, c Config, o store.Options) (_ *Server, err error) {
	s := &Server{config: c, kit: kit.Kit{Log: c.Logger, Now: time.Now, IDs: ids.NewMaker()}}
	if c.Clock != nil {
		s.kit.Now = func() time.Time { wall, _ := c.Clock.Now(); return wall }
	}
	s.kit.Log = cmp.Or(s.kit.Log, slog.New(slog.DiscardHandler))
	if len(c.Cells) == 0 || c.TenantURL == nil {
		return nil, errors.New("control plane: a cell and the pattern of tenant URLs are required")
	}
	if s.kit.Seal, err = seal.New(c.MasterKeys...); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	if s.kit.URLs, err = urls.New(c.PublicURL, c.TenantURL); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	o.Log, o.AllowSuperuser = s.kit.Log, c.AllowSuperuser
	if s.kit.Store, err = store.Open(ctx, c.Database, o); err != nil {
		return nil, fmt.Errorf("control plane: open database: %w", err)
	}
	s.keys = tokenkeys.Keys{Store: s.kit.Store, Seal: s.kit.Seal, Now: s.kit.Now, Calendar: s.calendar}
	s.audit = audit.Keys{Store: s.kit.Store, Seal: s.kit.Seal, Now: s.kit.Now}
	return s, nil
}

// build puts the use cases together.
func (s *Server) build(ctx context.Context) error {
	// Before the first thing is sealed.
	if err := masterkey.ReportKey(ctx, s.kit.Store, s.kit.Seal, s.kit.Now()); err != nil {
		return err
	}
	// Made at the first start, so that it fails here and not at the first sign-in.
	if _, _, err := s.keys.Signing(ctx); err != nil {
		return err
	}
	// Before the first new entry, so that the old ones are before it.
	if _, err := audit.Chain(ctx, s.kit.Store); err != nil {
		return err
	}
	if err := s.buildLoop(); err != nil {
		return err
	}
	s.kit.Wake, s.kit.Await, s.kit.CollectActs = s.loop.Wake, s.loop.Await, s.loop.CollectActs
	s.tenancy = &tenancy.Service{
		Kit: s.kit, Keys: s.keys, CellNow: s.cellNow, ObserveWait: tenancy.ObserveWaitDefault, Version: s.config.Version,
	}
	s.refusals = refusals.New(s.kit)
	s.sinks = sinks.New(s.kit, egress.Options{AllowPrivate: s.config.AllowPrivateIssuers})
	s.auditing = &auditing.Service{Kit: s.kit, Keys: s.audit}
	s.principals = &principals.Service{Kit: s.kit, ObserveWait: tenancy.ObserveWaitDefault}
	s.members = members.New(members.Needs{Kit: s.kit, InvitationsPerHour: members.InvitationsPerHourDefault})
	s.login = login.New(login.Needs{Kit: s.kit, Limits: login.DefaultLimits(), Invitations: s.members})
	s.device = device.New(device.Needs{Kit: s.kit, Limits: device.DefaultLimits()})
	s.account = account.New(s.kit)
	var err error
	if s.factors, err = factors.New(factors.Needs{Kit: s.kit, SignIns: s.login}); err != nil {
		return err
	}
	s.signup = signup.New(signup.Needs{Kit: s.kit, Cell: s.config.Cells[0].Name, Limits: signup.DefaultLimits(), Ready: s.tenancy.KeysReady})
	s.sso = sso.New(sso.Needs{
		Kit: s.kit, Egress: egress.Options{AllowPrivate: s.config.AllowPrivateIssuers}, StartsPerMinute: sso.StartsPerMinuteDefault,
		Refused: func(ctx context.Context, tenant, why string) {
			s.refusals.Note(refusals.Refusal{Action: refusals.SignIn, Caller: access.From(ctx), TenantName: tenant, Field: "reason", Value: why})
		},
	})
	s.directory = directory.New(s.kit)
	dns, err := domains.NewResolver(s.config.DNS)
	if err != nil {
		return err
	}
	s.domains = domains.New(s.kit, dns)
	s.notices = notices.New(s.kit)
	s.exchange = exchange.New(exchange.Needs{
		Kit: s.kit, Egress: egress.Options{AllowPrivate: s.config.AllowPrivateIssuers}, Limits: exchange.DefaultLimits(), Ready: s.tenancy.KeysReady, Refused: s.refusals.Note,
	})
	s.policy = &policy.Service{Kit: s.kit}
	if s.stripe, err = s.config.Payments.service(ctx, s.kit); err != nil {
		return err
	}
	s.usage = usage.New(usage.Needs{Kit: s.kit, SetHold: plans.SetHold, ClearHold: plans.ClearHold})
	s.plans = plans.New(plans.Needs{Kit: s.kit, Payments: s.config.Payments.payers(), Used: used})
	s.operators = operators.New(operators.Needs{Kit: s.kit, Plans: s.plans, Usage: s.usage, Stripe: s.stripe})
	handler, err := server.New(server.Options{
		Kit: s.kit, Refusals: s.refusals, Methods: s.methods(), Browser: s.sso.Handler(), Directory: s.directory.Handler(), Payments: s.stripe.Webhook(), Console: s.config.Console,
		Ready: s.checks(), Status: s.status, Peer: s.config.Peer,
	})
	s.handler = handler
	return err
}

// buildLoop connects what is written in the database with cells and the mail server.
func (s *Server) buildLoop() error {
	cells := make(map[string]reconcile.Cell, len(s.config.Cells))
	for _, c := range s.config.Cells {
		client, err := celladmin.New(c.Secrets, c.URLs, celladmin.Options{Name: "control", TLS: c.TLS, Clock: s.config.Clock, Logger: s.kit.Log})
		if err != nil {
			return fmt.Errorf("cell %s: %w", c.Name, err)
		}
		s.cells = append(s.cells, client)
		cells[c.Name] = client
	}
	where, err := mail.ParseURL(s.config.Mail.URL)
	if err != nil {
		return err
	}
	where.From = s.config.Mail.From
	sender, err := mail.NewSender(s.kit.Log, s.kit.Seal, s.kit.Now, where)
	if err != nil {
		return err
	}
	s.loop = reconcile.New(s.kit.Store, cells, sender.Deliver, reconcile.Options{
		Log: s.kit.Log, Now: s.kit.Now, CellAhead: s.cellAhead, TokenKeys: s.tokenKeys, Limits: s.cellLimits, Audit: &s.audit,
		MailRefused: func(err error) bool { return errors.Is(err, mail.ErrRefused) },
		MailLocked:  func(err error) bool { return errors.Is(err, mail.ErrLocked) },
	})
	return nil
}

// cellLimits are a tenant's, as a cell is told them.
func (s *Server) cellLimits(ctx context.Context, tx *store.Tx, t store.Tenant) (*cellv1.Limits, error) {
	return plans.Limits(ctx, tx, t.ID, s.kit.Now())
}

// tokenKeys are the keys whose tokens cells shall take.
func (s *Server) tokenKeys(ctx context.Context, tx *store.Tx) ([]*cellv1.TokenKey, error) {
	keys, err := s.keys.Public(ctx, tx)
	if err != nil {
		return nil, err
	}
	var out []*cellv1.TokenKey
	for _, k := range keys {
		out = append(out, celladmin.TokenKey(k.Key, k.NotAfter))
	}
	return out, nil
}

// lagMax is how old the oldest waiting row may be before this process says that it is
// not ready. A cell that is away for some seconds is no reason to take the console away.
const lagMax = 2 * time.Minute

func (s *Server) checks() []server.Check {
	return []server.Check{{Name: "database", Check: s.kit.Store.Ping}, {Name: "reconciler", Check: s.checkLag},
		{Name: "the database is an older copy; stop this process and run the same command with --after-restore", Check: func(context.Context) error { return s.loop.Restored() }}}
}

// NotReady names the first check of /readyz that fails; empty if all pass.
func (s *Server) NotReady(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, server.ReadyTimeout)
	defer cancel()
	for _, c := range s.checks() {
		if err := c.Check(ctx); err != nil {
			s.kit.Log.WarnContext(ctx, "not ready", "check", c.Name, "error", err)
			return c.Name
		}
	}
	return ""
}

func (s *Server) checkLag(context.Context) error {
	h := s.loop.Health()
	if lag := s.kit.Now().Sub(h.Oldest); h.Waiting > 0 && lag > lagMax {
		return fmt.Errorf("%d changes are waiting, the oldest for %v: %s", h.Waiting, lag.Round(time.Second), h.LastProblem)
	}
	return nil
}

// status is what /readyz says beside yes or no.
func (s *Server) status() []string {
	h := s.loop.Health()
	age := time.Duration(0)
	if !h.OldestChange.IsZero() {
		age = max(s.kit.Now().Sub(h.OldestChange), 0)
	}
	lines := []string{
		fmt.Sprintf("oldest_change_seconds %d", int64(age.Seconds())),
		fmt.Sprintf("parked %d", h.Parked),
	}
	if wrong := s.wrongClock(); wrong != "" {
		lines = append(lines, "wrong clock: "+wrong)
	}
	return lines
}

// Handler answers the console, its API and the browsers' redirects.
func (s *Server) Handler() http.Handler { return s.handler }

// Run runs the background loops until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	var beats sync.WaitGroup
	beats.Go(func() { s.beat(ctx) })
	beats.Go(func() { s.refusals.Run(ctx) })
	beats.Go(func() { s.sinks.Run(ctx) })
	beats.Go(func() { s.domains.Run(ctx) })
	beats.Go(func() { s.notices.Run(ctx) })
	beats.Go(func() { s.plans.Run(ctx) })
	beats.Go(func() { s.stripe.Run(ctx) })
	beats.Go(func() { s.usage.Run(ctx) })
	beats.Go(func() { s.operators.Run(ctx) })
	beats.Go(s.followClocks(ctx)) // Before the first call to a cell.
	s.loop.Run(ctx)
	beats.Wait()
	return nil
}

// Close ends what New opened. Call it after Run has returned.
func (s *Server) Close() error {
	for _, c := range s.cells {
		c.Close()
	}
	return s.kit.Store.Close()
}
