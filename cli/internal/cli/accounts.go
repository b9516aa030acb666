package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
)

func (s *session) profileVerbs() []verb {
	return []verb{
		{
			noun: "profile list", short: "List profiles", example: "  {cmd}\n  {cmd} -o jsonl | jq -r .name",
			run: func(*cobra.Command, []string) error { return s.listProfiles() },
		},
		{
			noun: "profile use", args: "NAME", short: "Choose the profile that commands use", long: "Chooses the profile that commands use; - is the previous one.",
			example: "  {cmd} acme\n  {cmd} -",
			run:     func(_ *cobra.Command, args []string) error { return s.useProfile(args[0]) },
		},
		{
			noun: "profile remove", args: "NAME", short: "Remove a profile from this machine",
			long: `Removes a profile and the keys in it from this machine. They stay valid: revoke them in the
console. The session of ` + "`corvo login`" + ` stays while another profile uses it; ` + "`corvo logout`" + ` ends it.`,
			example: "  {cmd} acme",
			run:     func(_ *cobra.Command, args []string) error { return s.removeProfile(args[0]) },
		},
	}
}

// shownProfile is a profile without its secrets.
type shownProfile struct {
	Name      string `json:"name"`
	Current   bool   `json:"current"`
	URL       string `json:"url"`
	Namespace string `json:"namespace,omitempty"`
	Endpoint  string `json:"endpoint,omitempty"`
	User      string `json:"user,omitempty"`
	Storage   string `json:"storage,omitempty"`
}

func (s *session) listProfiles() error {
	all, err := s.allProfiles()
	if err != nil {
		return err
	}
	var raw []json.RawMessage
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(all.Profiles)) {
		p := all.Profiles[name]
		shown := shownProfile{Name: name, Current: name == all.Current, URL: p.URL, Namespace: p.Namespace, Endpoint: p.Endpoint, User: p.User,
			Storage: all.Sessions[p.account()].Storage}
		line, err := marshal(shown)
		if err != nil {
			return err
		}
		mark := ""
		if shown.Current {
			mark = "*"
		}
		raw = append(raw, line)
		rows = append(rows, []string{mark, name, cmp.Or(p.User, "API key"), cmp.Or(p.Namespace, "-"), p.URL})
	}
	return s.emitAll(raw, func(w io.Writer) {
		if len(rows) == 0 {
			fmt.Fprintln(w, "No profiles. Sign in with `corvo login`, or create a tenant with `corvo signup`.")
			return
		}
		s.table(w, []string{"", "NAME", "SIGNED IN AS", "NAMESPACE", "URL"}, rows)
	})
}

func noProfile(name string, all *profiles) *Failure {
	return &Failure{Exit: ExitNotFound, Code: "NO_PROFILE", What: fmt.Sprintf("there is no profile %q", name),
		Fix: "choose one of: " + cmp.Or(strings.Join(slices.Sorted(maps.Keys(all.Profiles)), ", "), "none; sign in with `corvo login`")}
}

func (s *session) useProfile(name string) error {
	_, err := s.changeProfiles(func(all *profiles) error {
		if name == "-" {
			name = all.Previous
		}
		if _, ok := all.Profiles[name]; !ok {
			return noProfile(name, all)
		}
		all.choose(name)
		return nil
	})
	return s.said(err, name, "in use")
}

func (s *session) removeProfile(name string) error {
	_, err := s.changeProfiles(func(all *profiles) error {
		p, ok := all.Profiles[name]
		if !ok {
			return noProfile(name, all)
		}
		alone := p.User != "" && !slices.ContainsFunc(slices.Collect(maps.Keys(all.Profiles)), func(other string) bool {
			return other != name && all.Profiles[other].account() == p.account()
		})
		if alone {
			return &Failure{Exit: ExitConflict, Code: "SIGNED_IN", What: "this is the last profile of the session of " + p.User,
				Fix: "run `corvo profile use " + name + "` and `corvo logout`, which ends the session too"}
		}
		delete(all.Profiles, name)
		if all.Current == name {
			all.Current, all.Previous = all.Previous, ""
		}
		return nil
	})
	return s.said(err, name, "removed")
}

// said prints what became of a profile.
func (s *session) said(err error, name, what string) error {
	if err != nil {
		return err
	}
	return s.emitValue(map[string]string{"profile": name, "status": what}, func(w io.Writer) { fmt.Fprintf(w, "%s  %s\n", name, what) })
}

