package cli

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
)

// Who may do what in the tenant, which the control plane has.

const accessPage = 200

// tenantCall is one invocation that asks the control plane about a tenant.
type tenantCall struct {
	*cloud
	s      *session
	ctx    context.Context // Of the invocation.
	tenant string

	roles    cloudv1connect.RoleServiceClient
	accounts cloudv1connect.ServiceAccountServiceClient
	groups   cloudv1connect.GroupServiceClient
	members  cloudv1connect.MemberServiceClient
	keys     cloudv1connect.ApiKeyServiceClient
	access   cloudv1connect.AccessServiceClient
	domains  cloudv1connect.DomainServiceClient
	sso      cloudv1connect.SsoServiceClient
	// directory is of directory sync.
	directory cloudv1connect.DirectoryServiceClient
	policy    cloudv1connect.PolicyServiceClient
	usage     cloudv1connect.UsageServiceClient
	billing   cloudv1connect.BillingServiceClient
	plans     cloudv1connect.PlanServiceClient
}

// ofTenant makes a verb ask about a tenant: the flag's, else the profile's.
func (s *session) ofTenant(v verb, run func(t *tenantCall, args []string) error) verb {
	var endpoint, tenant string
	own := v.flags
	v.flags = func(c *cobra.Command) {
		if own != nil {
			own(c)
		}
		endpointFlag(c, &endpoint)
		c.Flags().StringVar(&tenant, "tenant", "", "`NAME` of the tenant, if you are a member of several (default: that of your profile)")
	}
	v.run = func(c *cobra.Command, args []string) error {
		at, err := s.signedIn(endpoint)
		if err != nil {
			return err
		}
		t := &tenantCall{
			cloud: at, s: s, ctx: c.Context(), tenant: tenant,
			roles: cloudv1connect.NewRoleServiceClient(at.http, at.endpoint), accounts: cloudv1connect.NewServiceAccountServiceClient(at.http, at.endpoint),
			groups: cloudv1connect.NewGroupServiceClient(at.http, at.endpoint), members: cloudv1connect.NewMemberServiceClient(at.http, at.endpoint),
			keys: cloudv1connect.NewApiKeyServiceClient(at.http, at.endpoint), access: cloudv1connect.NewAccessServiceClient(at.http, at.endpoint),
			domains: cloudv1connect.NewDomainServiceClient(at.http, at.endpoint), sso: cloudv1connect.NewSsoServiceClient(at.http, at.endpoint),
			directory: cloudv1connect.NewDirectoryServiceClient(at.http, at.endpoint),
			policy:    cloudv1connect.NewPolicyServiceClient(at.http, at.endpoint),
			usage:     cloudv1connect.NewUsageServiceClient(at.http, at.endpoint),
			billing:   cloudv1connect.NewBillingServiceClient(at.http, at.endpoint),
			plans:     cloudv1connect.NewPlanServiceClient(at.http, at.endpoint),
		}
		if t.tenant == "" && s.proc.Env("CORVO_TOKEN") == "" {
			p, err := s.savedProfile()
			if err != nil {
				return err
			}
			if p.Endpoint == at.endpoint {
				t.tenant = p.Tenant
			}
		}
		return run(t, args)
	}
	return v
}

// tell makes a call.
func tell[Req, Res any](t *tenantCall, method func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req) (*Res, error) {
	return ask(t.ctx, t.cloud, t.s, method, req)
}

// everyPage collects the things of all pages.
func everyPage[T any](page func(token string) (things []T, next string, err error)) (all []T, _ error) {
	for token := ""; ; {
		things, next, err := page(token)
		if err != nil {
			return nil, err
		}
		all = append(all, things...)
		if token = next; token == "" {
			return all, nil
		}
	}
}

