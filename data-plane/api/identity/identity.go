package identity

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// Headers of an identity, in their canonical spelling.
const (
	HeaderTenant      = "X-Corvo-Tenant"
	HeaderTenantName  = "X-Corvo-Tenant-Name"
	HeaderNamespaceID = "X-Corvo-Namespace-Id"
	// HeaderNamespace is also what a client sends to choose a namespace; the proxy
	// consumes that one and writes its own.
	HeaderNamespace = "X-Corvo-Namespace"
	HeaderPrincipal = "X-Corvo-Principal"
	// HeaderGrants is what the caller may do in the namespace; HeaderOwner is whom the key
	// belongs to.
	HeaderGrants      = "X-Corvo-Grants"
	HeaderOwner       = "X-Corvo-Owner"
	HeaderPeer        = "X-Corvo-Peer"
	HeaderTenantURL   = "X-Corvo-Tenant-Url"
	HeaderPayloadMax  = "X-Corvo-Payload-Max"
	HeaderRequestID   = "X-Corvo-Request-Id"
	HeaderExpires     = "X-Corvo-Expires"
	HeaderProxyStream = "X-Corvo-Proxy-Stream"
	HeaderSignature   = "X-Corvo-Signature"

	// HeaderCell is the cell whose state the proxy decided from: a node of another one
	// refuses the call. It keeps mistakes away, and carries no authority.
	HeaderCell = "X-Corvo-Cell"

	// HeaderIndex and names beginning with HeaderClientPrefix are the client's own: they
	// carry no authority and pass the proxy. HeaderOutcome goes with a refusal for
	// leadership or clocks, between the processes of a cell: it says whether the call was
	// done. HeaderWaited is how long, in milliseconds, a long poll has already waited
	// elsewhere.
	HeaderOutcome  = "X-Corvo-Outcome"
	HeaderWaited   = "X-Corvo-Waited"
	OutcomeNone    = "none"    // Nothing was done.
	OutcomeClock   = "clock"   // Nothing was done, because clocks differ.
	OutcomeCell    = "cell"    // Nothing was done, because the node is of another cell.
	OutcomeUnknown = "unknown" // It is not known.

	HeaderIndex        = "X-Corvo-Index"
	HeaderClientPrefix = "X-Corvo-Client-"
)

const (
	// LifeMax is the longest that a signature may be valid.
	LifeMax = 60 * time.Second
	// SkewMax is how far two clocks of a cell may be apart.
	SkewMax = 30 * time.Second

	valueMax = 2048
)

// Errors of Verify and Sign. External callers must not learn which one it was.
var (
	ErrUnsigned  = errors.New("the identity is not signed")
	ErrSignature = errors.New("the identity's signature is wrong")
	ErrExpired   = errors.New("the identity has expired")
	ErrMalformed = errors.New("the identity is malformed")
)

// Identity is who calls, and with which rights. All fields but Owner, Peer, TenantURL
// and RequestID decide what the call may see or do.
type Identity struct {
	// TenantID is tn_<ulid>; TenantName its label in the tenant URL.
	TenantID   string
	TenantName string
	// NamespaceID is ns_<ulid>; Namespace its name.
	NamespaceID string
	Namespace   string
	// Principal is for example key_<id12>, user:usr_<ulid> for a person, or
	// cell:<name> for the cell itself.
	Principal string
	// Owner is whom a key belongs to, sa_<ulid> or usr_<ulid>; it decides nothing.
	Owner string
	// Grants is what the caller may do in the namespace.
	Grants permission.Here
	// Peer is the address of the client's socket as the proxy saw it.
	Peer string
	// TenantURL is the base URL the client spoke to, without a final slash.
	TenantURL string
	// PayloadBytesMax is the tenant's limit; 0 is unlimited.
	PayloadBytesMax int
	RequestID       string
	// ProxyStream asks a node that does not lead to carry a stream on to the leader.
	ProxyStream bool
	// ExpiresAt is at most LifeMax after signing, in whole seconds.
	ExpiresAt time.Time
}

// CellPrincipal is the identity with which the parts of a cell call each other.
func CellPrincipal(name string, now time.Time) Identity {
	return Identity{Principal: cellPrefix + name, ExpiresAt: now.Add(LifeMax)}
}

const (
	cellPrefix = "cell:"
	// UserPrefix begins the principal of a person, user:usr_<ulid>.
	UserPrefix = "user:"
	userID     = "usr_"
)

// IsPerson reports whether a person calls: one who is signed in, or with a key of their own.
func (id Identity) IsPerson() bool {
	return strings.HasPrefix(id.Principal, UserPrefix) || strings.HasPrefix(id.Owner, userID)
}

// IsCell reports whether the caller is a part of the cell itself. It has no tenant and no
// grants: nothing is signed or verified that says otherwise.
func (id Identity) IsCell() bool {
	return strings.HasPrefix(id.Principal, cellPrefix) && id.TenantID == "" && id.NamespaceID == "" && id.Grants.None()
}

