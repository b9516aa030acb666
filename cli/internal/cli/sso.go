package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// envClientSecret has the client secret, so that it is in no list of processes.
const envClientSecret = "CORVO_SSO_CLIENT_SECRET"

// ssoFlags are the settings of a connection.
type ssoFlags struct {
	c                                              *cobra.Command
	name, issuer, clientID, claim, role            string
	metadataURL, metadataFile, emailAttr, nameAttr string
	scopes, maps                                   []string
	saml, sign, encrypted, idpInitiated            bool
}

func (f *ssoFlags) add(c *cobra.Command) {
	f.c = c
	fs := c.Flags()
	fs.StringVar(&f.issuer, "issuer", "", "`URL` of the OpenID Connect provider")
	fs.StringVar(&f.clientID, "client-id", "", "`ID` of our client there; its secret comes from "+envClientSecret)
	fs.StringSliceVar(&f.scopes, "scope", nil, "`SCOPE` to request in addition to openid, email and profile; repeatable")
	fs.StringVar(&f.claim, "groups-claim", "", "`CLAIM` or SAML attribute with a person's groups (default groups)")
	fs.StringVar(&f.role, "default-role", "", "`ROLE` of people in none of the mapped groups (default: they can't sign in)")
	fs.StringArrayVar(&f.maps, "map", nil, "`GROUP=ROLE`; repeatable, the first match decides")
	fs.StringVar(&f.metadataURL, "metadata-url", "", "read the SAML provider's metadata from this `URL`, once")
	fs.StringVar(&f.metadataFile, "metadata-file", "", "`FILE` with the SAML provider's metadata")
	fs.StringVar(&f.emailAttr, "email-attribute", "", "SAML `ATTRIBUTE` with the email address")
	fs.StringVar(&f.nameAttr, "name-attribute", "", "SAML `ATTRIBUTE` with the name")
	fs.BoolVar(&f.sign, "sign-requests", false, "sign SAML requests")
	fs.BoolVar(&f.encrypted, "want-encrypted", false, "refuse SAML responses that aren't encrypted")
	fs.BoolVar(&f.idpInitiated, "allow-idp-initiated", false, "let people start at the SAML provider, too")
}

func (f *ssoFlags) settings() (*cloudv1.SamlSettings, error) {
	m := &cloudv1.SamlSettings{
		MetadataUrl: f.metadataURL, EmailAttribute: f.emailAttr, NameAttribute: f.nameAttr,
		SignRequests: f.sign, WantEncrypted: f.encrypted, AllowIdpInitiated: f.idpInitiated,
	}
	if f.metadataFile != "" {
		text, err := os.ReadFile(f.metadataFile)
		if err != nil {
			return nil, usagef("--metadata-file: %v", err)
		}
		m.MetadataXml = string(text)
	}
	return m, nil
}

func (f *ssoFlags) mappings() (out []*cloudv1.GroupMapping, _ error) {
	for _, text := range f.maps {
		group, role, ok := cutLast(text, "=")
		if !ok || group == "" || role == "" {
			return nil, usagef("--map %q: write GROUP=ROLE", text)
		}
		out = append(out, &cloudv1.GroupMapping{Group: group, Role: role})
	}
	return out, nil
}

// cutLast cuts at the last separator: groups of directories may have it in them.
func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// ssoPaths are the fields of a mask by their flags.
var ssoPaths = [][2]string{
	{"name", "name"}, {"issuer", "issuer"}, {"client-id", "client_id"}, {"client-secret", "client_secret"}, {"scope", "scopes"}, {"groups-claim", "groups_claim"},
	{"default-role", "default_role"}, {"map", "group_mappings"}, {"metadata-url", "saml.metadata_url"}, {"metadata-file", "saml.metadata_xml"},
	{"email-attribute", "saml.email_attribute"}, {"name-attribute", "saml.name_attribute"}, {"sign-requests", "saml.sign_requests"},
	{"want-encrypted", "saml.want_encrypted"}, {"allow-idp-initiated", "saml.allow_idp_initiated"},
}

