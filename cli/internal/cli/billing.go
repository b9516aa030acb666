package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

func (s *session) billingVerbs() []verb {
	var etag string
	return []verb{
		s.ofTenant(verb{noun: "billing show", short: "Show who gets emails about invoices and limits, and whether there is a payment method", example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			res, err := tell(t, t.billing.GetBilling, &cloudv1.GetBillingRequest{Tenant: t.tenant})
			if err != nil {
				return err
			}
			return s.printBilling(res.GetBilling())
		}),
		s.ofTenant(verb{
			noun: "billing set-emails", args: "[EMAIL...]", short: "Set who gets emails about invoices and limits, besides owners and the billing role",
			example: "  {cmd} invoices@company.com\n  {cmd} # nobody but the owners",
			flags: func(c *cobra.Command) {
				c.Flags().StringVar(&etag, "etag", "", "change them only if this `TAG` is the current one")
			},
		}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.billing.UpdateBilling, &cloudv1.UpdateBillingRequest{Tenant: t.tenant, Emails: args, Etag: etag})
			if err != nil {
				return err
			}
			return s.printBilling(res.GetBilling())
		}),
		s.ofTenant(verb{
			noun: "billing checkout", args: "PLAN", short: "Print the URL of a page where a plan is paid for",
			long: `The plan changes once the page is paid, usually within seconds. A tenant that pays for a plan
already changes to another one without a page.`,
			example: "  {cmd} team",
		}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.billing.StartCheckout, &cloudv1.StartCheckoutRequest{Tenant: t.tenant, Plan: args[0]})
			if err != nil {
				return err
			}
			return s.emitMessage(res, func(w io.Writer) { fmt.Fprintln(w, res.GetUrl()) })
		}),
		s.ofTenant(verb{noun: "billing portal", short: "Print the URL of a page with payment methods, tax ids and receipts; it works for some minutes", example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			res, err := tell(t, t.billing.OpenPortal, &cloudv1.OpenPortalRequest{Tenant: t.tenant})
			if err != nil {
				return err
			}
			return s.emitMessage(res, func(w io.Writer) { fmt.Fprintln(w, res.GetUrl()) })
		}),
		s.ofTenant(verb{noun: "invoice list", short: "List invoices, the newest first", example: "  {cmd}\n  {cmd} -o json"}, func(t *tenantCall, _ []string) error {
			all, err := everyPage(func(token string) ([]*cloudv1.Invoice, string, error) {
				res, err := tell(t, t.billing.ListInvoices, &cloudv1.ListInvoicesRequest{Tenant: t.tenant, PageSize: accessPage, PageToken: token})
				return res.GetInvoices(), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			if len(all) == 0 {
				s.hintf("no invoices yet; see what this month costs with: corvo invoice preview")
			}
			return printThings(s, all, []string{"FROM", "TO", "STATE", "TOTAL", "PAGE"}, func(i *cloudv1.Invoice) []string {
				return []string{date(i.GetPeriodStart().AsTime()), date(i.GetPeriodEnd().AsTime()), i.GetState(), amount(i.GetTotal(), i.GetCurrency()), orDash(i.GetUrl())}
			})
		}),
	}
}

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// amount is money for people: an integer of the currency's smallest unit, as the API has it.
func amount(n int64, currency string) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	if currency == "usd" {
		return fmt.Sprintf("%s$%d.%02d", sign, n/100, n%100)
	}
	return sign + strconv.FormatInt(n, 10) + " " + currency
}

func (s *session) printBilling(b *cloudv1.Billing) error {
	return s.emitMessage(b, func(w io.Writer) {
		f := facts{w, time.Now(), 16}
		payments, method := "off: the operator changes plans and sends invoices", "none"
		if b.GetPayments() {
			payments = "on"
		}
		if b.GetHasPaymentMethod() {
			method = "yes"
		}
		f.line("payments", payments)
		f.line("payment method", method)
		f.line("emails", strings.Join(append([]string{"the owners"}, b.GetEmails()...), ", "))
	})
}
