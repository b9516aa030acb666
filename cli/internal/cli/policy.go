package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// policyFlag is a field of the policy and its flag.
type policyFlag struct {
	flag, field string
	show        func(*cloudv1.SignInPolicy) string
}

var policyFlags = []policyFlag{
	{"require-sso", "require_sso", func(p *cloudv1.SignInPolicy) string { return strconv.FormatBool(p.GetRequireSso()) }},
	{"require-second-factor", "require_second_factor", func(p *cloudv1.SignInPolicy) string { return strconv.FormatBool(p.GetRequireSecondFactor()) }},
	{"session-idle", "session_idle_seconds", func(p *cloudv1.SignInPolicy) string { return span(p.GetSessionIdleSeconds()) }},
	{"session-life", "session_life_seconds", func(p *cloudv1.SignInPolicy) string { return span(p.GetSessionLifeSeconds()) }},
	{"key-life-max", "key_life_max_seconds", func(p *cloudv1.SignInPolicy) string { return span(p.GetKeyLifeMaxSeconds()) }},
	{"key-networks-required", "key_networks_required", func(p *cloudv1.SignInPolicy) string { return strconv.FormatBool(p.GetKeyNetworksRequired()) }},
	{"forbid-personal-keys-for-jobs", "forbid_personal_keys_for_jobs", func(p *cloudv1.SignInPolicy) string {
		return strconv.FormatBool(p.GetForbidPersonalKeysForJobs())
	}},
	{"audit-payload-reads", "audit_payload_reads", func(p *cloudv1.SignInPolicy) string { return strconv.FormatBool(p.GetAuditPayloadReads()) }},
	{"audit-retention", "audit_retention_seconds", func(p *cloudv1.SignInPolicy) string { return span(p.GetAuditRetentionSeconds()) }},
}

// span is a limit; 0 is none.
func span(seconds int64) string {
	if seconds == 0 {
		return "-"
	}
	return duration(time.Duration(seconds) * time.Second)
}