func (f *ssoFlags) mask() (*fieldmaskpb.FieldMask, error) {
	m := &fieldmaskpb.FieldMask{}
	for _, p := range ssoPaths {
		if f.c.Flags().Changed(p[0]) {
			m.Paths = append(m.Paths, p[1])
		}
	}
	if len(m.GetPaths()) == 0 {
		return nil, usagef("nothing to change: give a flag of a setting; see --help")
	}
	return m, nil
}

func (s *session) ssoVerbs() []verb {
	var made, edit ssoFlags
	var newSecret, finish bool
	header := []string{"ID", "NAME", "TYPE", "ENABLED", "LAST TEST", "ISSUER"}
	row := func(c *cloudv1.SsoConnection) []string {
		return []string{c.GetId(), c.GetName(), ssoType(c), strconv.FormatBool(c.GetEnabled()), testWord(c.GetLastTest()), c.GetIssuer()}
	}
	one := func(t *tenantCall, c *cloudv1.SsoConnection) error {
		return t.s.emitMessage(c, func(w io.Writer) { printConnection(w, c) })
	}
	const anyID = "  {cmd} sso_01K..."
	verbs := []verb{
		s.ofTenant(verb{noun: "sso list", short: "List SSO connections", example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			res, err := tell(t, t.sso.ListSsoConnections, &cloudv1.ListSsoConnectionsRequest{Tenant: t.tenant})
			if err != nil {
				return err
			}
			return printThings(s, res.GetConnections(), header, row)
		}),
		s.ofTenant(verb{noun: "sso get", args: "CONNECTION", short: "Show an SSO connection, and what to enter at the provider", example: anyID}, func(t *tenantCall, args []string) error {
			c, err := t.connection(args[0])
			if err != nil {
				return err
			}
			return one(t, c)
		}),
		s.ofTenant(verb{
			noun: "sso create", args: "NAME", short: "Create an SSO connection, by OpenID Connect or SAML",
			long: `The connection is off until a test sign-in has succeeded (corvo sso test) and it is turned on
(corvo sso enable). The client secret comes from ` + envClientSecret + `.`,
			example: `  {cmd} Okta --issuer https://company.okta.com --client-id 0oa1 --map admins=admin --default-role viewer
  {cmd} Entra --saml --metadata-url https://login.microsoftonline.com/…/federationmetadata.xml`,
			flags: func(c *cobra.Command) {
				made.add(c)
				c.Flags().BoolVar(&made.saml, "saml", false, "SAML 2.0 in place of OpenID Connect")
			},
		}, func(t *tenantCall, args []string) error {
			maps, err := made.mappings()
			if err != nil {
				return err
			}
			r := &cloudv1.CreateSsoConnectionRequest{
				Tenant: t.tenant, Name: args[0], GroupsClaim: made.claim, DefaultRole: made.role, GroupMappings: maps, Type: cloudv1.SsoType_SSO_TYPE_OIDC,
			}
			if made.saml {
				r.Type = cloudv1.SsoType_SSO_TYPE_SAML
				if r.Saml, err = made.settings(); err != nil {
					return err
				}
			} else {
				r.Issuer, r.ClientId, r.ClientSecret, r.Scopes = made.issuer, made.clientID, s.proc.Env(envClientSecret), made.scopes
			}
			res, err := tell(t, t.sso.CreateSsoConnection, r)
			if err != nil {
				return err
			}
			return one(t, res.GetConnection())
		}),
		s.ofTenant(verb{
			noun: "sso update", args: "CONNECTION", short: "Change an SSO connection",
			long: `While the connection is on, changed settings wait beside those in use: test them with corvo sso
test, then put them into effect with corvo sso switch.`,
			example: anyID + " --map admins=admin --map ops=operator\n" + anyID + " --client-secret   # from " + envClientSecret,
			flags: func(c *cobra.Command) {
				edit.add(c)
				c.Flags().StringVar(&edit.name, "name", "", "new `NAME`")
				c.Flags().BoolVar(&newSecret, "client-secret", false, "take a new client secret from "+envClientSecret)
			},
		}, func(t *tenantCall, args []string) error {
			mask, err := edit.mask()
			if err != nil {
				return err
			}
			maps, err := edit.mappings()
			if err != nil {
				return err
			}
			saml, err := edit.settings()
			if err != nil {
				return err
			}
			r := &cloudv1.UpdateSsoConnectionRequest{
				Tenant: t.tenant, ConnectionId: args[0], Name: edit.name, Issuer: edit.issuer, ClientId: edit.clientID, Scopes: edit.scopes,
				GroupsClaim: edit.claim, DefaultRole: edit.role, GroupMappings: maps, UpdateMask: mask,
			}
			if slices.ContainsFunc(mask.GetPaths(), func(p string) bool { return strings.HasPrefix(p, "saml.") }) {
				r.Saml = saml
			}
			if newSecret {
				if r.ClientSecret = s.proc.Env(envClientSecret); r.ClientSecret == "" {
					return usagef("--client-secret takes the secret from %s, which isn't set", envClientSecret)
				}
			}
			res, err := tell(t, t.sso.UpdateSsoConnection, r)
			if err != nil {
				return err
			}
			return one(t, res.GetConnection())
		}),
		s.ofTenant(verb{
			noun: "sso test", args: "CONNECTION", short: "Print the URL of a test sign-in", example: anyID,
			long: "Open the URL in the browser where you are signed in to the console, then look at the result with corvo sso get.",
		}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.sso.StartTestLogin, &cloudv1.StartTestLoginRequest{Tenant: t.tenant, ConnectionId: args[0]})
			if err != nil {
				return err
			}
			return t.s.emitMessage(res, func(w io.Writer) { fmt.Fprintln(w, res.GetUrl()) })
		}),
		s.ofTenant(verb{noun: "sso switch", args: "CONNECTION", short: "Put tested changes of an SSO connection into effect", example: anyID}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.sso.SwitchSsoConnection, &cloudv1.SwitchSsoConnectionRequest{Tenant: t.tenant, ConnectionId: args[0]})
			if err != nil {
				return err
			}
			return one(t, res.GetConnection())
		}),
		s.ofTenant(verb{noun: "sso discard", args: "CONNECTION", short: "Discard changes of an SSO connection that aren't in effect", example: anyID}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.sso.DiscardSsoChange, &cloudv1.DiscardSsoChangeRequest{Tenant: t.tenant, ConnectionId: args[0]})
			if err != nil {
				return err
			}
			return one(t, res.GetConnection())
		}),
		s.ofTenant(verb{
			noun: "sso rotate-key", args: "CONNECTION", short: "Replace the key of a SAML connection, in two steps", example: anyID + "\n" + anyID + " --finish",
			long: `Makes the next key of a SAML connection beside the present one, and prints its certificate for
the identity provider; our metadata has both. Once the provider knows it, and a test sign-in
passed, --finish puts it in the place of the present one, which is deleted.`,
			flags: func(c *cobra.Command) { c.Flags().BoolVar(&finish, "finish", false, "use the next key from now on") },
		}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.sso.RotateSamlKey, &cloudv1.RotateSamlKeyRequest{Tenant: t.tenant, ConnectionId: args[0], Finish: finish})
			if err != nil {
				return err
			}
			if finish {
				return one(t, res.GetConnection())
			}
			return t.s.emitMessage(res.GetConnection(), func(w io.Writer) { fmt.Fprint(w, res.GetConnection().GetSamlDetails().GetSpNextCertificate()) })
		}),
		s.ofTenant(verb{
			noun: "sso delete", args: "CONNECTION", short: "Delete an SSO connection, and remove the members who came through it", example: anyID,
		}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.sso.DeleteSsoConnection, &cloudv1.DeleteSsoConnectionRequest{Tenant: t.tenant, ConnectionId: args[0]})
			if err != nil {
				return err
			}
			return t.done(res, args[0], "deleted")
		}),
	}
	return append(verbs, s.ssoSwitchVerb("enable", true), s.ssoSwitchVerb("disable", false))
}