// process is who signed: a part of the cell by its name, or the proxy that
// authenticated somebody else.
func (id Identity) process() string {
	if id.IsCell() {
		return strings.TrimPrefix(id.Principal, cellPrefix)
	}
	return "a proxy"
}

// Signer writes and checks identities with the secrets of one cell: it signs with the
// first, and accepts all. It is safe for concurrent use.
type Signer struct {
	macs *cellsecret.Derived[*sync.Pool]
}

// NewSigner makes a Signer that follows the cell's secrets.
func NewSigner(secrets *cellsecret.Secrets) (*Signer, error) {
	macs, err := cellsecret.Derive(secrets, func(secret []byte) (*sync.Pool, error) {
		// A key of its own, so that no other use of the cell's secret makes the same MAC.
		key, err := hkdf.Key(sha256.New, secret, nil, "corvo.cell.identity.v1", sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("derive identity key: %w", err)
		}
		return &sync.Pool{New: func() any { return newWork(key) }}, nil
	})
	if err != nil {
		return nil, err
	}
	return &Signer{macs}, nil
}

// work is what one signature needs: reused, because keying HMAC costs more than
// the MAC itself.
type work struct {
	mac hash.Hash
	buf []byte
	sum []byte
}

func newWork(key []byte) *work {
	return &work{mac: hmac.New(sha256.New, key), buf: make([]byte, 0, 512), sum: make([]byte, 0, sha256.Size)}
}

// Secrets are those that the Signer follows.
func (s *Signer) Secrets() *cellsecret.Secrets { return s.macs.From() }

// Sign replaces every identity header in h by those of id, signed for path, the
// decoded path of the request (url.URL.Path).
func (s *Signer) Sign(h http.Header, id Identity, path string) error {
	f, err := id.fields()
	if err != nil {
		return err
	}
	// One array for all values; each slice is cut to its one element, so that an
	// append to a header copies.
	values := make([]string, len(f)+1)
	for i, name := range signedHeaders {
		if f[i] == "" {
			delete(h, name)
			continue
		}
		values[i] = f[i]
		h[name] = values[i : i+1 : i+1]
	}
	_, macs := s.macs.Values()
	w := macs[0].Get().(*work)
	values[len(f)] = base64.RawURLEncoding.EncodeToString(w.macOf(&f, path))
	macs[0].Put(w)
	h[HeaderSignature] = values[len(f):]
	return nil
}

// SignRequest signs r for its own path.
func (s *Signer) SignRequest(r *http.Request, id Identity) error {
	return s.Sign(r.Header, id, r.URL.Path)
}

// Verify returns the identity in h if it was signed for path with the same secret
// and has not expired.
func (s *Signer) Verify(h http.Header, path string, now time.Time) (Identity, error) {
	signature, err := single(h, HeaderSignature)
	if err != nil {
		return Identity{}, err
	}
	if signature == "" {
		return Identity{}, ErrUnsigned
	}
	var f fields
	for i, name := range signedHeaders {
		if f[i], err = single(h, name); err != nil {
			return Identity{}, err
		}
	}
	set, which := s.matches(&f, path, signature)
	if which < 0 {
		return Identity{}, ErrSignature
	}
	// Only what we signed ourselves is interpreted.
	id, err := f.identity()
	if err != nil {
		return Identity{}, err
	}
	if now.After(id.ExpiresAt.Add(SkewMax)) || id.ExpiresAt.After(now.Add(LifeMax+SkewMax)) {
		return Identity{}, ErrExpired
	}
	set.NoteUse(which, id.process(), now)
	return id, nil
}

// VerifyRequest verifies r for its own path.
func (s *Signer) VerifyRequest(r *http.Request, now time.Time) (Identity, error) {
	return s.Verify(r.Header, r.URL.Path, now)
}

// matches finds the secret that made a signature; -1 if none did.
func (s *Signer) matches(f *fields, path, signature string) (set *cellsecret.Set, which int) {
	var got [sha256.Size]byte
	// Strict: otherwise four spellings of the last digit would be the same
	// signature.
	if len(signature) != base64.RawURLEncoding.EncodedLen(len(got)) {
		return nil, -1
	}
	if _, err := base64.RawURLEncoding.Strict().Decode(got[:], []byte(signature)); err != nil {
		return nil, -1
	}
	set, macs := s.macs.Values()
	for i, pool := range macs {
		w := pool.Get().(*work)
		same := hmac.Equal(w.macOf(f, path), got[:])
		pool.Put(w)
		if same {
			return set, i
		}
	}
	return nil, -1
}

// macOf is the MAC of the canonical text: a version, then every field and the path
// with its length before it, so that no two identities have the same text.
func (w *work) macOf(f *fields, path string) []byte {
	b := append(w.buf[:0], "corvo-identity/2"...)
	for i := range f {
		b = appendField(b, f[i])
	}
	b = appendField(b, path)
	w.buf = b
	w.mac.Reset()
	w.mac.Write(b)
	w.sum = w.mac.Sum(w.sum[:0])
	return w.sum
}

