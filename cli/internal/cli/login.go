package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
)

type loginFlags struct {
	url       string
	tenant    string
	noBrowser bool
	withToken bool
	insecure  bool
}

func (s *session) loginVerb() verb {
	var f loginFlags
	return verb{
		root: "login", short: "Sign in as yourself, with a code that you approve in a browser",
		long: `Shows a code, which you enter and approve on a page of the console, and signs in this
machine. The session is kept in the keyring of the operating system, ends 30 days after
its last use, and is listed with your other sessions in the console. Each of your tenants
becomes a profile. A management key is kept in the profile itself, readable only by you.

Environment variables go before the profile: CORVO_TOKEN for the control API, CORVO_URL
and CORVO_API_KEY for jobs.`,
		example: `  {cmd}
  {cmd} --url https://app.corvo.example
  {cmd} --no-browser                       # open the page on another machine
  {cmd} --with-token < token.txt`,
		flags: func(c *cobra.Command) {
			fs := c.Flags()
			fs.StringVar(&f.url, "url", "", "`URL` of the service (env CORVO_ENDPOINT, then your profile; default "+DefaultServer+")")
			fs.StringVar(&f.tenant, "tenant", "", "`NAME` of the tenant to use first, if you have several")
			fs.BoolVar(&f.noBrowser, "no-browser", false, "don't offer to open a browser")
			fs.BoolVar(&f.withToken, "with-token", false, "read a session's token or a management key from stdin")
			fs.BoolVar(&f.insecure, "insecure-storage", false, "keep the session in your profile, unencrypted and readable only by you, instead of the keyring")
		},
		run: func(c *cobra.Command, _ []string) error { return s.login(c.Context(), f) },
	}
}

func (s *session) login(ctx context.Context, f loginFlags) error {
	c, err := s.cloud(f.url)
	if err != nil {
		return err
	}
	if f.withToken {
		c.token, err = s.tokenFromStdin()
	} else if err = s.checkKeyring(f); err == nil {
		c.token, err = s.approvedToken(ctx, c, f)
	}
	if err != nil {
		return err
	}
	return s.keepLogin(ctx, c, f)
}

// checkKeyring refuses to begin a session that could not be kept.
func (s *session) checkKeyring(f loginFlags) error {
	if f.insecure {
		return nil
	}
	if err := probeKeyring(); err != nil {
		return s.noKeyring(err)
	}
	return nil
}

// storageOf is where the token is kept. A management key is a part of its profile; only
// sessions need a keyring.
func (s *session) storageOf(who *cloudv1.GetCurrentIdentityResponse, f loginFlags) (string, error) {
	if f.insecure || who.GetUser() == nil {
		return inFile, nil
	}
	if !f.withToken {
		return inKeyring, nil // Checked before the person signed in.
	}
	return inKeyring, s.checkKeyring(f)
}

func (s *session) tokenFromStdin() (string, error) {
	raw, err := io.ReadAll(io.LimitReader(s.proc.Stdin, 4<<10))
	token := strings.TrimSpace(string(raw))
	if err != nil || token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", usagef("--with-token reads one token from stdin")
	}
	return token, nil
}

// approvedToken asks for a code and waits until somebody has decided about it.
func (s *session) approvedToken(ctx context.Context, c *cloud, f loginFlags) (string, error) {
	c.token = "" // Whoever signs in is nobody yet.
	client := cloudv1connect.NewAuthServiceClient(c.http, c.endpoint)
	started, err := ask(ctx, c, s, client.StartDeviceLogin, &cloudv1.StartDeviceLoginRequest{ClientName: clientName()})
	if err != nil {
		return "", err
	}
	minutes := time.Until(started.GetExpiresAt().AsTime()).Round(time.Minute).Minutes()
	fmt.Fprintf(s.proc.Stderr, "Your code is %s. Enter it at %s within %.0f minutes.\n",
		s.paint(styleBold, printable(started.GetUserCode())), printable(started.GetVerificationUri()), minutes)
	if !f.noBrowser && isTerminal(s.proc.Stdin) && isTerminal(s.proc.Stderr) {
		s.talkf("Press Enter to open the page in your browser.")
		go s.openOnEnter(started.GetVerificationUri())
	}
	return s.awaitApproval(ctx, c, client, started)
}

// clientName is what the person who approves is shown.
func clientName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "corvo"
	}
	return "corvo on " + host[:min(len(host), 80)]
}

// openOnEnter opens the page when the person wants it, while the code is polled.
func (s *session) openOnEnter(page string) {
	if _, err := bufio.NewReader(s.proc.Stdin).ReadString('\n'); err != nil {
		return
	}
	if err := openBrowser(page); err != nil {
		s.talkf("Couldn't open a browser: %v. Open %s yourself.", err, page)
	}
}