func (s *session) ssoSwitchVerb(name string, on bool) verb {
	short := map[bool]string{true: "Turn an SSO connection on, after a test sign-in", false: "Turn an SSO connection off, and end the sessions that it opened"}[on]
	return s.ofTenant(verb{noun: "sso " + name, args: "CONNECTION", short: short, example: "  {cmd} sso_01K..."}, func(t *tenantCall, args []string) error {
		res, err := tell(t, t.sso.UpdateSsoConnection, &cloudv1.UpdateSsoConnectionRequest{
			Tenant: t.tenant, ConnectionId: args[0], Enabled: on, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"enabled"}},
		})
		if err != nil {
			return err
		}
		return t.s.emitMessage(res.GetConnection(), func(w io.Writer) { printConnection(w, res.GetConnection()) })
	})
}

// connection finds one by id or name.
func (t *tenantCall) connection(given string) (*cloudv1.SsoConnection, error) {
	res, err := tell(t, t.sso.ListSsoConnections, &cloudv1.ListSsoConnectionsRequest{Tenant: t.tenant})
	if err != nil {
		return nil, err
	}
	for _, c := range res.GetConnections() {
		if c.GetId() == given || c.GetName() == given {
			return c, nil
		}
	}
	return nil, &Failure{Exit: ExitNotFound, Code: "NOT_FOUND", What: fmt.Sprintf("there is no SSO connection %q", given), Fix: "corvo sso list lists them"}
}

