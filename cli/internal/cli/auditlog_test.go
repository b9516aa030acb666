package cli

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo-cloud/corvo/control-plane/api/auditlog"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
)

// auditService answers as a control plane does, with a log of five entries.
type auditService struct {
	cloudv1connect.UnimplementedAuditServiceHandler
	lines []string
	keyID string
}

func newAuditService(t *testing.T) *auditService {
	t.Helper()
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	public, _ := private.Public().(ed25519.PublicKey)
	now := auditlog.Time{Time: time.Date(2026, 11, 23, 15, 0, 0, 0, time.UTC)}
	var entries []any
	prev := ""
	for seq := int64(1); seq <= 5; seq++ {
		e := auditlog.Entry{Kind: auditlog.KindEntry, TenantID: "tn_1", Seq: seq, ID: fmt.Sprint("aud_", seq), At: now, Actor: "ada@acme.test", Action: "key.create", PrevHash: prev}
		var err error
		if e.Hash, err = auditlog.HashOf(e); err != nil {
			t.Fatal(err)
		}
		prev = e.Hash
		entries = append(entries, e)
	}
	x := auditlog.Export{TenantID: "tn_1", Tenant: "acme", From: 1, To: 5, Hash: prev, FirstSeq: 1, At: now}
	if err := x.Sign(private); err != nil {
		t.Fatal(err)
	}
	s := &auditService{keyID: auditlog.KeyID(public)}
	for _, l := range append([]any{x, auditlog.NewKey(public, now.Time)}, entries...) {
		line, err := auditlog.Line(l)
		if err != nil {
			t.Fatal(err)
		}
		s.lines = append(s.lines, line)
	}
	return s
}

// ExportAuditLog gives three lines per page.
func (s *auditService) ExportAuditLog(_ context.Context, r *connect.Request[cloudv1.ExportAuditLogRequest]) (*connect.Response[cloudv1.ExportAuditLogResponse], error) {
	if r.Header().Get("Authorization") != "Bearer corvo_mg_test" {
		return nil, connect.NewError(connect.CodeUnauthenticated, nil)
	}
	from := 0
	if r.Msg.GetPageToken() != "" {
		if _, err := fmt.Sscan(r.Msg.GetPageToken(), &from); err != nil {
			return nil, err
		}
	}
	to := min(from+3, len(s.lines))
	res := &cloudv1.ExportAuditLogResponse{Lines: s.lines[from:to]}
	if to < len(s.lines) {
		res.NextPageToken = fmt.Sprint(to)
	}
	return connect.NewResponse(res), nil
}

func (s *auditService) ListAuditEvents(_ context.Context, r *connect.Request[cloudv1.ListAuditEventsRequest]) (*connect.Response[cloudv1.ListAuditEventsResponse], error) {
	if r.Msg.GetAction() != "key" || r.Msg.GetAfter().AsTime().After(time.Now().Add(-47*time.Hour)) {
		return nil, connect.NewError(connect.CodeInvalidArgument, nil)
	}
	return connect.NewResponse(&cloudv1.ListAuditEventsResponse{
		Events: []*cloudv1.AuditEvent{{Id: "aud_1", At: timestamppb.Now(), Actor: "ada@acme.test", Action: "key.create", Target: "worker"}},
	}), nil
}

func (s *auditService) ListAuditKeys(context.Context, *connect.Request[cloudv1.ListAuditKeysRequest]) (*connect.Response[cloudv1.ListAuditKeysResponse], error) {
	return connect.NewResponse(&cloudv1.ListAuditKeysResponse{Keys: []*cloudv1.AuditKey{{Id: s.keyID, CreatedAt: timestamppb.Now(), PublicKey: []byte{1}}}}), nil
}

func TestAudit_ExportIsVerifiedOffline(t *testing.T) {
	t.Parallel()
	service := newAuditService(t)
	mux := http.NewServeMux()
	mux.Handle(cloudv1connect.NewAuditServiceHandler(service))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	do := func(args ...string) outcome {
		var stdout, stderr bytes.Buffer
		env := map[string]string{"CORVO_ENDPOINT": server.URL, "CORVO_TOKEN": "corvo_mg_test"}
		exit := Main(t.Context(), append([]string{"audit"}, args...), Process{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Env: func(n string) string { return env[n] }})
		return outcome{exit, stdout.String(), stderr.String()}
	}
	file := filepath.Join(t.TempDir(), "audit.ndjson")
	if got := do("export", "--output-file", file); got.exit != ExitOK || !strings.Contains(got.stderr, "exported 5 entries") {
		t.Fatalf("%+v", got)
	}
	if got := do("export", "--output-file", file); got.exit == ExitOK {
		t.Errorf("it wrote over a file: %+v", got)
	}
	for _, args := range [][]string{{"verify", file}, {"verify", file, "--key", service.keyID}} {
		if got := do(args...); got.exit != ExitOK || !strings.Contains(got.stdout, "valid  acme  5 entries") || !strings.Contains(got.stdout, service.keyID) {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if got := do("verify", file, "--key", "corvo_audit_other"); got.exit != ExitFail || !strings.Contains(got.stdout, "isn't one that you trust") {
		t.Errorf("%+v", got)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	lines[4] = strings.Replace(lines[4], "ada@", "eve@", 1)
	if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := do("verify", file); got.exit != ExitFail || !strings.Contains(got.stdout, "line 5, entry 3, aud_3: its contents were changed") {
		t.Errorf("%+v", got)
	}
	if got := do("verify", file, "-o", "json"); got.exit != ExitFail || !strings.Contains(got.stdout, `"valid": false`) || !strings.Contains(got.stderr, "AUDIT_LOG_BROKEN") {
		t.Errorf("%+v", got)
	}
	if got := do("keys"); got.exit != ExitOK || !strings.Contains(got.stdout, service.keyID) {
		t.Errorf("%+v", got)
	}
	if got := do("list", "--action", "key", "--after", "2d"); got.exit != ExitOK || !strings.Contains(got.stdout, "ada@acme.test  key.create  worker") {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"export", "--format", "xml"}, {"list", "--after", "soon"}, {"verify", "missing"}, {"nonsense"}} {
		if got := do(args...); got.exit != ExitUsage {
			t.Errorf("%q: %+v", args, got)
		}
	}
}
