package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

// Machines without a stored key: which tokens of which issuers are accepted, and exchanging
// one.

func (t *tenantCall) trusts() cloudv1connect.TrustServiceClient {
	return cloudv1connect.NewTrustServiceClient(t.http, t.endpoint)
}

// trustFlags are those of trusts create and trusts update.
type trustFlags struct {
	github, gitlab, kubernetes, jwksFile string
	conditions                           []string
	life                                 time.Duration
	// to is what the trust shall be.
	to cloudv1.UpdateTrustRequest
}

// changeable are the flags that trusts update takes, but for the name.
var changeable = []string{"github", "gitlab", "kubernetes", "condition", "jwks-file", "audience", "life", "allow-reuse", "in", "permission", "queue", "cidr"} // Never changed.

func (f *trustFlags) add(c *cobra.Command, life time.Duration, kubernetes, audience string) {
	fs := c.Flags()
	fs.StringVar(&f.github, "github", "", "GitHub Actions of this `OWNER/REPOSITORY`")
	fs.StringVar(&f.gitlab, "gitlab", "", "GitLab CI of this `GROUP/PROJECT`")
	fs.StringVar(&f.kubernetes, "kubernetes", "", "Kubernetes service account `NAMESPACE:NAME`"+kubernetes)
	fs.StringVar(&f.jwksFile, "jwks-file", "", "`FILE` with the issuer's public keys, if the service can't reach it")
	fs.StringVar(&f.to.Audience, "audience", "", "`TEXT` that tokens must be for"+audience)
	fs.StringArrayVar(&f.conditions, "condition", nil, "`CLAIM=VALUE` that tokens must have; repeatable")
	fs.DurationVar(&f.life, "life", life, "how long a key works, 5m to 1h")
	fs.BoolVar(&f.to.AllowReuse, "allow-reuse", false, "a token can be exchanged again until it ends")
	narrowing(c, &f.to.Namespaces, &f.to.Permissions, &f.to.Queues, &f.to.Cidrs)
}

