package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// cloud is how to reach a control plane.
type cloud struct {
	endpoint string
	token    string
	http     *http.Client
}

// cloud finds the control plane: flag, then CORVO_ENDPOINT, then the profile, then this
// machine.
func (s *session) cloud(flag string) (*cloud, error) {
	c := &cloud{endpoint: cmp.Or(flag, s.proc.Env("CORVO_ENDPOINT")), token: strings.TrimSpace(s.proc.Env("CORVO_TOKEN")), http: newHTTPClient()}
	p, err := s.savedProfile()
	if err != nil {
		return nil, err
	}
	c.endpoint = cmp.Or(c.endpoint, p.Endpoint, DefaultServer)
	if c.token == "" && strings.TrimRight(c.endpoint, "/") == p.Endpoint { // The token of one place is never sent to another.
		if c.token, err = s.profileToken(p); err != nil {
			return nil, err
		}
	}
	u, err := url.Parse(c.endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usagef("the control plane's address %q isn't an http or https URL", c.endpoint)
	}
	c.endpoint = strings.TrimRight(c.endpoint, "/")
	return c, nil
}

// profileToken is what a profile shows to the control plane: its person's session, else
// its management key.
func (s *session) profileToken(p profile) (string, error) {
	if p.User == "" {
		return p.Token, nil
	}
	return s.sessionToken(p.account())
}

// notSignedIn is for commands that need a person or a management key.
func notSignedIn() *Failure {
	return &Failure{Exit: ExitAuth, Code: "NOT_SIGNED_IN", What: "you aren't signed in",
		Fix: "sign in with `corvo login`, create a tenant with `corvo signup`, or set CORVO_ENDPOINT and CORVO_TOKEN"}
}

// signedIn is cloud for commands that need somebody.
func (s *session) signedIn(flag string) (*cloud, error) {
	c, err := s.cloud(flag)
	if err == nil && c.token == "" {
		err = notSignedIn()
	}
	return c, err
}

// ask makes one call with the token, if there is one.
func ask[Req, Res any](ctx context.Context, c *cloud, s *session, method func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), req *Req) (*Res, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r := connect.NewRequest(req)
	r.Header().Set("User-Agent", "corvo-cli/"+Version())
	if c.token != "" {
		r.Header().Set("Authorization", "Bearer "+c.token)
	}
	res, err := method(ctx, r)
	if err != nil {
		return nil, fromCloud(ctx, c.endpoint, err)
	}
	return res.Msg, nil
}

// fromCloud explains what a control plane answered.
func fromCloud(ctx context.Context, endpoint string, err error) *Failure {
	var refused *connect.Error
	if !errors.As(err, &refused) || !connect.IsWireError(err) {
		return fromTransport(ctx, http.MethodPost, endpoint, err)
	}
	f := &Failure{Exit: exitOfCode(refused.Code()), Code: wire.Code(strings.ToUpper(refused.Code().String())), What: refused.Message()}
	for _, d := range refused.Details() {
		m, err := d.Value()
		if err != nil {
			continue // A detail of a newer server.
		}
		refusal, ok := m.(*cloudv1.Refusal)
		if !ok {
			continue
		}
		f.Code, f.RequestID, f.Fix = cmp.Or(wire.Code(refusal.GetReason()), f.Code), refusal.GetRequestId(), refusal.GetHelp()
		for _, field := range refusal.GetFields() {
			f.Fields = append(f.Fields, wire.ProblemField{Field: field.GetName(), Message: field.GetProblem()})
		}
		if wait := refusal.GetRetryAfterSeconds(); wait > 0 && f.Fix == "" {
			f.Fix = fmt.Sprintf("retry after %d s", wait)
		}
	}
	switch f.Code {
	case "SESSION_ENDED":
		f.Fix = "sign in again with `corvo login`"
	case "SECOND_FACTOR_SETUP_REQUIRED":
		f.Fix = "set one up in the console at " + endpoint + ", under Your account"
	case "SECOND_FACTOR_REQUIRED":
		f.Fix = "show it with `corvo session prove`, or sign in again with `corvo login`"
	case "STEP_UP_REQUIRED":
		f.Fix = "show it with `corvo session prove`, or do this in the console at " + endpoint
	}
	if f.Code == "UNIMPLEMENTED" || f.Code == "NOT_FOUND" && len(refused.Details()) == 0 {
		f.Fix = "check that --endpoint or CORVO_ENDPOINT is the address of a Corvo Cloud, not of a tenant or a single server"
	}
	return f
}

// byFlags calls the fields of a refusal by the flags that set them.
func byFlags(err error, flags map[string]string) error {
	var f *Failure
	if !errors.As(err, &f) {
		return err
	}
	for i, field := range f.Fields {
		if flag := flags[field.Field]; flag != "" {
			f.What = strings.ReplaceAll(f.What, field.Field+":", flag+":")
			f.Fields[i].Field = flag
		}
	}
	return err
}

func exitOfCode(c connect.Code) int {
	switch c {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return ExitUsage
	case connect.CodeNotFound:
		return ExitNotFound
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return ExitAuth
	case connect.CodeAlreadyExists, connect.CodeFailedPrecondition, connect.CodeAborted:
		return ExitConflict
	case connect.CodeResourceExhausted:
		return ExitRate
	case connect.CodeDeadlineExceeded:
		return ExitTimeout
	}
	return ExitFail
}

// emitMessage prints an answer of the control plane: its JSON for machines, with the
// names of the proto.
func (s *session) emitMessage(m proto.Message, text func(io.Writer)) error {
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	return s.emit(raw, text)
}
