package signup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cookies"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/mail"
	"github.com/corvo-cloud/corvo/control-plane/internal/names"
	"github.com/corvo-cloud/corvo/control-plane/internal/ratelimit"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// life of a link and code. A sign-up whose expiry lies nearer to its start was made
	// void by a newer one.
	life = 30 * time.Minute
	// attemptsMax is how many wrong codes one mail stands.
	attemptsMax = 5
	// tenantsMax is how many tenants one address may own.
	tenantsMax = 10
	// waitMax is how long Confirm waits for the proxies to know the keys.
	waitMax = 5 * time.Second

	tokenPrefix = "corvo_signup_"
	// startedPrefix is of the cookie of the browser that signed up.
	startedPrefix = "corvo_started_"
	confirmPath   = "/signup/confirm"
)

// Limits are how many sign-ups are taken; 0: no limit. None is shared by all.
type Limits struct {
	ratelimit.EmailLimits
	// CodesPerDay is how many codes may be tried for an address in all its sign-ups.
	CodesPerDay int
}

// DefaultLimits stop a mail flood and leave room for a class behind one address.
func DefaultLimits() Limits {
	return Limits{ratelimit.EmailLimits{PeerPerHour: 60, NetworkPerHour: 300, EmailPerHour: 5, PerAddress: 30, AddressWindow: time.Hour}, 15}
}

// Needs are what a Service is built of.
type Needs struct {
	kit.Kit
	// Cell is where new tenants are placed.
	Cell   string
	Limits Limits
	// Ready waits until every proxy goes by the tenant's new keys; false if that did
	// not happen before ctx ended.
	Ready func(ctx context.Context, tenantID string, keyIDs ...string) bool
}

// Service is the use cases of sign-up.
type Service struct{ Needs }

// New makes a Service.
func New(n Needs) *Service { return &Service{Needs: n} }

// CheckName tells whether a tenant name can be had.
func (s *Service) CheckName(ctx context.Context, r *cloudv1.CheckNameRequest) (*cloudv1.CheckNameResponse, error) {
	res := &cloudv1.CheckNameResponse{Problem: nameProblem(r.GetTenant())}
	if res.GetProblem() != "" {
		return res, nil
	}
	err := s.Store.ReadService(ctx, func(tx *store.Tx) error {
		taken, err := isTaken(ctx, tx, r.GetTenant())
		if err != nil || !taken {
			return err
		}
		free, err := suggestions(ctx, tx, r.GetTenant())
		res.Problem = takenText(r.GetTenant(), free)
		return err
	})
	if err != nil {
		return nil, err
	}
	res.Available = res.GetProblem() == ""
	if res.GetAvailable() {
		res.TenantUrl = s.URLs.Tenant(r.GetTenant())
	}
	return res, nil
}

// Start mails a link and a code.
func (s *Service) Start(ctx context.Context, r *cloudv1.StartRequest) (*cloudv1.StartResponse, error) {
	email, err := validate(r)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	code, err := newCode()
	if err != nil {
		return nil, err
	}
	token, digest := seal.NewToken(tokenPrefix)
	started, browser := seal.NewToken(startedPrefix)
	su := store.Signup{
		ID: s.IDs.New(ids.Signup, now), Email: email, TenantName: r.GetTenant(), Digest: digest,
		Peer: access.From(ctx).Peer, Browser: browser, CreatedAt: now, ExpiresAt: now.Add(life),
	}
	su.CodeDigest = codeDigest(su.ID, code)
	msg, err := mail.Signup(email, su.TenantName, s.URLs.Link(confirmPath, token), code, life, now)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, su, msg); err != nil {
		return nil, err
	}
	s.Wake()
	cookies.From(ctx).SetStarted(started, su.ExpiresAt)
	return &cloudv1.StartResponse{SignupId: su.ID, ExpiresAt: timestamppb.New(su.ExpiresAt)}, nil
}

func validate(r *cloudv1.StartRequest) (email string, _ error) {
	var fields []fault.Field
	email, err := mail.Address(r.GetEmail())
	if err != nil {
		fields = append(fields, fault.Field{Name: "email", Problem: err.Error()})
	}
	if p := nameProblem(r.GetTenant()); p != "" {
		fields = append(fields, fault.Field{Name: "tenant", Problem: p})
	}
	return email, fault.InvalidFields(fields)
}

func (s *Service) start(ctx context.Context, su store.Signup, msg mail.Message) error {
	return s.Store.Service(ctx, func(tx *store.Tx) error {
		words := [3]string{"sign-ups from your network", "sign-ups for this email address from your network", "sign-ups for this email address"}
		if err := ratelimit.Count(ctx, tx, su.CreatedAt, s.Limits.EmailLimits.Limits("signup", su.Peer, su.Email, words)...); err != nil {
			return err
		}
		if err := checkFree(ctx, tx, su.TenantName); err != nil {
			return err
		}
		if err := tx.VoidSignups(ctx, su.Email, su.TenantName, su.Peer, su.CreatedAt); err != nil {
			return err
		}
		if err := tx.InsertSignup(ctx, su); err != nil {
			return err
		}
		return mail.Put(ctx, s.Kit, tx, "", su.ID, msg)
	})
}

// nameProblem tells what is wrong with a name whoever has it.
func nameProblem(name string) string {
	if p := names.Tenant(name); p != "" {
		return p
	}
	// Host names with two hyphens are read as encoded ones (xn--…) by browsers.
	if strings.Contains(name, "--") {
		return "can't have two hyphens in a row"
	}
	return ""
}

func isTaken(ctx context.Context, tx *store.Tx, name string) (bool, error) {
	_, err := tx.GetTenantByName(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// checkFree refuses a name that somebody has.
func checkFree(ctx context.Context, tx *store.Tx, name string) error {
	taken, err := isTaken(ctx, tx, name)
	if err != nil || !taken {
		return err
	}
	free, err := suggestions(ctx, tx, name)
	if err != nil {
		return err
	}
	return store.CommitDespite(nameTaken(name, free))
}

func nameTaken(name string, free []string) *fault.Error {
	return &fault.Error{
		Code: fault.Exists, Reason: "TENANT_NAME_TAKEN", Message: "this name isn't available",
		Fields: []fault.Field{{Name: "tenant", Problem: takenText(name, free)}},
	}
}

func takenText(name string, free []string) string {
	if len(free) == 0 {
		return fmt.Sprintf("%q is taken; choose another name, or sign in if it's yours", name)
	}
	return fmt.Sprintf("%q is taken; available names include %s; sign in if it's yours", name, strings.Join(free, ", "))
}

// suggestions are names like the one given that nobody has at the moment.
func suggestions(ctx context.Context, tx *store.Tx, name string) (free []string, _ error) {
	const wanted = 3
	for _, suffix := range []string{"-hq", "-app", "-team", "-jobs", "-cloud", "-2", "-3"} {
		candidate := name + suffix
		if nameProblem(candidate) != "" {
			continue
		}
		taken, err := isTaken(ctx, tx, candidate)
		if err != nil {
			return nil, err
		}
		if !taken {
			free = append(free, candidate)
		}
		if len(free) == wanted {
			break
		}
	}
	return free, nil
}

const codeDigits = 6

func newCode() (string, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return "", fmt.Errorf("draw a code: %w", err)
	}
	return fmt.Sprintf("%0*d", codeDigits, n), nil
}

// codeDigest binds a code to its sign-up, so that equal codes look different.
func codeDigest(signupID, code string) string { return seal.Digest(signupID + ":" + code) }