func openBrowser(page string) error {
	switch runtime.GOOS {
	case "darwin":
		return exec.Command("open", page).Run()
	case "windows":
		return exec.Command("rundll32", "url.dll,FileProtocolHandler", page).Run()
	}
	return exec.Command("xdg-open", page).Run()
}

// awaitApproval polls as often as the server wants, until the code expires.
func (s *session) awaitApproval(
	ctx context.Context, c *cloud, client cloudv1connect.AuthServiceClient, started *cloudv1.StartDeviceLoginResponse,
) (string, error) {
	pause := time.Duration(started.GetIntervalSeconds()) * time.Second
	for {
		if !sleep(ctx, max(pause, time.Second)) {
			return "", interruption("stopped before the sign-in was approved")
		}
		res, err := ask(ctx, c, s, client.PollDeviceLogin, &cloudv1.PollDeviceLoginRequest{DeviceCode: started.GetDeviceCode()})
		var f *Failure
		switch {
		case errors.As(err, &f) && (f.Exit == ExitRate || f.Exit == ExitTimeout || f.Code == "UNREACHABLE" || f.Code == "UNAVAILABLE"):
			if time.Now().After(started.GetExpiresAt().AsTime()) {
				return "", err
			}
			pause += time.Second // RFC 8628, 3.5: back off.
			continue
		case err != nil:
			return "", err
		}
		pause = time.Duration(res.GetIntervalSeconds()) * time.Second
		switch res.GetStatus() {
		case cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_APPROVED:
			return res.GetToken(), nil
		case cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_DENIED:
			return "", &Failure{Exit: ExitAuth, Code: "DENIED", What: "the sign-in was denied", Fix: "run `corvo login` again"}
		case cloudv1.DeviceLoginStatus_DEVICE_LOGIN_STATUS_EXPIRED:
			return "", &Failure{Exit: ExitTimeout, Code: "EXPIRED", What: "the code expired before anyone approved it", Fix: "run `corvo login` again"}
		}
	}
}

// loggedIn is what `corvo login` prints for machines.
type loggedIn struct {
	User     string   `json:"user,omitempty"`
	Key      string   `json:"key,omitempty"`
	Endpoint string   `json:"endpoint"`
	Profile  string   `json:"profile"`
	Profiles []string `json:"profiles"`
	Storage  string   `json:"storage"`
}

// keepLogin makes a profile of each tenant that the token reaches.
func (s *session) keepLogin(ctx context.Context, c *cloud, f loginFlags) error {
	who, err := ask(ctx, c, s, cloudv1connect.NewAuthServiceClient(c.http, c.endpoint).GetCurrentIdentity, &cloudv1.GetCurrentIdentityRequest{})
	if err != nil {
		return err
	}
	storage, err := s.storageOf(who, f)
	if err != nil {
		return err
	}
	made, err := s.profilesOf(ctx, c, who)
	if err != nil {
		return err
	}
	first, err := firstTenant(made, f.tenant)
	if err != nil {
		return errors.Join(err, s.giveUp(ctx, c, who))
	}
	done := loggedIn{User: who.GetUser().GetEmail(), Key: who.GetKey().GetName(), Endpoint: c.endpoint, Storage: storage}
	path, err := s.changeProfiles(func(all *profiles) error { return s.addLogin(all, made, first, c.token, &done) })
	if err != nil {
		// A session that nobody holds is one to revoke.
		return errors.Join(&Failure{Exit: ExitFail, Code: "PROFILE", What: "can't save your session", Why: err.Error(),
			Fix: "fix what is wrong, and run `corvo login` again"}, s.giveUp(ctx, c, who))
	}
	return s.emitValue(done, func(w io.Writer) {
		fmt.Fprintf(w, "Signed in to %s as %s.\n", c.endpoint, cmp.Or(done.User, done.Key))
		fmt.Fprintf(w, "profile  %s (%s)\n", done.Profile, path)
		if storage == inFile {
			what := "session"
			if who.GetUser() == nil {
				what = "key"
			}
			fmt.Fprintf(w, "The %s is in this file, unencrypted and readable only by you.\n", what)
		}
		if len(done.Profiles) > 1 {
			fmt.Fprintf(w, "Switch with: corvo profile use %s\n", strings.Join(done.Profiles, "|"))
		}
	})
}

// giveUp ends a session that could not be kept. The caller has another error to show.
func (s *session) giveUp(ctx context.Context, c *cloud, who *cloudv1.GetCurrentIdentityResponse) error {
	if who.GetUser() == nil {
		return nil
	}
	_, err := ask(ctx, c, s, cloudv1connect.NewAuthServiceClient(c.http, c.endpoint).Logout, &cloudv1.LogoutRequest{})
	return err
}

