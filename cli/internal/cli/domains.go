package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// recordEvery is how often verify --wait asks for a record.
const recordEvery = 10 * time.Second

func (s *session) domainVerbs() []verb {
	var made cloudv1.CreateDomainRequest
	var connection string
	var wait time.Duration
	return []verb{
		s.ofTenant(verb{noun: "domains list", short: "List the tenant's domains, and whether they are verified", example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			res, err := tell(t, t.domains.ListDomains, &cloudv1.ListDomainsRequest{Tenant: t.tenant})
			if err != nil {
				return err
			}
			return printThings(s, res.GetDomains(), []string{"ID", "NAME", "STATE", "CHECKED", "PROBLEM"}, func(d *cloudv1.Domain) []string {
				return []string{d.GetId(), d.GetName(), domainState(d), when(d.GetCheckedAt()), d.GetProblem()}
			})
		}),
		s.ofTenant(verb{noun: "domains get", args: "DOMAIN", short: "Show a domain and its TXT record", example: "  {cmd} company.com"}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.domains.GetDomain, &cloudv1.GetDomainRequest{Tenant: t.tenant, DomainId: args[0]})
			if err != nil {
				return err
			}
			return t.domain(res.GetDomain())
		}),
		s.ofTenant(verb{
			noun: "domains create", args: "NAME", short: "Claim a domain and print the TXT record that proves it",
			long: `Prints a TXT record in the form of a zone file. Add it to the domain's DNS, then run
corvo domains verify. People with an address of a verified domain sign in through the tenant's
identity provider.`,
			example: "  {cmd} company.com",
			flags: func(c *cobra.Command) {
				c.Flags().StringVar(&made.ConnectionId, "connection", "", "`ID` of the SSO connection (default: the tenant's)")
			},
		}, func(t *tenantCall, args []string) error {
			made.Tenant, made.Name = t.tenant, args[0]
			res, err := tell(t, t.domains.CreateDomain, &made)
			if err != nil {
				return err
			}
			return t.s.emitMessage(res.GetDomain(), func(w io.Writer) { fmt.Fprintln(w, txtRecord(res.GetDomain())) })
		}),
		s.ofTenant(verb{
			noun: "domains verify", args: "DOMAIN", short: "Look for a domain's TXT record, and verify the domain",
			example: "  {cmd} company.com\n  {cmd} company.com --wait 10m",
			flags: func(c *cobra.Command) {
				c.Flags().DurationVar(&wait, "wait", 0, "keep looking for so `LONG` while the record isn't there")
			},
		}, func(t *tenantCall, args []string) error {
			res, err := t.verifyDomain(args[0], time.Now().Add(wait), recordEvery)
			if err != nil {
				return err
			}
			return t.domain(res.GetDomain())
		}),
		s.ofTenant(verb{
			noun: "domains update", args: "DOMAIN", short: "Choose the SSO connection of a domain", example: "  {cmd} company.com --connection sso_01K...",
			flags: func(c *cobra.Command) {
				c.Flags().StringVar(&connection, "connection", "", "`ID` of the SSO connection; empty: the tenant's")
			},
		}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.domains.UpdateDomain, &cloudv1.UpdateDomainRequest{
				Tenant: t.tenant, DomainId: args[0], ConnectionId: connection, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"connection_id"}},
			})
			if err != nil {
				return err
			}
			return t.domain(res.GetDomain())
		}),
		s.ofTenant(verb{noun: "domains delete", args: "DOMAIN", short: "Release a domain; its TXT record never counts again", example: "  {cmd} company.com"}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.domains.DeleteDomain, &cloudv1.DeleteDomainRequest{Tenant: t.tenant, DomainId: args[0]})
			if err != nil {
				return err
			}
			return t.done(res, args[0], "deleted")
		}),
	}
}

// verifyDomain asks until the record is there, or the time is up.
func (t *tenantCall) verifyDomain(domain string, until time.Time, every time.Duration) (*cloudv1.VerifyDomainResponse, error) {
	for {
		res, err := tell(t, t.domains.VerifyDomain, &cloudv1.VerifyDomainRequest{Tenant: t.tenant, DomainId: domain})
		var f *Failure
		waits := errors.As(err, &f) && (f.Code == "RECORD_NOT_FOUND" || f.Code == "DNS_UNAVAILABLE")
		if !waits || !time.Now().Add(every).Before(until) {
			return res, err
		}
		if err := pause(t.ctx, every); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *tenantCall) domain(d *cloudv1.Domain) error {
	return t.s.emitMessage(d, func(w io.Writer) {
		f := facts{w, time.Now(), 14}
		f.line("domain", d.GetName())
		f.line("id", d.GetId())
		f.line("state", domainState(d))
		f.line("problem", d.GetProblem())
		if d.GetUnverifiedAt() != nil {
			f.line("verified until", d.GetUnverifiedAt().AsTime().Format(time.RFC3339))
		}
		f.line("connection", cmp.Or(d.GetConnectionId(), "the tenant's"))
		if d.GetCheckedAt() != nil {
			f.at("checked", d.GetCheckedAt().AsTime())
		}
		f.line("record", txtRecord(d))
	})
}

// txtRecord is a domain's record as a line of a zone file.
func txtRecord(d *cloudv1.Domain) string {
	return fmt.Sprintf("%s. TXT %q", d.GetTxtName(), d.GetTxtValue())
}

func domainState(d *cloudv1.Domain) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(d.GetState().String(), "DOMAIN_STATE_")), "_", " ")
}