func appendField(b []byte, v string) []byte {
	b = append(b, '\n')
	b = strconv.AppendInt(b, int64(len(v)), 10)
	b = append(b, ':')
	return append(b, v...)
}

// signedHeaders is the order of the canonical text. Never reorder; append.
var signedHeaders = [...]string{
	HeaderTenant, HeaderTenantName, HeaderNamespaceID, HeaderNamespace, HeaderPrincipal, HeaderGrants,
	HeaderPeer, HeaderTenantURL, HeaderPayloadMax, HeaderRequestID, HeaderExpires, HeaderProxyStream, HeaderOwner,
}

// grantsField is the place of HeaderGrants, which has a form and a length of its own.
const grantsField = 5

type fields [len(signedHeaders)]string

func (id Identity) fields() (fields, error) {
	f := fields{
		id.TenantID, id.TenantName, id.NamespaceID, id.Namespace, id.Principal, "",
		id.Peer, id.TenantURL, "", id.RequestID, strconv.FormatInt(id.ExpiresAt.Unix(), 10), "", id.Owner,
	}
	if strings.HasPrefix(id.Principal, cellPrefix) && !id.IsCell() {
		return f, fmt.Errorf("%w: a part of the cell with a tenant or grants", ErrMalformed)
	}
	var err error
	if f[grantsField], err = GrantsText(id.Grants); err != nil {
		return f, err
	}
	if id.PayloadBytesMax < 0 {
		return f, fmt.Errorf("%w: negative payload limit", ErrMalformed)
	}
	if id.PayloadBytesMax > 0 {
		f[8] = strconv.Itoa(id.PayloadBytesMax)
	}
	if id.ProxyStream {
		f[11] = "1"
	}
	for i, v := range f {
		if i != grantsField && !isHeaderValue(v) {
			return f, fmt.Errorf("%w: %s cannot stand in a header", ErrMalformed, signedHeaders[i])
		}
	}
	return f, nil
}

func (f *fields) identity() (Identity, error) {
	id := Identity{
		TenantID: f[0], TenantName: f[1], NamespaceID: f[2], Namespace: f[3], Principal: f[4],
		Peer: f[6], TenantURL: f[7], RequestID: f[9], Owner: f[12],
	}
	var err error
	if id.Grants, err = ParseGrants(f[grantsField]); err != nil {
		return Identity{}, err
	}
	if f[8] != "" {
		n, err := strconv.Atoi(f[8])
		if err != nil || n <= 0 {
			return Identity{}, fmt.Errorf("%w: payload limit", ErrMalformed)
		}
		id.PayloadBytesMax = n
	}
	expires, err := strconv.ParseInt(f[10], 10, 64)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: expiry", ErrMalformed)
	}
	id.ExpiresAt = time.Unix(expires, 0)
	switch f[11] {
	case "":
	case "1":
		id.ProxyStream = true
	default:
		return Identity{}, fmt.Errorf("%w: proxy stream", ErrMalformed)
	}
	// The canonical text of this identity must be the signed one.
	again, err := id.fields()
	if err != nil {
		return Identity{}, err
	}
	if again != *f {
		return Identity{}, fmt.Errorf("%w: not canonical", ErrMalformed)
	}
	return id, nil
}

// single returns the only value of a header. It refuses two values, because readers
// could differ in which one counts.
func single(h http.Header, name string) (string, error) {
	switch vs := h[name]; len(vs) {
	case 0:
		return "", nil
	case 1:
		return vs[0], nil
	default:
		return "", fmt.Errorf("%w: %s occurs %d times", ErrMalformed, name, len(vs))
	}
}

// isHeaderValue allows values that arrive unchanged: printable ASCII without spaces
// at the ends.
func isHeaderValue(v string) bool {
	if len(v) > valueMax || strings.TrimSpace(v) != v {
		return false
	}
	for i := range len(v) {
		if v[i] < 0x20 || v[i] > 0x7e {
			return false
		}
	}
	return true
}

// StripExternal removes every X-Corvo-* header a client may not set: all but
// X-Corvo-Index and X-Corvo-Client-*. If X-Corvo-Namespace is needed, read it
// first.
func StripExternal(h http.Header) {
	for name := range h {
		if isInternal(name) {
			delete(h, name)
		}
	}
}

// isInternal also matches spellings that some servers treat as equal.
func isInternal(name string) bool {
	const p = "x-corvo-"
	if len(name) < len(p) || !strings.EqualFold(strings.ReplaceAll(name[:len(p)], "_", "-"), p) {
		return false
	}
	if strings.EqualFold(name, HeaderIndex) {
		return false
	}
	return len(name) < len(HeaderClientPrefix) || !strings.EqualFold(name[:len(HeaderClientPrefix)], HeaderClientPrefix)
}
