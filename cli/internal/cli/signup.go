package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
)

type signupFlags struct {
	endpoint string
	email    string
	tenant   string
	token    string
	id       string
	code     string
	noSave   bool
}

func (s *session) signupVerb() verb {
	var f signupFlags
	return verb{
		root: "signup", short: "Create a tenant with a URL, a namespace and an API key",
		long: `Sends an email with a link and a code, asks for either, and creates the tenant. The keys
are shown once and saved in your profile (~/.config/corvo/config.toml, readable only by
you), so that the other commands work right away.

Without a terminal, sign up in two steps: the first prints signup_id, the second takes
--signup-id and --code.`,
		example: `  {cmd} --email ada@example.com --tenant acme
  {cmd} --email ada@example.com --tenant acme -o json < /dev/null   # prints signup_id
  {cmd} --signup-id sgn_... --code 123456 -o json`,
		flags: func(c *cobra.Command) {
			fs := c.Flags()
			endpointFlag(c, &f.endpoint)
			fs.StringVar(&f.email, "email", "", "your email `ADDRESS`")
			fs.StringVar(&f.tenant, "tenant", "", "`NAME` of the tenant: 3 to 40 lowercase letters, digits and -")
			fs.StringVar(&f.token, "token", "", "second step: `LINK` from the email, or its part after #token=")
			fs.StringVar(&f.id, "signup-id", "", "second step: `ID` printed by the first step")
			fs.StringVar(&f.code, "code", "", "second step: `CODE` from the email")
			fs.BoolVar(&f.noSave, "no-save", false, "don't save the keys in your profile")
		},
		run: func(c *cobra.Command, _ []string) error { return s.signup(c.Context(), f) },
	}
}

func endpointFlag(c *cobra.Command, endpoint *string) {
	c.Flags().StringVar(endpoint, "endpoint", "", "`URL` of the service (env CORVO_ENDPOINT, then your profile; default "+DefaultServer+")")
}

func (s *session) signup(ctx context.Context, f signupFlags) error {
	c, err := s.cloud(f.endpoint)
	if err != nil {
		return err
	}
	c.token = "" // Whoever signs up is nobody yet.
	client := cloudv1connect.NewSignupServiceClient(c.http, c.endpoint)
	confirm := &cloudv1.ConfirmRequest{Token: tokenOf(f.token), SignupId: f.id, Code: f.code}
	if f.token == "" && (f.id == "" || f.code == "") {
		started, err := s.startSignup(ctx, c, client, f)
		if err != nil || started == nil {
			return err
		}
		confirm = started
	}
	if err := s.checkOwner(ctx, c, client, f, confirm); err != nil {
		return err
	}
	done, err := s.confirmSignup(ctx, c, client, confirm)
	if err != nil {
		return err
	}
	saved, saveErr := s.keepSignup(c, f, done)
	// The keys are shown even if they could not be kept: nobody can show them again.
	if err := s.emitMessage(done, func(w io.Writer) { printSignup(w, done, saved) }); err != nil {
		return errors.Join(err, saveErr)
	}
	if saveErr != nil {
		return &Failure{Exit: ExitFail, Code: "PROFILE", What: "the tenant was created, but the keys couldn't be saved", Why: saveErr.Error(),
			Fix: "copy them from the output above"}
	}
	return nil
}

// checkOwner says whose tenant a link makes before it is made: the link may be somebody
// else's, and its keys would be kept here.
func (s *session) checkOwner(ctx context.Context, c *cloud, client cloudv1connect.SignupServiceClient, f signupFlags, confirm *cloudv1.ConfirmRequest) error {
	if confirm.GetToken() == "" {
		return nil
	}
	seen, err := ask(ctx, c, s, client.PreviewConfirm, &cloudv1.PreviewConfirmRequest{Token: confirm.GetToken()})
	if err != nil {
		return err
	}
	if f.email != "" && !strings.EqualFold(f.email, seen.GetEmail()) {
		return &Failure{Exit: ExitUsage, Code: "OTHER_ADDRESS", What: "this link is for " + seen.GetEmail() + ", not for " + f.email,
			Fix: "use the link from the email to " + f.email + ", or leave --email out"}
	}
	s.talkf("Creating %s, owned by %s.", seen.GetTenant(), seen.GetEmail())
	return nil
}

// confirmSignup makes the tenant. A person who mistypes the code is asked again; the
// server counts how often, and ends the sign-up.
func (s *session) confirmSignup(
	ctx context.Context, c *cloud, client cloudv1connect.SignupServiceClient, confirm *cloudv1.ConfirmRequest,
) (*cloudv1.ConfirmResponse, error) {
	for {
		done, err := ask(ctx, c, s, client.Confirm, confirm)
		var wrong *Failure
		if !errors.As(err, &wrong) || wrong.Code != "WRONG_CODE" || !isTerminal(s.proc.Stdin) {
			return done, err
		}
		s.report(wrong, false)
		again, err := s.askCode(confirm.GetSignupId())
		if err != nil {
			return nil, err
		}
		confirm = again
	}
}

