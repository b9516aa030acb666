package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/browser"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// headerForwarded is the loop guard between a node and the leader. It counts only
// on a request whose identity is rightly signed: nobody outside a cell can set it.
const headerForwarded = "X-Corvo-Forwarded"

func unauthorized(message string) error {
	return fault.New(fault.Unauthorized, "UNAUTHORIZED", "%s", message)
}

const (
	wordClockSkew = "CLOCK_SKEW"
	wordWrongCell = "WRONG_CELL"
)

// skewLogEvery is how often the log says that calls are signed in another time: every
// call of every client fails by it.
const skewLogEvery = 10 * time.Second

// errClockSkew: two processes of the cell disagree about the time. It is not the
// caller's doing, so it is no 401, upon which clients give up.
func errClockSkew() error {
	return &fault.Error{
		Code: fault.Unavailable, Reason: wordClockSkew, RetryAfter: time.Second,
		Message: "the clocks of two machines of this service differ too much; nothing was done, try again in a moment",
	}
}

// Signed trusts identities that a proxy or a node of the same cell has signed, and
// nothing else.
type Signed struct {
	signer  *identity.Signer
	now     func() time.Time
	cell    func() string
	refused func(c queue.Caller, p permission.Permission, queue string)
	log     *slog.Logger
	skew    skewLog
}

// skewLog counts what was refused because of clocks since the log last told of it.
type skewLog struct {
	mu      sync.Mutex // Guards the rest.
	told    time.Time
	refused int
}

// add reports whether the log is to tell of one more, and of how many since.
func (s *skewLog) add(now time.Time) (refused int, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused++
	if since := now.Sub(s.told); since >= 0 && since < skewLogEvery { // The wall may go back.
		return 0, false
	}
	refused, s.refused, s.told = s.refused, 0, now
	return refused, true
}

// NewSigned makes the authenticator of a node in a cell, whose id is empty until it is known.
// Whatever its callers may not do, refused is told.
func NewSigned(signer *identity.Signer, now func() time.Time, cell func() string, refused func(c queue.Caller, p permission.Permission, queue string), log *slog.Logger) *Signed {
	return &Signed{signer: signer, now: now, cell: cell, refused: refused, log: log}
}

// Authenticate implements Authenticator.
func (s *Signed) Authenticate(r *http.Request) (*Principal, error) {
	id, err := s.signer.VerifyRequest(r, s.now())
	if err != nil {
		if errors.Is(err, identity.ErrExpired) { // Rightly signed: by a part of the cell.
			if n, tell := s.skew.add(s.now()); tell {
				s.log.Warn("calls were signed in another time: clocks of the cell differ", "calls", n, "path", r.URL.Path, "peer", r.RemoteAddr)
			}
			return nil, errClockSkew()
		}
		// The caller must not learn which check failed.
		s.log.Debug("identity refused", "path", r.URL.Path, "peer", r.RemoteAddr, "err", err)
		return nil, unauthorized("this address is only for the cell's proxies; use your tenant URL")
	}
	if theirs, ours := r.Header.Get(identity.HeaderCell), s.cell(); theirs != "" && theirs != ours {
		s.log.Info("a call for another cell was refused", "cell", theirs, "ours", ours, "peer", r.RemoteAddr)
		return nil, &fault.Error{
			Code: fault.Unavailable, Reason: wordWrongCell, RetryAfter: time.Second, Message: "this node belongs to another cell; nothing was done, try again in a moment",
		}
	}
	p := &Principal{Identity: id, Forwarded: r.Header.Get(headerForwarded) == "1"}
	if id.IsCell() {
		return p, nil // May do no tenant's action; admin routes ask for the role.
	}
	ns, err := job.ParseNamespace(id.NamespaceID)
	if err != nil {
		s.log.Warn("signed identity without a namespace", "principal", id.Principal, "namespace_id", id.NamespaceID)
		return nil, unauthorized("the caller has no namespace")
	}
	p.Caller = callerOf(id, ns)
	p.Caller.Refused = s.refused
	return p, nil
}

func callerOf(id identity.Identity, ns job.Namespace) queue.Caller {
	return queue.Caller{
		Namespace: ns, Tenant: id.TenantID, Principal: id.Principal, Owner: id.Owner, Person: id.IsPerson(), Peer: id.Peer,
		PayloadBytesMax: id.PayloadBytesMax, Rights: id.Grants,
	}
}

// Key is what is stored about an API key.
type Key struct {
	// Digests are those of the accepted secrets: two while a key is rotated.
	Digests [][sha256.Size]byte
	// Namespaces the key may use by name; Default is one of them.
	Namespaces map[string]job.Namespace
	Default    string
	Grants     permission.Grants
	// Owner is whom the key belongs to.
	Owner    string
	NotAfter time.Time // Zero: never expires.
	Revoked  bool
	// Networks are those from which the key counts.
	Networks clientnet.Networks
}