// printThings prints messages of the control plane as a table, or as JSON with the names of
// the proto.
func printThings[T proto.Message](s *session, things []T, header []string, row func(T) []string) error {
	var raw []json.RawMessage
	var rows [][]string
	for _, thing := range things {
		text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(thing)
		if err != nil {
			return fmt.Errorf("encode output: %w", err)
		}
		cells := row(thing)
		for i := range cells {
			cells[i] = cmp.Or(cells[i], "-")
		}
		raw, rows = append(raw, text), append(rows, cells)
	}
	return s.emitAll(raw, func(w io.Writer) {
		if len(rows) > 0 {
			s.table(w, header, rows)
		}
	})
}

// done prints what became of a thing.
func (t *tenantCall) done(m proto.Message, what, became string) error {
	return t.s.emitMessage(m, func(w io.Writer) { fmt.Fprintf(w, "%s  %s\n", what, became) })
}

// notice says what else follows, beside the output.
func (t *tenantCall) notice(sentences []string) {
	for _, sentence := range sentences {
		t.s.talkf("%s", sentence)
	}
}

func listOf(words []string) string { return strings.Join(words, ", ") }

func when(at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return ago(at.AsTime(), time.Now())
}

// fieldOf are the fields of flags that have another name.
var fieldOf = map[string]string{ // Never changed.
	"permission": "permissions", "queue": "queues", "cidr": "cidrs", "expires": "expires_at", "in": "namespaces",
	"github": "conditions", "gitlab": "conditions", "kubernetes": "conditions", "condition": "conditions",
	"jwks-file": "jwks", "life": "key_life_seconds", "allow-reuse": "allow_reuse",
}

// changed names the fields whose flags were given.
func changed(c *cobra.Command, flags ...string) (*fieldmaskpb.FieldMask, error) {
	m := &fieldmaskpb.FieldMask{}
	for _, f := range flags {
		if field := cmp.Or(fieldOf[f], f); c.Flags().Changed(f) && !slices.Contains(m.GetPaths(), field) {
			m.Paths = append(m.Paths, field)
		}
	}
	if len(m.GetPaths()) == 0 {
		return nil, usagef("nothing to change: give at least one of --%s", strings.Join(flags, ", --"))
	}
	return m, nil
}

func place(scope *cloudv1.Scope) string {
	where := cmp.Or(scope.GetNamespaceName(), scope.GetNamespace())
	if scope.GetQueues() != "" {
		where = cmp.Or(where, "every namespace") + "/" + scope.GetQueues()
	}
	return cmp.Or(where, "tenant")
}