// startSignup sends the mail and asks for its code. Without a terminal it prints the
// id for the second step and returns nil.
func (s *session) startSignup(ctx context.Context, c *cloud, client cloudv1connect.SignupServiceClient, f signupFlags) (*cloudv1.ConfirmRequest, error) {
	if f.email == "" || f.tenant == "" {
		missing := usagef("--email and --tenant are required")
		missing.Fix = "corvo signup --email ada@example.com --tenant acme"
		return nil, missing
	}
	started, err := ask(ctx, c, s, client.Start, &cloudv1.StartRequest{Email: f.email, Tenant: f.tenant})
	if err != nil {
		return nil, err
	}
	if !isTerminal(s.proc.Stdin) {
		return nil, s.emitMessage(started, func(w io.Writer) {
			fmt.Fprintf(w, "signup_id  %s\nWe sent an email with a code to %s. Continue with: corvo signup --signup-id %[1]s --code CODE\n", started.GetSignupId(), f.email)
		})
	}
	minutes := time.Until(started.GetExpiresAt().AsTime()).Round(time.Minute).Minutes()
	s.talkf("We sent an email to %s. Its code expires in %.0f minutes.", f.email, minutes)
	return s.askCode(started.GetSignupId())
}

func (s *session) askCode(signupID string) (*cloudv1.ConfirmRequest, error) {
	fmt.Fprint(s.proc.Stderr, "Code (or link): ")
	line, err := bufio.NewReader(s.proc.Stdin).ReadString('\n')
	if err != nil && line == "" {
		return nil, &Failure{Exit: ExitFail, Code: "INTERRUPTED", What: "no code was given",
			Fix: "continue with: corvo signup --signup-id " + signupID + " --code CODE"}
	}
	text := strings.TrimSpace(line)
	if strings.Contains(text, "token=") {
		return &cloudv1.ConfirmRequest{Token: tokenOf(text)}, nil
	}
	return &cloudv1.ConfirmRequest{SignupId: signupID, Code: strings.ReplaceAll(text, " ", "")}, nil
}

// tokenOf takes a token, or a link that ends in #token=….
func tokenOf(text string) string {
	if _, after, ok := strings.Cut(text, "token="); ok {
		if plain, err := url.QueryUnescape(after); err == nil {
			return plain
		}
	}
	return text
}

func (s *session) keepSignup(c *cloud, f signupFlags, done *cloudv1.ConfirmResponse) (path string, err error) {
	if f.noSave {
		return "", nil
	}
	return s.saveProfile(profile{
		URL: done.GetTenantUrl(), Tenant: done.GetTenant(), Namespace: done.GetNamespace(), APIKey: done.GetApiKey(), Endpoint: c.endpoint, Token: done.GetToken(),
	})
}

func printSignup(w io.Writer, done *cloudv1.ConfirmResponse, saved string) {
	fmt.Fprintf(w, `tenant URL  %s
namespace   %s
API key     %s
token       %s   (manages the tenant: Terraform, CORVO_TOKEN)
console     %s
`, done.GetTenantUrl(), done.GetNamespace(), done.GetApiKey(), done.GetToken(), done.GetConsoleUrl())
	if saved != "" {
		fmt.Fprintf(w, "\nThe keys are saved in %s and won't be shown again. Try it:\n\n  corvo enqueue hello '{\"name\":\"Ada\"}'\n  corvo work hello -- cat\n", saved)
	}
	if !done.GetReady() {
		fmt.Fprint(w, "\nThe keys are on their way to the cell; they work within seconds.\n")
	}
}

func (s *session) whoamiVerb() verb {
	var endpoint string
	return verb{
		root: "whoami", short: "Show who you are signed in as and your role", example: "  {cmd}\n  {cmd} -o json | jq -r '.tenants[].roles[]'",
		flags: func(c *cobra.Command) { endpointFlag(c, &endpoint) },
		run:   func(c *cobra.Command, _ []string) error { return s.whoami(c.Context(), endpoint) },
	}
}

func (s *session) whoami(ctx context.Context, endpoint string) error {
	c, err := s.signedIn(endpoint)
	if err != nil {
		return err
	}
	who, err := ask(ctx, c, s, cloudv1connect.NewAuthServiceClient(c.http, c.endpoint).GetCurrentIdentity, &cloudv1.GetCurrentIdentityRequest{})
	if err != nil {
		return err
	}
	return s.emitMessage(who, func(w io.Writer) {
		if u := who.GetUser(); u != nil {
			fmt.Fprintf(w, "user  %s  %s\n", u.GetEmail(), u.GetId())
		}
		if k := who.GetKey(); k != nil {
			fmt.Fprintf(w, "key  %s  %s\n", k.GetName(), k.GetId())
		}
		for _, t := range who.GetTenants() {
			role := strings.Join(t.GetRoles(), ", ")
			fmt.Fprintf(w, "tenant  %s  %s  %s\n", t.GetTenant(), role, t.GetTenantUrl())
		}
	})
}