// Keys looks keys up in memory.
type Keys interface {
	// LookupKey finds a key by its public id, key_<id12>. It answers an
	// Unavailable fault when the store is not current enough to refuse anybody.
	LookupKey(id string) (Key, bool, error)
}

// KeyAuth checks API keys itself: the authenticator of a server without a proxy.
type KeyAuth struct {
	keys    Keys
	now     func() time.Time
	browser http.CrossOriginProtection
}

// NewKeyAuth makes a KeyAuth over keys.
func NewKeyAuth(keys Keys, now func() time.Time) *KeyAuth { return &KeyAuth{keys: keys, now: now} }

// Authenticate implements Authenticator.
func (k *KeyAuth) Authenticate(r *http.Request) (*Principal, error) {
	text, fromCookie := browser.Credential(r)
	if text == "" {
		return nil, unauthorized("no API key: send it in X-API-Key or as a bearer token")
	}
	if fromCookie && k.browser.Check(r) != nil { // A browser adds cookies to what other sites send.
		return nil, fault.New(fault.Forbidden, "FORBIDDEN", "a key in a cookie isn't accepted from another site")
	}
	parsed, err := apikey.Parse(text)
	if err != nil || parsed.Kind() != apikey.DataPlane && parsed.Kind() != apikey.Management {
		return nil, errBadKey()
	}
	peer := peerOf(r)
	key, err := k.check(parsed, peer)
	if err != nil {
		return nil, err
	}
	name, ok := askedNamespace(r, key.Default)
	ns, known := key.Namespaces[name]
	if !ok || !known {
		return nil, errNoNamespace()
	}
	id := identity.Identity{
		NamespaceID: ns.String(), Namespace: name, Principal: parsed.ID(), Owner: key.Owner, Grants: key.Grants.At(ns.String()), Peer: peer,
	}
	if id.Grants.None() {
		return nil, errNoNamespace()
	}
	return &Principal{
		Identity: id,
		Caller:   callerOf(id, ns),
		Recheck:  func() error { return k.recheck(parsed, id) },
	}, nil
}

// recheck is for a stream that is open: its key must still be good, and good for the same.
func (k *KeyAuth) recheck(parsed apikey.Key, id identity.Identity) error {
	key, err := k.check(parsed, id.Peer)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(key.Grants.At(id.NamespaceID), id.Grants) {
		return unauthorized("what the API key may do was changed; connect again")
	}
	return nil
}

func (k *KeyAuth) check(parsed apikey.Key, peer string) (Key, error) {
	key, found, err := k.keys.LookupKey(parsed.ID())
	if err != nil {
		return Key{}, err
	}
	digest := parsed.Digest()
	match := 0
	for i := range key.Digests {
		match |= subtle.ConstantTimeCompare(digest[:], key.Digests[i][:])
	}
	if found && match == 1 && !key.Networks.Has(peer) {
		return Key{}, fault.New(fault.Forbidden, "FORBIDDEN", "this API key can't be used from this address: it is limited to certain networks")
	}
	if !found || match != 1 || key.Revoked || (!key.NotAfter.IsZero() && k.now().After(key.NotAfter)) {
		return Key{}, errBadKey()
	}
	return key, nil
}

func errNoNamespace() error {
	return fault.New(fault.NotFound, "NOT_FOUND", "this API key has no such namespace")
}

// errBadKey says the same for every reason.
func errBadKey() error { return unauthorized("the API key is invalid") }

// askedNamespace is the one the caller picks, or the one it gets by default; two are none.
func askedNamespace(r *http.Request, otherwise string) (string, bool) {
	asked := r.Header[identity.HeaderNamespace]
	if len(asked) == 0 || len(asked) == 1 && asked[0] == "" {
		return otherwise, true
	}
	return asked[0], len(asked) == 1
}

// peerOf is the address of the client's socket without the port.
func peerOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// Open makes everybody the administrator of one namespace. It must only listen on
// loopback.
type Open struct{ ns job.Namespace }

// openNamespace is the name of the one namespace of a server without keys.
const openNamespace = "default"

// NewOpen makes the authenticator of a server without keys.
func NewOpen(ns job.Namespace) *Open { return &Open{ns: ns} }

// Authenticate implements Authenticator.
func (o *Open) Authenticate(r *http.Request) (*Principal, error) {
	if name, ok := askedNamespace(r, openNamespace); !ok || name != openNamespace {
		return nil, fault.New(fault.NotFound, "NOT_FOUND", "this namespace does not exist; this server has only %s", openNamespace)
	}
	id := identity.Identity{
		NamespaceID: o.ns.String(), Namespace: openNamespace, Principal: "anonymous",
		Grants: permission.Here{All: permission.OfLevel(permission.OfNamespace)}, Peer: peerOf(r),
	}
	return &Principal{Identity: id, Caller: callerOf(id, o.ns)}, nil
}