func ssoType(c *cloudv1.SsoConnection) string {
	return strings.ToLower(strings.TrimPrefix(c.GetType().String(), "SSO_TYPE_"))
}

func testWord(t *cloudv1.SsoTest) string {
	switch {
	case t == nil:
		return "none"
	case t.GetSucceeded():
		return "succeeded " + when(t.GetAt())
	}
	return "failed " + when(t.GetAt())
}

func printConnection(w io.Writer, c *cloudv1.SsoConnection) {
	f := facts{w, time.Now(), 14}
	f.line("connection", c.GetId())
	f.line("name", c.GetName())
	f.line("type", ssoType(c))
	f.line("enabled", strconv.FormatBool(c.GetEnabled()))
	f.line("issuer", c.GetIssuer())
	f.line("client id", c.GetClientId())
	if d := c.GetSamlDetails(); d != nil {
		f.line("our entity id", d.GetSpEntityId())
		f.line("our metadata", d.GetSpMetadataUrl())
		for _, warning := range d.GetWarnings() {
			f.line("warning", warning)
		}
	}
	f.line("redirect URI", c.GetRedirectUri())
	if old := c.GetOldRedirectUri(); old != "" {
		until := " until a test sign-in succeeds with the redirect URI above"
		if c.GetStaged() != nil {
			until += " and you switch"
		}
		f.line("in use", old+until)
	}
	f.line("sign-in URL", c.GetLoginUrl())
	f.line("groups claim", c.GetGroupsClaim())
	for _, m := range c.GetGroupMappings() {
		f.line("mapping", m.GetGroup()+" = "+m.GetRole())
	}
	f.line("default role", c.GetDefaultRole())
	test := c.GetLastTest()
	if c.GetStaged() != nil {
		f.line("changes", "not in effect yet; test them, then corvo sso switch")
		test = c.GetStaged().GetLastTest()
	}
	f.line("last test", testWord(test))
	f.line("problem", test.GetProblem())
	f.line("role found", test.GetRole())
}