func (s *session) policyVerbs() []verb {
	var to cloudv1.SignInPolicy
	var idle, life, keyLife, auditKept string
	var changed func(string) bool
	return []verb{
		s.ofTenant(verb{noun: "policy get", short: "Show how people sign in to the tenant, what its keys must be, and what its audit log keeps", example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			res, err := tell(t, t.policy.GetSignInPolicy, &cloudv1.GetSignInPolicyRequest{Tenant: t.tenant})
			if err != nil {
				return err
			}
			return s.emitMessage(res, func(w io.Writer) { s.printPolicy(w, res) })
		}),
		s.ofTenant(verb{
			noun: "policy set", short: "Change how people sign in to the tenant, what its keys must be, and what its audit log keeps",
			long: `Changes what the flags name, from the next call on. --require-sso needs a single sign-on
connection whose test passed, an owner who comes by it, and break-glass codes; corvo policy get
says what is missing. Keys that exist stay as they are: corvo policy keys lists them.`,
			example: "  {cmd} --require-second-factor\n  {cmd} --key-life-max 90d --key-networks-required\n  {cmd} --require-sso=false",
			flags: func(c *cobra.Command) {
				fs := c.Flags()
				fs.BoolVar(&to.RequireSso, "require-sso", false, "let people in by the tenant's single sign-on alone")
				fs.BoolVar(&to.RequireSecondFactor, "require-second-factor", false, "ask people who sign in by emailed link for a second factor")
				fs.StringVar(&idle, "session-idle", "", "end sessions that weren't used for so `LONG`, such as 8h; 0: no limit of this tenant's own")
				fs.StringVar(&life, "session-life", "", "end sessions so `LONG` after the sign-in, such as 7d; 0: no limit of this tenant's own")
				fs.StringVar(&keyLife, "key-life-max", "", "keys must expire so `LONG` after they are made at the latest, such as 90d; 0: they needn't")
				fs.BoolVar(&to.KeyNetworksRequired, "key-networks-required", false, "new keys must name the networks they work from")
				fs.BoolVar(&to.ForbidPersonalKeysForJobs, "forbid-personal-keys-for-jobs", false, "personal keys do nothing at the tenant URL")
				fs.BoolVar(&to.AuditPayloadReads, "audit-payload-reads", false, "the audit log says which person read what jobs and schedules carry")
				fs.StringVar(&auditKept, "audit-retention", "", "keep entries of the audit log for so `LONG`, 90d to 3650d; 0: 400 days. Older ones are deleted for good")
				changed = fs.Changed
			},
		}, func(t *tenantCall, _ []string) error {
			for _, f := range []struct {
				flag, text string
				to         *int64
			}{{"session-idle", idle, &to.SessionIdleSeconds}, {"session-life", life, &to.SessionLifeSeconds}, {"key-life-max", keyLife, &to.KeyLifeMaxSeconds}, {"audit-retention", auditKept, &to.AuditRetentionSeconds}} {
				seconds, err := spanOf(f.text)
				if err != nil {
					return usagef("--%s %q isn't a time such as 8h or 90d", f.flag, f.text)
				}
				*f.to = seconds
			}
			mask := &fieldmaskpb.FieldMask{}
			for _, f := range policyFlags {
				if changed(f.flag) {
					mask.Paths = append(mask.Paths, f.field)
				}
			}
			if len(mask.Paths) == 0 {
				return usagef("say what to change, such as --require-second-factor")
			}
			res, err := tell(t, t.policy.UpdateSignInPolicy, &cloudv1.UpdateSignInPolicyRequest{Tenant: t.tenant, Policy: &to, UpdateMask: mask})
			if err != nil {
				return err
			}
			return s.emitMessage(res.GetPolicy(), func(w io.Writer) { s.printPolicy(w, &cloudv1.GetSignInPolicyResponse{Policy: res.GetPolicy()}) })
		}),
		s.ofTenant(verb{noun: "policy keys", short: "List the keys that the policy wouldn't allow to be made now", example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			res, err := tell(t, t.policy.ListKeysOutsidePolicy, &cloudv1.ListKeysOutsidePolicyRequest{Tenant: t.tenant})
			if err != nil {
				return err
			}
			return printThings(s, res.GetKeys(), []string{"ID", "NAME", "OWNER", "PROBLEM"}, func(k *cloudv1.KeyOutsidePolicy) []string {
				return []string{k.GetKeyId(), k.GetName(), k.GetOwner(), strings.Join(k.GetProblems(), "; ")}
			})
		}),
		s.ofTenant(verb{
			noun: "policy break-glass", args: "ACTION", short: "Make or use codes that let owners in when single sign-on is down",
			long: `create replaces the tenant's ten codes and prints them, once; keep them on paper. use reads a code
from stdin and lets this session of an owner, who signed in by emailed link, into a tenant that
requires single sign-on for an hour. A code can be used once, and all owners get an email.`,
			example: "  {cmd} create\n  {cmd} use --tenant acme",
		}, func(t *tenantCall, args []string) error {
			switch args[0] {
			case "create":
				res, err := tell(t, t.policy.CreateBreakGlassCodes, &cloudv1.CreateBreakGlassCodesRequest{Tenant: t.tenant})
				if err != nil {
					return err
				}
				return s.emitMessage(res, func(w io.Writer) { fmt.Fprintln(w, strings.Join(res.GetCodes(), "\n")) })
			case "use":
				return t.useBreakGlass()
			}
			return usagef("%q isn't create or use", args[0])
		}),
	}
}

func (t *tenantCall) useBreakGlass() error {
	code, err := t.s.codeFromStdin()
	if err != nil {
		return err
	}
	res, err := tell(t, t.policy.UseBreakGlassCode, &cloudv1.UseBreakGlassCodeRequest{Tenant: t.tenant, Code: code})
	if err != nil {
		return err
	}
	return t.s.emitMessage(res, func(w io.Writer) {
		fmt.Fprintf(w, "this session may enter until %s; codes left: %d\n", res.GetExpiresAt().AsTime().Format(time.RFC3339), res.GetCodesLeft())
	})
}

// spanOf reads a time in seconds; days may be written as 90d.
func spanOf(text string) (int64, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		return n * 24 * 60 * 60, err
	}
	if text == "" || text == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	return int64(d / time.Second), err
}

func (s *session) printPolicy(w io.Writer, r *cloudv1.GetSignInPolicyResponse) {
	var rows [][]string
	for _, f := range policyFlags {
		rows = append(rows, []string{f.flag, f.show(r.GetPolicy())})
	}
	if r.GetSsoUrl() != "" {
		rows = append(rows, []string{"break-glass codes left", strconv.Itoa(int(r.GetBreakGlassCodesLeft()))}, []string{"sign-in URL", r.GetSsoUrl()})
	}
	s.table(w, []string{"SETTING", "VALUE"}, rows)
	for _, n := range r.GetRequireSsoNeeds() {
		fmt.Fprintf(w, "require-sso needs %s\n", n)
	}
}
