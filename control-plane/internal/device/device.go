package device

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/ratelimit"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// life of a code.
	life = 10 * time.Minute
	// interval between two polls, and what is added for each that comes too soon.
	interval = 5 * time.Second
	// early is how much too soon a poll may come: networks are not clocks.
	early = 500 * time.Millisecond

	// letters of a user code: none that is taken for another, and no vowels, so that no
	// code is a word. 20 to the 8th is 34 bits; guesses are counted.
	letters    = "BCDFGHJKLMNPQRSTVWXZ"
	codeLength = 8
	// clientNameMax is in characters.
	clientNameMax = 100

	tokenPrefix = "corvo_device_"
	// pagePath is the page of the console where people enter a code.
	pagePath = "/device"
)

// Limits are how often a program may begin, and a person enter a code; 0: no limit.
type Limits struct {
	PeerPerHour, NetworkPerHour, CodesPerHour int
}

// DefaultLimits stop a flood of codes, and guessing.
func DefaultLimits() Limits { return Limits{PeerPerHour: 60, NetworkPerHour: 300, CodesPerHour: 60} }

// Needs are what a Service is built of.
type Needs struct {
	kit.Kit
	Limits Limits
}

// Service is the use cases of device logins.
type Service struct{ Needs }

// New makes a Service.
func New(n Needs) *Service { return &Service{Needs: n} }

// StartDeviceLogin makes a pair of codes.
func (s *Service) StartDeviceLogin(ctx context.Context, r *cloudv1.StartDeviceLoginRequest) (*cloudv1.StartDeviceLoginResponse, error) {
	name, err := clientName(r.GetClientName())
	if err != nil {
		return nil, err
	}
	now, c := s.Now(), access.From(ctx)
	code, digest := seal.NewToken(tokenPrefix)
	d := store.DeviceLogin{
		Digest: digest, Client: name, Peer: c.Peer, UserAgent: clip(c.UserAgent), CreatedAt: now, ExpiresAt: now.Add(life),
		Interval: interval, State: store.DevicePending,
	}
	err = s.Store.Service(ctx, func(tx *store.Tx) error {
		if err := s.countStart(ctx, tx, c.Peer, now); err != nil {
			return err
		}
		return insert(ctx, tx, &d)
	})
	if err != nil {
		return nil, err
	}
	return &cloudv1.StartDeviceLoginResponse{
		DeviceCode: code, UserCode: shown(d.UserCode), VerificationUri: s.URLs.Console(pagePath),
		IntervalSeconds: seconds(d.Interval), ExpiresAt: timestamppb.New(d.ExpiresAt),
	}, nil
}

func (s *Service) countStart(ctx context.Context, tx *store.Tx, peer string, now time.Time) error {
	const what = "sign-ins of programs started from your network"
	return ratelimit.Count(ctx, tx, now,
		ratelimit.Limit{Bucket: "device.peer:" + ratelimit.Peer(peer), Window: time.Hour, Max: s.Limits.PeerPerHour, What: what},
		ratelimit.Limit{Bucket: "device.network:" + ratelimit.Network(peer), Window: time.Hour, Max: s.Limits.NetworkPerHour, What: what})
}

// insert draws user codes until one is free.
func insert(ctx context.Context, tx *store.Tx, d *store.DeviceLogin) (err error) {
	const tries = 5
	for range tries {
		d.UserCode = newCode()
		if err = tx.InsertDeviceLogin(ctx, *d); !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return fmt.Errorf("draw a user code: %w", err)
}

func newCode() string {
	var b strings.Builder
	for range codeLength {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			panic(err) // Not possible: the system's randomness never fails.
		}
		b.WriteByte(letters[n.Int64()])
	}
	return b.String()
}

// shown is a code as people read it: WDJB-MJHT.
func shown(code string) string { return code[:codeLength/2] + "-" + code[codeLength/2:] }

// entered is a code as people type it.
func entered(text string) (string, error) {
	code := strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToUpper(strings.TrimSpace(text)))
	if len(code) != codeLength || strings.Trim(code, letters) != "" {
		return "", fault.InvalidField("user_code", "enter the eight letters that the program shows, such as WDJB-MJHT")
	}
	return code, nil
}

