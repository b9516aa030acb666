package cloud

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

// Defaults of Options.
const (
	DefaultMaxRetries       = 8
	DefaultRequestTimeout   = 30 * time.Second
	DefaultOperationTimeout = 10 * time.Minute
)

// Options says where the service is and how patient to be.
type Options struct {
	// Endpoint is the base URL of the control API.
	Endpoint string
	// Token is a management key, or a temporary one that an exchange gave.
	Token string
	// Anonymous clients have no token, and can do nothing but exchange one.
	Anonymous bool
	// AllowHTTP permits a clear-text connection to another machine than this one.
	AllowHTTP bool
	// CAPEM holds further certificate authorities to trust.
	CAPEM string
	// MaxRetries is how often a call that failed for a moment is repeated.
	MaxRetries int
	// RequestTimeout bounds each attempt, OperationTimeout everything that one change of
	// a resource does.
	RequestTimeout   time.Duration
	OperationTimeout time.Duration
	UserAgent        string
}

// OptionError is a wrong option.
type OptionError struct {
	// Option is the name that the provider block gives it.
	Option  string
	Problem string
}

// Error implements error.
func (e *OptionError) Error() string { return e.Option + ": " + e.Problem }

// Client speaks to one service as one key. It is safe for concurrent use.
type Client struct {
	namespaces cloudv1connect.NamespaceServiceClient
	keys       cloudv1connect.ApiKeyServiceClient
	auth       cloudv1connect.AuthServiceClient
	roles      cloudv1connect.RoleServiceClient
	accounts   cloudv1connect.ServiceAccountServiceClient
	groups     cloudv1connect.GroupServiceClient
	domains    cloudv1connect.DomainServiceClient
	members    cloudv1connect.MemberServiceClient
	policy     cloudv1connect.PolicyServiceClient
	trusts     cloudv1connect.TrustServiceClient
	audit      cloudv1connect.AuditServiceClient
	plans      cloudv1connect.PlanServiceClient
	usage      cloudv1connect.UsageServiceClient
	sso        cloudv1connect.SsoServiceClient
	directory  cloudv1connect.DirectoryServiceClient

	http      *http.Client
	token     string
	userAgent string
	allowHTTP bool
	patience  patience
	operation time.Duration

	mu       sync.Mutex
	identity *Identity // Guarded by mu; nil until it was asked for.

	claimed sync.Map // By the id of a record: there is a value if this process has it.
}

// New makes a client. It makes no call.
func New(o Options) (*Client, error) {
	endpoint, err := checkURL(o.Endpoint, o.AllowHTTP)
	if err != nil {
		return nil, &OptionError{"endpoint", err.Error()}
	}
	if before, _, isTenant := strings.Cut(endpoint+"/", "/t/"); isTenant {
		return nil, &OptionError{"endpoint", fmt.Sprintf("%s is a tenant URL; use %s", o.Endpoint, before)}
	}
	if o.Anonymous {
		o.Token = ""
	} else if err := checkToken(o.Token); err != nil {
		return nil, err
	}
	transport, err := newTransport(o.CAPEM)
	if err != nil {
		return nil, err
	}
	c := &Client{
		http: &http.Client{
			Transport: listening{transport},
			// The token is for the endpoint and for nobody whom it names.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		token:     o.Token,
		userAgent: o.UserAgent,
		allowHTTP: o.AllowHTTP,
		patience:  patience{retries: o.MaxRetries, each: o.RequestTimeout, first: 200 * time.Millisecond, most: 10 * time.Second, poll: 2 * time.Second},
		operation: o.OperationTimeout,
	}
	opts := connect.WithInterceptors(connect.UnaryInterceptorFunc(c.intercept))
	c.namespaces = cloudv1connect.NewNamespaceServiceClient(c.http, endpoint, opts)
	c.keys = cloudv1connect.NewApiKeyServiceClient(c.http, endpoint, opts)
	c.auth = cloudv1connect.NewAuthServiceClient(c.http, endpoint, opts)
	c.roles = cloudv1connect.NewRoleServiceClient(c.http, endpoint, opts)
	c.accounts = cloudv1connect.NewServiceAccountServiceClient(c.http, endpoint, opts)
	c.groups = cloudv1connect.NewGroupServiceClient(c.http, endpoint, opts)
	c.domains = cloudv1connect.NewDomainServiceClient(c.http, endpoint, opts)
	c.members = cloudv1connect.NewMemberServiceClient(c.http, endpoint, opts)
	c.policy = cloudv1connect.NewPolicyServiceClient(c.http, endpoint, opts)
	c.trusts = cloudv1connect.NewTrustServiceClient(c.http, endpoint, opts)
	c.audit = cloudv1connect.NewAuditServiceClient(c.http, endpoint, opts)
	c.plans = cloudv1connect.NewPlanServiceClient(c.http, endpoint, opts)
	c.usage = cloudv1connect.NewUsageServiceClient(c.http, endpoint, opts)
	c.sso = cloudv1connect.NewSsoServiceClient(c.http, endpoint, opts)
	c.directory = cloudv1connect.NewDirectoryServiceClient(c.http, endpoint, opts)
	return c, nil
}

// Namespaces speaks about namespaces. Errors of its calls are *Error.
func (c *Client) Namespaces() cloudv1connect.NamespaceServiceClient { return c.namespaces }

// Keys speaks about API keys. Errors of its calls are *Error.
func (c *Client) Keys() cloudv1connect.ApiKeyServiceClient { return c.keys }

// Roles speaks about roles, role bindings and permissions. Errors of its calls are *Error.
func (c *Client) Roles() cloudv1connect.RoleServiceClient { return c.roles }

// ServiceAccounts speaks about service accounts. Errors of its calls are *Error.
func (c *Client) ServiceAccounts() cloudv1connect.ServiceAccountServiceClient { return c.accounts }

// Groups speaks about groups and who is in them. Errors of its calls are *Error.
func (c *Client) Groups() cloudv1connect.GroupServiceClient { return c.groups }

// Policy speaks about the sign-in policy. Errors of its calls are *Error.
func (c *Client) Policy() cloudv1connect.PolicyServiceClient { return c.policy }

// Domains speaks about domains. Errors of its calls are *Error.
func (c *Client) Domains() cloudv1connect.DomainServiceClient { return c.domains }

// Members speaks about members and invitations. Errors of its calls are *Error.
func (c *Client) Members() cloudv1connect.MemberServiceClient { return c.members }

// Trusts speaks about outside issuers of tokens, and exchanges these. Errors of its calls are
// *Error.
func (c *Client) Trusts() cloudv1connect.TrustServiceClient { return c.trusts }

// Audit speaks about the audit log's sinks. Errors of its calls are *Error.
func (c *Client) Audit() cloudv1connect.AuditServiceClient { return c.audit }

// Plans speaks about the tenant's plan. Errors of its calls are *Error.
func (c *Client) Plans() cloudv1connect.PlanServiceClient { return c.plans }

// Usage speaks about what was counted, what it costs, and the spend limit. Errors of its calls
// are *Error.
func (c *Client) Usage() cloudv1connect.UsageServiceClient { return c.usage }

// Connections speaks about SSO connections. Errors of its calls are *Error.
func (c *Client) Connections() cloudv1connect.SsoServiceClient { return c.sso }

// Directory speaks about directory sync. Errors of its calls are *Error.
func (c *Client) Directory() cloudv1connect.DirectoryServiceClient { return c.directory }

// Claim notes that this process manages the record of an id; false if it did so before.
func (c *Client) Claim(id string) bool {
	_, before := c.claimed.LoadOrStore(id, true)
	return !before
}

// Operation bounds everything that one change of a resource does.
func (c *Client) Operation(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.operation)
}