func (s *session) directoryVerbs() []verb {
	var life time.Duration
	var ends string
	return []verb{
		s.ofTenant(verb{noun: "directory get", args: "CONNECTION", short: "Show how the directory sync of an SSO connection goes", example: "  {cmd} sso_01K..."}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.directory.GetDirectorySync, &cloudv1.GetDirectorySyncRequest{Tenant: t.tenant, ConnectionId: args[0]})
			if err != nil {
				return err
			}
			d := res.GetSync()
			return t.s.emitMessage(d, func(w io.Writer) {
				f := facts{w, time.Now(), 14}
				f.line("endpoint", d.GetEndpointUrl())
				f.line("users", fmt.Sprintf("%d, %d active", d.GetUsers(), d.GetActiveUsers()))
				f.line("groups", strconv.Itoa(int(d.GetGroups())))
				f.line("last call", cmp.Or(when(d.GetLastCallAt()), "never"))
				f.line("last error", strings.TrimSpace(when(d.GetLastErrorAt())+"  "+d.GetLastError()))
			})
		}),
		s.ofTenant(verb{noun: "directory tokens", args: "CONNECTION", short: "List the tokens of a directory", example: "  {cmd} sso_01K..."}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.directory.ListScimTokens, &cloudv1.ListScimTokensRequest{Tenant: t.tenant, ConnectionId: args[0]})
			if err != nil {
				return err
			}
			return printThings(s, res.GetTokens(), []string{"ID", "PREFIX", "CREATED", "EXPIRES", "LAST USED"}, func(k *cloudv1.ScimToken) []string {
				return []string{k.GetId(), k.GetPrefix(), when(k.GetCreatedAt()), k.GetExpiresAt().AsTime().Format(time.RFC3339), when(k.GetLastUsedAt())}
			})
		}),
		s.ofTenant(verb{
			noun: "directory create-token", args: "CONNECTION", short: "Create a token for a directory, and print it once",
			example: "  {cmd} sso_01K...\n  {cmd} sso_01K... --life 2160h",
			flags: func(c *cobra.Command) {
				c.Flags().DurationVar(&life, "life", 0, "how `LONG` it is valid (default 365 days)")
			},
		}, func(t *tenantCall, args []string) error {
			r := &cloudv1.CreateScimTokenRequest{Tenant: t.tenant, ConnectionId: args[0]}
			if life != 0 {
				r.ExpiresAt = timestamppb.New(time.Now().Add(life))
			}
			res, err := tell(t, t.directory.CreateScimToken, r)
			if err != nil {
				return err
			}
			return t.s.emitMessage(res, func(w io.Writer) { fmt.Fprintln(w, res.GetSecret()) })
		}),
		s.ofTenant(verb{
			noun: "directory update-token", args: "ID", short: "Move the end of a token of a directory", example: "  {cmd} key_... --expires 2027-06-01",
			flags: func(c *cobra.Command) {
				c.Flags().StringVar(&ends, "expires", "", "`TIME`: 2027-06-01 or 2027-06-01T12:00:00Z")
			},
		}, func(t *tenantCall, args []string) error {
			at, err := momentOf("expires", ends, time.Now())
			if err != nil {
				return err
			}
			if at == nil {
				return usagef("--expires: say until when the token is valid, for example 2027-06-01")
			}
			res, err := tell(t, t.directory.UpdateScimToken, &cloudv1.UpdateScimTokenRequest{Tenant: t.tenant, TokenId: args[0], ExpiresAt: at})
			if err != nil {
				return err
			}
			return t.done(res, args[0], "valid until "+res.GetToken().GetExpiresAt().AsTime().Format(time.RFC3339))
		}),
		s.ofTenant(verb{noun: "directory revoke-token", args: "ID", short: "Revoke a token of a directory", example: "  {cmd} key_..."}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.directory.RevokeScimToken, &cloudv1.RevokeScimTokenRequest{Tenant: t.tenant, TokenId: args[0]})
			if err != nil {
				return err
			}
			return t.done(res, args[0], "revoked")
		}),
	}
}