func (s *session) trustVerbs() []verb {
	var made, edit trustFlags
	var account, owner, provider, issuer string
	var command *cobra.Command
	header := []string{"ID", "NAME", "SERVICE ACCOUNT", "ISSUER", "CONDITIONS", "KEY LIFE", "USED"}
	row := func(v *cloudv1.Trust) []string {
		var conditions []string
		for _, c := range v.GetConditions() {
			conditions = append(conditions, c.GetClaim()+"="+strings.Join(c.GetValues(), "|"))
		}
		return []string{v.GetId(), v.GetName(), v.GetServiceAccount(), v.GetIssuer(), listOf(conditions), (time.Duration(v.GetKeyLifeSeconds()) * time.Second).String(), when(v.GetLastUsedAt())}
	}
	find := func(t *tenantCall, nameOrID string) (*cloudv1.Trust, error) {
		res, err := tell(t, t.trusts().GetTrust, &cloudv1.GetTrustRequest{Tenant: t.tenant, Trust: nameOrID})
		return res.GetTrust(), err
	}
	return []verb{
		s.ofTenant(verb{
			noun: "trusts list", short: "List trusts", example: "  {cmd}\n  {cmd} --service-account deploy",
			flags: func(c *cobra.Command) {
				c.Flags().StringVar(&account, "service-account", "", "only those of this `ACCOUNT`, by name or id")
			},
		}, func(t *tenantCall, _ []string) error {
			id := account
			if id != "" {
				res, err := tell(t, t.accounts.GetServiceAccount, &cloudv1.GetServiceAccountRequest{Tenant: t.tenant, ServiceAccount: id})
				if err != nil {
					return err
				}
				id = res.GetServiceAccount().GetId()
			}
			all, err := everyPage(func(token string) ([]*cloudv1.Trust, string, error) {
				res, err := tell(t, t.trusts().ListTrusts, &cloudv1.ListTrustsRequest{Tenant: t.tenant, PageSize: accessPage, PageToken: token, ServiceAccountId: id})
				return res.GetTrusts(), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return printThings(s, all, header, row)
		}),
		s.ofTenant(verb{noun: "trusts get", args: "TRUST", short: "Show a trust", example: "  {cmd} web"}, func(t *tenantCall, args []string) error {
			v, err := find(t, args[0])
			if err != nil {
				return err
			}
			return printThings(s, []*cloudv1.Trust{v}, header, row)
		}),
		s.ofTenant(verb{
			noun: "trusts create", args: "NAME", short: "Let tokens of GitHub, GitLab or a cluster be exchanged for keys of a service account",
			long: `Tokens of the issuer that meet every condition can be exchanged for a key of the service account
(corvo token exchange), which ends by itself after some minutes. Several values of one claim are
alternatives; a value can end with *.`,
			example: `  {cmd} web --service-account deploy --github acme/web --condition ref=refs/heads/main
  {cmd} web --service-account deploy --gitlab acme/web --condition ref_protected=true
  {cmd} web --service-account web --kubernetes prod:web --issuer https://kubernetes.default.svc --jwks-file jwks.json`,
			flags: func(c *cobra.Command) {
				made.add(c, 15*time.Minute, "; needs --issuer", " (default: the service's address, a slash and the tenant)")
				c.Flags().StringVar(&owner, "service-account", "", "service `ACCOUNT` whose keys are given, by name or id")
				c.Flags().StringVar(&provider, "provider", "", "`PROVIDER` if none of those: github, gitlab, kubernetes or other")
				completeWords(c, "provider", "github", "gitlab", "kubernetes", "other")
				c.Flags().StringVar(&issuer, "issuer", "", "`URL` of the issuer (default: GitHub's, or gitlab.com)")
			},
		}, func(t *tenantCall, args []string) error {
			of, err := made.read(provider)
			if err != nil {
				return err
			}
			if of == 0 {
				return usagef("use one of --github, --gitlab, --kubernetes and --provider")
			}
			to := &made.to
			res, err := tell(t, t.trusts().CreateTrust, &cloudv1.CreateTrustRequest{
				Tenant: t.tenant, Name: args[0], ServiceAccount: owner, Provider: of, Issuer: issuer, Jwks: to.GetJwks(), Audience: to.GetAudience(),
				Conditions: to.GetConditions(), Permissions: to.GetPermissions(), Namespaces: to.GetNamespaces(), Queues: to.GetQueues(), Cidrs: to.GetCidrs(),
				KeyLifeSeconds: to.GetKeyLifeSeconds(), AllowReuse: to.GetAllowReuse(),
			})
			if err != nil {
				return err
			}
			return printThings(s, []*cloudv1.Trust{res.GetTrust()}, header, row)
		}),
		s.ofTenant(verb{
			noun: "trusts update", args: "TRUST", short: "Rename a trust, or change which tokens it accepts and what its keys are narrowed to",
			long: `Conditions replace all that the trust has, and so does each list that narrows its keys. The keys that the
trust gave are revoked, unless only --name or --life changes. Service account and issuer stay; create
another trust for others.`,
			example: "  {cmd} web --github acme/web --condition ref=refs/heads/main --condition ref='refs/tags/v*'\n  {cmd} web --life 5m\n  {cmd} web --queue ''\n  {cmd} web --jwks-file jwks.json",
			flags: func(c *cobra.Command) {
				command = c
				c.Flags().StringVar(&edit.to.Name, "name", "", "new `NAME`")
				edit.add(c, 0, "", "")
			},
		}, func(t *tenantCall, args []string) error {
			mask, err := changed(command, append([]string{"name"}, changeable...)...)
			if err != nil {
				return err
			}
			of, err := edit.read("")
			if err != nil {
				return err
			}
			v, err := find(t, args[0])
			if err != nil {
				return err
			}
			if of != 0 && of != v.GetProvider() {
				return usagef("this trust is for tokens of %s, and that can't change; create another trust", trustProvider(v))
			}
			edit.to.Tenant, edit.to.TrustId, edit.to.Etag, edit.to.UpdateMask = t.tenant, v.GetId(), v.GetEtag(), mask
			res, err := tell(t, t.trusts().UpdateTrust, &edit.to)
			if err != nil {
				return err
			}
			return printThings(s, []*cloudv1.Trust{res.GetTrust()}, header, row)
		}),
		s.ofTenant(verb{noun: "trusts delete", args: "TRUST", short: "Delete a trust, and revoke the keys that it gave", example: "  {cmd} web"}, func(t *tenantCall, args []string) error {
			v, err := find(t, args[0])
			if err != nil {
				return err
			}
			if _, err := tell(t, t.trusts().DeleteTrust, &cloudv1.DeleteTrustRequest{Tenant: t.tenant, TrustId: v.GetId()}); err != nil {
				return err
			}
			return t.done(v, v.GetId(), "deleted")
		}),
	}
}

func trustProvider(v *cloudv1.Trust) string {
	return strings.ToLower(strings.TrimPrefix(v.GetProvider().String(), "TRUST_PROVIDER_"))
}

// read fills in what the flags say of conditions, public keys and life, and tells the provider
// that they are about: 0 if they name none.
func (f *trustFlags) read(provider string) (of cloudv1.TrustProvider, _ error) {
	type preset struct {
		provider     cloudv1.TrustProvider
		claim, value string
	}
	cluster := f.kubernetes
	if cluster != "" {
		cluster = "system:serviceaccount:" + cluster
	}
	var chosen []preset
	for name, p := range map[string]preset{
		"github":     {cloudv1.TrustProvider_TRUST_PROVIDER_GITHUB, "repository", f.github},
		"gitlab":     {cloudv1.TrustProvider_TRUST_PROVIDER_GITLAB, "project_path", f.gitlab},
		"kubernetes": {cloudv1.TrustProvider_TRUST_PROVIDER_KUBERNETES, "sub", cluster},
		"other":      {cloudv1.TrustProvider_TRUST_PROVIDER_OTHER, "", ""},
	} {
		if p.value != "" || provider == name {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) > 1 {
		return 0, usagef("use one of --github, --gitlab, --kubernetes and --provider")
	}
	r := &f.to
	r.KeyLifeSeconds = int64(f.life.Seconds())
	add := func(claim, value string) {
		i := slices.IndexFunc(r.GetConditions(), func(c *cloudv1.TrustCondition) bool { return c.GetClaim() == claim })
		if i < 0 {
			i, r.Conditions = len(r.GetConditions()), append(r.GetConditions(), &cloudv1.TrustCondition{Claim: claim})
		}
		r.Conditions[i].Values = append(r.Conditions[i].Values, value)
	}
	for _, p := range chosen {
		if of = p.provider; p.value != "" {
			add(p.claim, p.value)
		}
	}
	for _, text := range f.conditions {
		claim, value, ok := strings.Cut(text, "=")
		if !ok || claim == "" || value == "" {
			return 0, usagef("--condition %q isn't CLAIM=VALUE", text)
		}
		add(claim, value)
	}
	if f.jwksFile != "" {
		raw, err := os.ReadFile(f.jwksFile)
		if err != nil {
			return 0, usagef("--jwks-file: %s", err)
		}
		r.Jwks = string(raw)
	}
	return of, nil
}

// exchangeFlags are those of token exchange.
type exchangeFlags struct {
	endpoint, tenant, trust, audience, tokenEnv, tokenFile string
}

const (
	envGitHubURL   = "ACTIONS_ID_TOKEN_REQUEST_URL"
	envGitHubToken = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
	// envIDToken is how our examples call GitLab's.
	envIDToken = "CORVO_ID_TOKEN"
	// tokenFileDefault is where our examples project a cluster's.
	tokenFileDefault = "/var/run/secrets/corvo/token"
	idTokenMax       = 64 << 10
)

func (s *session) exchangeVerb() verb {
	var f exchangeFlags
	return verb{
		noun: "token exchange", short: "Exchange a token of this CI job or pod for a key that lasts minutes",
		long: `Finds the token that GitHub Actions, GitLab CI or Kubernetes gives to this job or pod, exchanges it, and
prints the key. The key works as CORVO_API_KEY and as CORVO_TOKEN until it ends. No key is stored anywhere.
The token is looked for in --token-file, --token-env, GitHub's ` + envGitHubURL + `,
` + envIDToken + ` and ` + tokenFileDefault + `, in this order.`,
		example: "  export CORVO_API_KEY=$({cmd} --tenant acme)\n  {cmd} --tenant acme --token-env CORVO_ID_TOKEN\n  {cmd} --tenant acme --token-file /var/run/secrets/corvo/token --output json",
		flags:   f.add,
		run:     func(c *cobra.Command, _ []string) error { return s.exchange(c.Context(), f) },
	}
}

func (f *exchangeFlags) add(c *cobra.Command) {
	endpointFlag(c, &f.endpoint)
	fs := c.Flags()
	fs.StringVar(&f.tenant, "tenant", "", "`NAME` of the tenant (env CORVO_TENANT)")
	fs.StringVar(&f.trust, "trust", "", "`TRUST` that shall accept the token, if several do")
	fs.StringVar(&f.audience, "audience", "", "`TEXT` that GitHub's token shall be for (default: the service's address, a slash and the tenant)")
	fs.StringVar(&f.tokenEnv, "token-env", "", "read the token from this environment `VARIABLE`")
	fs.StringVar(&f.tokenFile, "token-file", "", "read the token from `FILE`, - for stdin")
}

func (s *session) exchange(ctx context.Context, f exchangeFlags) error {
	x, err := s.exchanger(f)
	if err != nil {
		return err
	}
	res, err := x.once(ctx)
	if err != nil {
		return err
	}
	if res.GetSync() != cloudv1.Sync_SYNC_READY {
		s.talkf("the key isn't known everywhere yet; it will be in some seconds")
	}
	return s.emitMessage(res, func(w io.Writer) { fmt.Fprintln(w, res.GetKey()) })
}

// exchanger exchanges this job's or pod's token, each time the one that it has by then.
type exchanger struct {
	s     *session
	at    *cloud
	f     exchangeFlags
	first *cloudv1.ExchangeTokenResponse // Not used yet.
}

func (s *session) exchanger(f exchangeFlags) (*exchanger, error) {
	at, err := s.cloud(f.endpoint)
	if err != nil {
		return nil, err
	}
	at.token = "" // This call is made by nobody known.
	if f.tenant = cmp.Or(f.tenant, s.proc.Env("CORVO_TENANT")); f.tenant == "" {
		return nil, usagef("name the tenant with --tenant or CORVO_TENANT")
	}
	return &exchanger{s: s, at: at, f: f}, nil
}

func (x *exchanger) once(ctx context.Context) (*cloudv1.ExchangeTokenResponse, error) {
	token, err := x.s.ownToken(ctx, x.at, x.f)
	if err != nil {
		return nil, err
	}
	client := cloudv1connect.NewTrustServiceClient(x.at.http, x.at.endpoint)
	return ask(ctx, x.at, x.s, client.ExchangeToken, &cloudv1.ExchangeTokenRequest{Tenant: x.f.tenant, Token: token, Trust: x.f.trust})
}

// Key implements corvo.KeySource.
func (x *exchanger) Key(ctx context.Context) (key string, ends time.Time, err error) {
	res := x.first
	if x.first = nil; res == nil {
		if res, err = x.once(ctx); err != nil {
			return "", ends, keyFailure(err)
		}
	}
	return res.GetKey(), res.GetExpiresAt().AsTime(), nil
}

// keyFailure says whether there will be a key later.
func keyFailure(err error) error {
	if f := new(Failure); errors.As(err, &f) && f.Exit == ExitAuth {
		return fmt.Errorf("%w: %w", corvo.ErrUnauthorized, err)
	}
	return err
}

// ownToken finds the token of this job or pod.
func (s *session) ownToken(ctx context.Context, at *cloud, f exchangeFlags) (string, error) {
	switch {
	case f.tokenFile == "-":
		return readIDToken(s.proc.Stdin, "stdin")
	case f.tokenFile != "":
		return idTokenFile(f.tokenFile)
	case f.tokenEnv != "":
		if token := strings.TrimSpace(s.proc.Env(f.tokenEnv)); token != "" {
			return token, nil
		}
		return "", noIDToken("the environment variable " + f.tokenEnv + " is empty")
	case s.proc.Env(envGitHubURL) != "":
		return s.githubToken(ctx, at, cmp.Or(f.audience, at.endpoint+"/"+f.tenant))
	case s.proc.Env(envIDToken) != "":
		return strings.TrimSpace(s.proc.Env(envIDToken)), nil
	}
	if _, err := os.Stat(tokenFileDefault); err == nil {
		return idTokenFile(tokenFileDefault)
	}
	if s.proc.Env("GITHUB_ACTIONS") == "true" {
		return "", &Failure{Exit: ExitAuth, Code: "NO_TOKEN", What: "GitHub gives this job no token", Fix: "add `permissions: id-token: write` to the job"}
	}
	return "", noIDToken("this is no job of GitHub Actions, and there is no " + envIDToken + " or " + tokenFileDefault)
}

func noIDToken(why string) *Failure {
	return &Failure{Exit: ExitAuth, Code: "NO_TOKEN", What: "there is no token to exchange", Why: why, Fix: "say where it is with --token-env or --token-file"}
}

func idTokenFile(name string) (_ string, err error) {
	file, err := os.Open(name)
	if err != nil {
		return "", noIDToken(err.Error())
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return readIDToken(file, name)
}

func readIDToken(r io.Reader, name string) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, idTokenMax))
	if token := strings.TrimSpace(string(raw)); err == nil && token != "" {
		return token, nil
	}
	return "", noIDToken(name + " is empty or can't be read")
}

// githubToken asks the runner for a token.
func (s *session) githubToken(ctx context.Context, at *cloud, audience string) (_ string, err error) {
	failed := func(why string) error {
		return &Failure{Exit: ExitAuth, Code: "NO_TOKEN", What: "GitHub's runner gave no token", Why: why, Fix: "check that the job has `permissions: id-token: write`"}
	}
	u, err := url.Parse(s.proc.Env(envGitHubURL))
	if err != nil || u.Host == "" {
		return "", failed(envGitHubURL + " isn't a URL")
	}
	q := u.Query()
	q.Set("audience", audience)
	u.RawQuery = q.Encode()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", failed(envGitHubURL + " isn't a URL")
	}
	r.Header.Set("Authorization", "Bearer "+s.proc.Env(envGitHubToken))
	res, err := at.http.Do(r)
	if err != nil {
		return "", failed(err.Error())
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	var said struct {
		Value string `json:"value"`
	}
	if res.StatusCode != http.StatusOK {
		return "", failed(fmt.Sprintf("it answered with status %d", res.StatusCode))
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, idTokenMax)).Decode(&said); err != nil || said.Value == "" {
		return "", failed("its answer has no token")
	}
	return said.Value, nil
}