func (s *session) sessionVerbs() []verb {
	var endpoint string
	var others bool
	return []verb{
		{
			noun: "session list", short: "List where you are signed in", example: "  {cmd}\n  {cmd} -o jsonl | jq -r 'select(.current | not) | .id'",
			flags: func(c *cobra.Command) { endpointFlag(c, &endpoint) },
			run:   func(c *cobra.Command, _ []string) error { return s.listSessions(c.Context(), endpoint) },
		},
		{
			noun: "session revoke", args: "[ID]", short: "End one of your sessions, or all others", example: "  {cmd} ses_01K...\n  {cmd} --others",
			flags: func(c *cobra.Command) {
				endpointFlag(c, &endpoint)
				c.Flags().BoolVar(&others, "others", false, "end all sessions but this one")
			},
			run: func(c *cobra.Command, args []string) error {
				if (len(args) == 1) == others {
					return usagef("give either the id of a session, or --others")
				}
				return s.revokeSessions(c.Context(), endpoint, args)
			},
		},
		{
			noun: "session prove", short: "Show your second factor, for what asks for it in the next ten minutes",
			long: `Reads a code from stdin: of your authenticator app, or a recovery code. Then this session may do
what was refused with STEP_UP_REQUIRED, for ten minutes. Passkeys work in the console only.`,
			example: "  {cmd}",
			flags:   func(c *cobra.Command) { endpointFlag(c, &endpoint) },
			run:     func(c *cobra.Command, _ []string) error { return s.prove(c.Context(), endpoint) },
		},
	}
}

func (s *session) sessionService(endpoint string) (*cloud, cloudv1connect.SessionServiceClient, error) {
	c, err := s.signedIn(endpoint)
	if err != nil {
		return nil, nil, err
	}
	return c, cloudv1connect.NewSessionServiceClient(c.http, c.endpoint), nil
}

// isAppCode: what an authenticator app shows; recovery codes are longer.
func isAppCode(code string) bool {
	return len(code) == 6 && strings.Trim(code, "0123456789") == ""
}

func (s *session) prove(ctx context.Context, endpoint string) error {
	c, err := s.signedIn(endpoint)
	if err != nil {
		return err
	}
	code, err := s.codeFromStdin()
	if err != nil {
		return err
	}
	req := &cloudv1.ProveRequest{Proof: &cloudv1.ProveRequest_RecoveryCode{RecoveryCode: code}}
	if isAppCode(code) {
		req.Proof = &cloudv1.ProveRequest_TotpCode{TotpCode: code}
	}
	res, err := ask(ctx, c, s, cloudv1connect.NewFactorServiceClient(c.http, c.endpoint).Prove, req)
	if err != nil {
		return err
	}
	return s.emitMessage(res, func(w io.Writer) { fmt.Fprintln(w, "second factor shown: it counts for ten minutes") })
}

// codeFromStdin never takes one from the command line, which other users of the machine see.
func (s *session) codeFromStdin() (string, error) {
	if isTerminal(s.proc.Stdin) {
		fmt.Fprint(s.proc.Stderr, "Code: ")
	}
	code, err := bufio.NewReader(s.proc.Stdin).ReadString('\n')
	if code = strings.TrimSpace(code); code == "" {
		return "", usagef("send a code on stdin (%v)", err)
	}
	return code, nil
}

func (s *session) listSessions(ctx context.Context, endpoint string) error {
	c, client, err := s.sessionService(endpoint)
	if err != nil {
		return err
	}
	res, err := ask(ctx, c, s, client.ListSessions, &cloudv1.ListSessionsRequest{})
	if err != nil {
		return err
	}
	var raw []json.RawMessage
	var rows [][]string
	for _, v := range res.GetSessions() {
		line, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode output: %w", err)
		}
		kind := strings.ToLower(strings.TrimPrefix(v.GetKind().String(), "SESSION_KIND_"))
		if v.GetCurrent() {
			kind += " (this one)"
		}
		raw = append(raw, line)
		rows = append(rows, []string{v.GetId(), kind, v.GetIp(), ago(v.GetLastSeenAt().AsTime(), time.Now()), cmp.Or(v.GetClientName(), v.GetUserAgent())})
	}
	return s.emitAll(raw, func(w io.Writer) { s.table(w, []string{"ID", "KIND", "IP", "LAST USED", "CLIENT"}, rows) })
}

func (s *session) revokeSessions(ctx context.Context, endpoint string, ids []string) error {
	c, client, err := s.sessionService(endpoint)
	if err != nil {
		return err
	}
	if len(ids) == 1 {
		res, err := ask(ctx, c, s, client.RevokeSession, &cloudv1.RevokeSessionRequest{SessionId: ids[0]})
		if err != nil {
			return err
		}
		return s.emitMessage(res, func(w io.Writer) { fmt.Fprintf(w, "%s  revoked\n", ids[0]) })
	}
	res, err := ask(ctx, c, s, client.RevokeOtherSessions, &cloudv1.RevokeOtherSessionsRequest{})
	if err != nil {
		return err
	}
	return s.emitMessage(res, func(w io.Writer) { fmt.Fprintf(w, "%d sessions revoked\n", res.GetSessionsEnded()) })
}