func firstTenant(made []profile, wanted string) (string, error) {
	tenants := make([]string, len(made))
	for i, p := range made {
		tenants[i] = p.Tenant
	}
	switch {
	case wanted == "" && len(tenants) > 0:
		return tenants[0], nil
	case wanted != "" && slices.Contains(tenants, wanted):
		return wanted, nil
	case len(tenants) == 0:
		return "", &Failure{Exit: ExitNotFound, Code: "NO_TENANT", What: "you aren't a member of any tenant", Fix: "create one with `corvo signup`, or ask to be invited"}
	}
	return "", usagef("--tenant %s: you are a member of %s", wanted, strings.Join(tenants, ", "))
}

// profilesOf is a profile for each tenant.
func (s *session) profilesOf(ctx context.Context, c *cloud, who *cloudv1.GetCurrentIdentityResponse) (made []profile, _ error) {
	for _, t := range who.GetTenants() {
		p := profile{URL: t.GetTenantUrl(), Tenant: t.GetTenant(), Endpoint: c.endpoint, User: who.GetUser().GetEmail()}
		if who.GetUser() == nil {
			p.Token = c.token
		}
		var err error
		if p.Namespace, err = s.firstNamespace(ctx, c, p.Tenant); err != nil {
			return nil, err
		}
		made = append(made, p)
	}
	return made, nil
}

// firstNamespace is the one that commands use without --namespace: "default", else the only
// one. Whoever may not list them has to name one.
func (s *session) firstNamespace(ctx context.Context, c *cloud, tenant string) (string, error) {
	client := cloudv1connect.NewNamespaceServiceClient(c.http, c.endpoint)
	res, err := ask(ctx, c, s, client.ListNamespaces, &cloudv1.ListNamespacesRequest{Tenant: tenant})
	var f *Failure
	if errors.As(err, &f) && f.Code == "PERMISSION_DENIED" {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	all := res.GetNamespaces()
	for _, n := range all {
		if n.GetName() == "default" {
			return n.GetName(), nil
		}
	}
	if len(all) == 1 {
		return all[0].GetName(), nil
	}
	return "", nil
}

// addLogin keeps the keys that a profile has: they are shown once only.
func (s *session) addLogin(all *profiles, made []profile, first, token string, done *loggedIn) error {
	for _, p := range made {
		name := all.nameOf(p)
		s.tellName(all, name, p.Tenant)
		old := all.Profiles[name]
		p.APIKey, p.Token, p.Namespace = old.APIKey, cmp.Or(p.Token, old.Token), cmp.Or(old.Namespace, p.Namespace)
		all.Profiles[name] = p
		done.Profiles = append(done.Profiles, name)
		if p.Tenant == first {
			done.Profile = name
		}
	}
	all.choose(done.Profile)
	if account := all.Profiles[done.Profile].account(); account != "" {
		return keepSession(all, account, token, done.Storage)
	}
	return nil
}

func (s *session) logoutVerb() verb {
	return verb{
		root: "logout", short: "End the session of the current profile",
		long: `Ends the session that ` + "`corvo login`" + ` opened, on the server and on this machine. Profiles that
have keys stay; keys are revoked in the console.`,
		example: "  {cmd}",
		run:     func(c *cobra.Command, _ []string) error { return s.logout(c.Context()) },
	}
}

func (s *session) logout(ctx context.Context) error {
	p, err := s.savedProfile()
	if err != nil {
		return err
	}
	if p.User == "" {
		return notSignedIn()
	}
	c := &cloud{endpoint: p.Endpoint, http: newHTTPClient()}
	if c.token, err = s.sessionToken(p.account()); err != nil {
		return err
	}
	var ended error
	if c.token != "" {
		ended = s.endSession(ctx, c)
	}
	if _, err := s.changeProfiles(func(all *profiles) error { return dropSession(all, p.account()) }); err != nil {
		return &Failure{Exit: ExitFail, Code: "PROFILE", What: "can't forget your session on this machine", Why: err.Error()}
	}
	if ended != nil {
		f := toFailure(ended)
		f.What, f.Why = "this machine forgot your session, but the server couldn't be told", f.Error()
		f.Fix = "revoke it in the console under Your account"
		return f
	}
	return s.emitValue(map[string]string{"user": p.User, "endpoint": p.Endpoint}, func(w io.Writer) {
		fmt.Fprintf(w, "Signed out %s from %s.\n", p.User, p.Endpoint)
	})
}

// endSession ends it on the server; one that has ended is fine.
func (s *session) endSession(ctx context.Context, c *cloud) error {
	_, err := ask(ctx, c, s, cloudv1connect.NewAuthServiceClient(c.http, c.endpoint).Logout, &cloudv1.LogoutRequest{})
	var f *Failure
	if errors.As(err, &f) && f.Code == "SESSION_ENDED" {
		return nil
	}
	return err
}