// intercept authenticates, repeats and translates the error of every call.
func (c *Client) intercept(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		switch {
		case req.Spec().Procedure == cloudv1connect.TrustServiceExchangeTokenProcedure: // Made by nobody known.
		case c.token == "":
			return nil, &Error{Kind: Failed, Call: path.Base(req.Spec().Procedure), Message: "this provider block is anonymous and has no token",
				Help: "Only the ephemeral resource corvo_access_token works with it. Use another provider block for everything else."}
		default:
			req.Header().Set("Authorization", "Bearer "+c.token)
		}
		req.Header().Set("User-Agent", c.userAgent)
		var res connect.AnyResponse
		err := c.patience.try(ctx, func(ctx context.Context) error {
			var heard http.Header
			var err error
			if res, err = next(context.WithValue(ctx, heardKey{}, &heard), req); err != nil {
				return fromRPC(req.Spec(), err, heard)
			}
			return nil
		})
		return res, err
	}
}

// listening notes the headers of an answer for whoever asked: of one that a proxy gave
// instead of the service, Connect keeps the status only, and not when to come back.
type listening struct{ http.RoundTripper }

type heardKey struct{}

// RoundTrip implements http.RoundTripper.
func (l listening) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(req)
	if heard, ok := req.Context().Value(heardKey{}).(*http.Header); ok && err == nil {
		*heard = res.Header
	}
	return res, err
}

// checkURL refuses addresses at which a token could be read on the way.
func checkURL(raw string, allowHTTP bool) (string, error) {
	if raw == "" {
		return "", fmt.Errorf("isn't set: use the base URL of the service, such as https://app.corvo.cloud")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%q isn't a URL such as https://app.corvo.cloud", raw)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("can't contain credentials, a query or a fragment")
	}
	switch u.Scheme {
	case "https":
	case "http":
		if !allowHTTP && !isLoopback(u.Hostname()) {
			return "", fmt.Errorf("%s://%s would send the token over the network in plain text: use https, or set allow_http if the network is private", u.Scheme, u.Host)
		}
	default:
		return "", fmt.Errorf("scheme %q isn't https", u.Scheme)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// checkToken never repeats any part of the token.
func checkToken(token string) error {
	if token == "" {
		return &OptionError{"token", "isn't set: use a management key (corvo_mg_…), preferably in the environment variable CORVO_TOKEN"}
	}
	k, err := apikey.Parse(token)
	if err != nil {
		return &OptionError{"token", err.Error()}
	}
	if k.Kind() != apikey.Management && k.Kind() != apikey.Temporary {
		return &OptionError{"token", fmt.Sprintf("%s is a key of kind %s; Terraform needs a management key (corvo_mg_…), or a temporary one (corvo_tmp_…)", k.ID(), k.Kind())}
	}
	return nil
}

func newTransport(caPEM string) (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone() // The standard library's own.
	// Terraform changes ten resources at a time by default, and may be told to do more.
	t.MaxIdleConnsPerHost = 64
	if caPEM == "" {
		return t, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM([]byte(caPEM)) {
		return nil, &OptionError{"ca_pem", "contains no PEM certificate"}
	}
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}