// PreviewDeviceLogin tells the person who was shown a code what it would sign in.
func (s *Service) PreviewDeviceLogin(ctx context.Context, r *cloudv1.PreviewDeviceLoginRequest) (*cloudv1.PreviewDeviceLoginResponse, error) {
	var res *cloudv1.PreviewDeviceLoginResponse
	err := s.decide(ctx, r.GetUserCode(), func(tx *store.Tx, d store.DeviceLogin) error {
		own, err := reach(ctx, tx, access.From(ctx))
		res = &cloudv1.PreviewDeviceLoginResponse{
			UserCode: shown(d.UserCode), ClientName: d.Client, Ip: d.Peer, UserAgent: d.UserAgent,
			CreatedAt: timestamppb.New(d.CreatedAt), ExpiresAt: timestamppb.New(d.ExpiresAt),
		}
		for _, a := range own {
			res.Tenants = append(res.Tenants, a.Tenant.Name)
		}
		return err
	})
	return res, err
}

// ApproveDeviceLogin lets the program sign in as the caller.
func (s *Service) ApproveDeviceLogin(ctx context.Context, r *cloudv1.ApproveDeviceLoginRequest) (*cloudv1.ApproveDeviceLoginResponse, error) {
	return &cloudv1.ApproveDeviceLoginResponse{}, s.settle(ctx, r.GetUserCode(), store.DeviceApproved)
}

// DenyDeviceLogin ends the code.
func (s *Service) DenyDeviceLogin(ctx context.Context, r *cloudv1.DenyDeviceLoginRequest) (*cloudv1.DenyDeviceLoginResponse, error) {
	return &cloudv1.DenyDeviceLoginResponse{}, s.settle(ctx, r.GetUserCode(), store.DeviceDenied)
}

func (s *Service) settle(ctx context.Context, code string, to store.DeviceState) error {
	return s.decide(ctx, code, func(tx *store.Tx, d store.DeviceLogin) error {
		c := access.From(ctx)
		d.State, d.UserID, d.SessionID = to, c.UserID, c.SessionID
		err := tx.DecideDeviceLogin(ctx, d)
		if errors.Is(err, store.ErrNotFound) {
			return errDecided // Beside this call.
		}
		return err
	})
}

var (
	errNeedsBrowser = fault.New(fault.Denied, "NEEDS_BROWSER", "only a person who is signed in to the console can decide about a sign-in; keys and other programs can't")
	errUnknownCode  = fault.New(fault.NotFound, "CODE_UNKNOWN", "no program is waiting with this code; compare it with what the program shows, or start the sign-in again")
	errDecided      = fault.New(fault.Conflict, "CODE_USED", "this code was already approved or denied; start the sign-in again if that wasn't you")
	errExpired      = fault.New(fault.Conflict, "CODE_EXPIRED", "this code expired after %d minutes; start the sign-in again", int(life.Minutes()))
)

// decide hands over the login that waits with a code, to a person in a browser.
func (s *Service) decide(ctx context.Context, text string, do func(*store.Tx, store.DeviceLogin) error) error {
	c := access.From(ctx)
	if !c.SignedIn() || c.ByCLI {
		return errNeedsBrowser
	}
	code, err := entered(text)
	if err != nil {
		return err
	}
	now := s.Now()
	return s.Store.Service(ctx, func(tx *store.Tx) error {
		err := ratelimit.Count(ctx, tx, now, ratelimit.Limit{
			Bucket: "device.user:" + c.UserID, Window: time.Hour, Max: s.Limits.CodesPerHour, What: "codes entered"})
		if err != nil {
			return err
		}
		d, err := tx.GetDeviceLoginByCode(ctx, code)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return store.CommitDespite(errUnknownCode)
		case err != nil:
			return err
		case d.State != store.DevicePending:
			return store.CommitDespite(errDecided)
		case !now.Before(d.ExpiresAt):
			return store.CommitDespite(errExpired)
		}
		return do(tx, d)
	})
}

// reach is the tenants that a session of the caller is good in.
func reach(ctx context.Context, tx *store.Tx, c access.Caller) (own []store.Access, _ error) {
	all, err := tx.ListAccess(ctx, c.UserID)
	for _, a := range all {
		if c.OnlyTenantID == "" || a.Tenant.ID == c.OnlyTenantID {
			own = append(own, a)
		}
	}
	return own, err
}

// PollDeviceLogin tells the program what was decided, and gives it its session, once.
func (s *Service) PollDeviceLogin(ctx context.Context, r *cloudv1.PollDeviceLoginRequest) (*cloudv1.PollDeviceLoginResponse, error) {
	if r.GetDeviceCode() == "" {
		return nil, fault.InvalidField("device_code", "use the device_code from the response of StartDeviceLogin")
	}
	var res *cloudv1.PollDeviceLoginResponse
	err := s.Store.Service(ctx, func(tx *store.Tx) error {
		d, err := tx.LockDeviceLogin(ctx, seal.Digest(r.GetDeviceCode()))
		if errors.Is(err, store.ErrNotFound) {
			return fault.New(fault.NotFound, "DEVICE_CODE_UNKNOWN", "this device code is wrong or too old; start the sign-in again")
		}
		if err == nil {
			res, err = s.answer(ctx, tx, d)
		}
		return err
	})
	return res, err
}