func (s *session) accessVerbs() []verb {
	var scope cloudv1.Scope
	var principal string
	var asCSV bool
	at := func(c *cobra.Command) {
		c.Flags().StringVar(&scope.Namespace, "in", "", "`NAMESPACE`, by name or id")
		c.Flags().StringVar(&scope.Queues, "queue", "", "a queue's `NAME`")
	}
	return []verb{
		s.ofTenant(verb{
			noun: "access explain", args: "PERMISSION", short: "Say whether somebody may do something, and why",
			example: "  {cmd} job.enqueue --in production --queue email\n  {cmd} key.create --principal usr_01K...",
			flags: func(c *cobra.Command) {
				at(c)
				c.Flags().StringVar(&principal, "principal", "", "`ID` of a user, service account or key (default: you)")
			},
		}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.access.Explain, &cloudv1.ExplainRequest{Tenant: t.tenant, PrincipalId: principal, Permission: args[0], Scope: &scope})
			if err != nil {
				return err
			}
			return t.s.emitMessage(res, func(w io.Writer) { printExplained(w, res) })
		}),
		s.ofTenant(verb{
			noun: "access who-can", args: "PERMISSION", short: "List every user, service account and key that may do something",
			example: "  {cmd} payload.read --in production", flags: at,
		}, func(t *tenantCall, args []string) error {
			all, err := everyPage(func(token string) ([]*cloudv1.WhoCan, string, error) {
				res, err := tell(t, t.access.ListWhoCan, &cloudv1.ListWhoCanRequest{Tenant: t.tenant, Permission: args[0], Scope: &scope, PageSize: accessPage, PageToken: token})
				return res.GetPrincipals(), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return printThings(t.s, all, []string{"ID", "NAME", "ROLES", "GROUPS"}, func(p *cloudv1.WhoCan) []string {
				return []string{p.GetPrincipalId(), p.GetPrincipal(), listOf(p.GetRoles()), listOf(p.GetGroups())}
			})
		}),
		s.ofTenant(verb{
			noun: "access review", short: "List everybody and every machine with what they may do and when they last did something",
			example: "  {cmd}\n  {cmd} --csv > review.csv\n  {cmd} -o jsonl | jq -r 'select(.unused) | .principal'",
			flags: func(c *cobra.Command) {
				c.Flags().BoolVar(&asCSV, "csv", false, "print CSV, for spreadsheets")
			},
		}, func(t *tenantCall, _ []string) error {
			all, err := everyPage(func(token string) ([]*cloudv1.ReviewedPrincipal, string, error) {
				res, err := tell(t, t.access.ListAccessReview, &cloudv1.ListAccessReviewRequest{Tenant: t.tenant, PageSize: accessPage, PageToken: token})
				return res.GetPrincipals(), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			if asCSV {
				return t.s.reviewCSV(all)
			}
			return printThings(t.s, all, []string{"ID", "NAME", "TYPE", "ROLES", "GROUPS", "LAST USED", "NOTE"}, func(p *cloudv1.ReviewedPrincipal) []string {
				return []string{p.GetPrincipalId(), p.GetPrincipal(), p.GetType(), strings.Join(p.GetRoles(), "; "), listOf(p.GetGroups()), when(p.GetLastUsedAt()), note(p)}
			})
		}),
	}
}

func note(p *cloudv1.ReviewedPrincipal) string {
	switch {
	case p.GetDisabled():
		return "disabled"
	case p.GetUnused():
		return "unused for 90 days"
	}
	return ""
}

func printExplained(w io.Writer, res *cloudv1.ExplainResponse) {
	verdict := "refused"
	if res.GetAllowed() {
		verdict = "allowed"
	}
	fmt.Fprintf(w, "%s  %s\n", verdict, res.GetReason())
	for _, e := range res.GetBindings() {
		b := e.GetBinding()
		through := ""
		if e.GetGroup() != "" {
			through = ", through the group " + e.GetGroup()
		}
		fmt.Fprintf(w, "  %s  %s has %s in %s%s\n", b.GetId(), b.GetPrincipal(), b.GetRole(), place(b.GetScope()), through)
	}
	for _, what := range res.GetNarrowedBy() {
		fmt.Fprintf(w, "  narrowed by %s\n", what)
	}
}

// reviewCSV is the review for a spreadsheet. A cell that begins like a formula is quoted, so
// that none is run.
func (s *session) reviewCSV(all []*cloudv1.ReviewedPrincipal) error {
	var failed error
	err := s.writeText(func(w io.Writer) {
		out := csv.NewWriter(w)
		_ = out.Write([]string{"id", "name", "type", "owner", "roles", "groups", "created_at", "last_used_at", "expires_at", "unused", "disabled"}) // Error tells.
		for _, p := range all {
			row := []string{p.GetPrincipalId(), p.GetPrincipal(), p.GetType(), p.GetOwner(), strings.Join(p.GetRoles(), "; "), strings.Join(p.GetGroups(), "; "),
				instant(p.GetCreatedAt()), instant(p.GetLastUsedAt()), instant(p.GetExpiresAt()), fmt.Sprint(p.GetUnused()), fmt.Sprint(p.GetDisabled())}
			for i := range row {
				if row[i] != "" && strings.ContainsRune("=+-@\t\r", rune(row[i][0])) {
					row[i] = "'" + row[i]
				}
			}
			_ = out.Write(row) // Error tells.
		}
		out.Flush()
		failed = out.Error()
	})
	return cmp.Or(err, failed)
}

func instant(at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return at.AsTime().UTC().Format(time.RFC3339)
}