func (s *Service) answer(ctx context.Context, tx *store.Tx, d store.DeviceLogin) (*cloudv1.PollDeviceLoginResponse, error) {
	now := s.Now()
	says := func(status cloudv1.DeviceLoginStatus) *cloudv1.PollDeviceLoginResponse {
		return &cloudv1.PollDeviceLoginResponse{Status: status, IntervalSeconds: seconds(d.Interval)}
	}
	switch {
	case d.State == store.DeviceUsed:
		return nil, fault.New(fault.Conflict, "DEVICE_CODE_USED", "this device code was used; start the sign-in again")
	case d.State == store.DeviceDenied:
		return says(cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_DENIED), nil
	case !now.Before(d.ExpiresAt):
		return says(cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_EXPIRED), nil
	}
	tooSoon := now.Sub(d.PolledAt) < d.Interval-early
	d.PolledAt = now
	if tooSoon {
		d.Interval += interval
		return says(cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_SLOW_DOWN), tx.PollDeviceLogin(ctx, d)
	}
	if d.State == store.DevicePending {
		return says(cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_AUTHORIZATION_PENDING), tx.PollDeviceLogin(ctx, d)
	}
	return s.open(ctx, tx, d, says)
}

// open makes the session, if the one that approved it still counts: whoever signed out
// everywhere meanwhile did not mean to let anything in.
func (s *Service) open(
	ctx context.Context, tx *store.Tx, d store.DeviceLogin, says func(cloudv1.DeviceLoginStatus) *cloudv1.PollDeviceLoginResponse,
) (*cloudv1.PollDeviceLoginResponse, error) {
	now := s.Now()
	if err := tx.UseDeviceLogin(ctx, d.Digest); err != nil {
		return nil, err
	}
	approved, err := tx.GetSessionOfUser(ctx, d.UserID, d.SessionID)
	if errors.Is(err, store.ErrNotFound) || err == nil && session.Ended(approved, now) {
		return says(cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_DENIED), nil
	}
	if err != nil {
		return nil, err
	}
	if approved.ProvedAt.IsZero() {
		// A program's session that is younger than a factor counts as approved with it.
		has, err := tx.HasFactor(ctx, d.UserID)
		if err != nil || has {
			return says(cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_DENIED), err
		}
	}
	u, err := tx.GetUser(ctx, d.UserID)
	if err != nil {
		return nil, err
	}
	opened, err := session.OpenCLI(ctx, tx, s.IDs, now, approved, d.Client)
	if err != nil {
		return nil, err
	}
	res := says(cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_APPROVED)
	res.Token, res.ExpiresAt, res.Email = opened.Token, timestamppb.New(opened.ExpiresAt), u.Email
	return res, s.record(ctx, tx, u, approved, opened.ID, d)
}

// record writes the sign-in into the log of every tenant that the session reaches.
func (s *Service) record(ctx context.Context, tx *store.Tx, u store.User, approved store.Session, id string, d store.DeviceLogin) error {
	c := access.From(ctx)
	c.UserID, c.Name, c.SessionID, c.OnlyTenantID, c.BySSO, c.ByCLI = u.ID, u.Email, id, approved.TenantID, u.HomeTenant != "", true
	own, err := reach(ctx, tx, c)
	if err != nil {
		return err
	}
	for _, a := range own {
		target := change.Target{Type: "session", ID: id, Name: u.Email, TenantID: a.Tenant.ID}
		fields := change.Fields{"client": {After: d.Client}, "approved_from": {After: approved.Peer}}
		if err := change.Make(access.With(ctx, c), s.Kit, tx, "session.create", change.AuditOnly(target), fields); err != nil {
			return err
		}
	}
	return nil
}

func clientName(text string) (string, error) {
	name := strings.TrimSpace(text)
	switch {
	case name == "":
		return "", fault.InvalidField("client_name", "say what signs in, such as \"corvo on ada-laptop\"")
	case utf8.RuneCountInString(name) > clientNameMax:
		return "", fault.InvalidField("client_name", "can't have more than %d characters", clientNameMax)
	// Marks of direction too: they would make a page show something else.
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "", fault.InvalidField("client_name", "can't contain control characters")
	}
	return name, nil
}

// clip bounds text that a client chooses.
func clip(s string) string {
	const limit = 300
	return s[:min(limit, len(s))]
}

func seconds(d time.Duration) int32 { return int32(d / time.Second) }
