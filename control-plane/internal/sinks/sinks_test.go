package sinks

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	secretText = "a secret of sixteen or more"
	accessKey  = "AKIDEXAMPLE"
)

// receiver is what a sink has got, and whether it takes more.
type receiver struct {
	mu     sync.Mutex
	lines  []string
	names  []string // Ids of requests, names of objects.
	refuse bool
	wrong  []string
}

func (r *receiver) take(name, body string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = append(r.names, name)
	r.lines = append(r.lines, strings.Split(strings.TrimSuffix(body, "\n"), "\n")...)
}

func (r *receiver) complain(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

func (r *receiver) refuses(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = is
}

func (r *receiver) refusing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refuse
}

// seqs are the numbers of the entries that came, in order; 0 for a test event.
func (r *receiver) seqs(t *testing.T) (out []int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.wrong {
		t.Error(w)
	}
	for _, l := range r.lines {
		var e struct {
			Seq      int `json:"seq"`
			Metadata struct {
				Sequence int `json:"sequence"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			t.Errorf("%q: %v", l, err)
		}
		out = append(out, max(e.Seq, e.Metadata.Sequence))
	}
	return out
}

// webhook checks the signature as Standard Webhooks says.
func (r *receiver) webhook(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		r.complain("%v", err)
	}
	mac := hmac.New(sha256.New, []byte(secretText))
	_, _ = io.WriteString(mac, q.Header.Get("Webhook-Id")+"."+q.Header.Get("Webhook-Timestamp")+"."+string(body))
	if got, want := q.Header.Get("Webhook-Signature"), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != want {
		r.complain("signature %q, want %q", got, want)
	}
	if q.Header.Get("Authorization") != "Splunk token" || q.Method != http.MethodPost {
		r.complain("%s with %v", q.Method, q.Header)
	}
	if r.refusing() {
		http.Error(w, "no room\nleft", http.StatusInsufficientStorage)
		return
	}
	r.take(q.Header.Get("Webhook-Id"), string(body))
}

// bucket checks the signature of version 4 from its specification.
func (r *receiver) bucket(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		r.complain("%v", err)
	}
	if why := signedV4(q, body); why != "" {
		r.complain("%s", why)
		http.Error(w, "<Error><Code>SignatureDoesNotMatch</Code></Error>", http.StatusForbidden)
		return
	}
	if r.refusing() {
		http.Error(w, "<Error><Code>SlowDown</Code></Error>", http.StatusServiceUnavailable)
		return
	}
	r.take(q.URL.Path, string(body))
}

func signedV4(q *http.Request, body []byte) string {
	sum := func(b []byte) string { h := sha256.Sum256(b); return hex.EncodeToString(h[:]) }
	sign := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		_, _ = io.WriteString(h, text)
		return h.Sum(nil)
	}
	auth := map[string]string{}
	text, ok := strings.CutPrefix(q.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		auth[name] = value
	}
	scope := strings.Split(auth["Credential"], "/")
	if !ok || len(scope) != 5 || scope[0] != accessKey || scope[3] != "s3" || scope[4] != "aws4_request" {
		return "Authorization " + q.Header.Get("Authorization")
	}
	if sum(body) != q.Header.Get("X-Amz-Content-Sha256") {
		return "the digest isn't that of the body"
	}
	canonical := q.Method + "\n" + q.URL.EscapedPath() + "\n" + q.URL.RawQuery + "\n"
	signed := strings.Split(auth["SignedHeaders"], ";")
	for _, name := range signed {
		value := q.Header.Get(name)
		switch name {
		case "host":
			value = q.Host
		case "content-length":
			value = strconv.FormatInt(q.ContentLength, 10)
		}
		canonical += name + ":" + strings.TrimSpace(value) + "\n"
	}
	if !slices.Contains(signed, "host") || !slices.Contains(signed, "x-amz-date") {
		return "host or date isn't signed"
	}
	canonical += "\n" + auth["SignedHeaders"] + "\n" + q.Header.Get("X-Amz-Content-Sha256")
	toSign := "AWS4-HMAC-SHA256\n" + q.Header.Get("X-Amz-Date") + "\n" + strings.Join(scope[1:], "/") + "\n" + sum([]byte(canonical))
	key := []byte("AWS4" + secretText)
	for _, part := range scope[1:] {
		key = sign(key, part)
	}
	if hex.EncodeToString(sign(key, toSign)) != auth["Signature"] {
		return "the signature isn't valid for\n" + canonical
	}
	return ""
}

// syslog reads messages with their length in front until the client closes.
func (r *receiver) syslog(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if r.refusing() {
		return
	}
	in := bufio.NewReader(conn)
	for {
		length, err := in.ReadString(' ')
		if err != nil {
			return
		}
		n, err := strconv.Atoi(strings.TrimSpace(length))
		if err != nil {
			r.complain("length %q", length)
			return
		}
		message := make([]byte, n)
		if _, err := io.ReadFull(in, message); err != nil {
			r.complain("%v", err)
			return
		}
		head, line, ok := strings.Cut(string(message), "\ufeff")
		if fields := strings.Fields(head); !ok || len(fields) != 7 || fields[0] != "<110>1" || fields[2] != "corvo" || fields[6] != "-" {
			r.complain("message %q", message)
		}
		r.take("", line)
	}
}

// world is a tenant with sinks.
type world struct {
	*cloudtest.World
	*Service
	ctx    context.Context
	tenant store.Tenant
	https  *httptest.Server
	got    *receiver
	log    net.Listener
}

func newWorld(t *testing.T, w *cloudtest.World) *world {
	t.Helper()
	tn, owner := w.Tenant(t, "acme", "ada@acme.test")
	ctx, _ := w.As(t, tn, owner, permission.RoleOwner)
	got := &receiver{}
	mux := http.NewServeMux()
	mux.HandleFunc("/hook", got.webhook)
	mux.HandleFunc("/", got.bucket)
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go got.syslog(conn)
		}
	}()
	s := New(w.Kit, egress.Options{AllowPrivate: true, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	return &world{World: w, Service: s, ctx: ctx, tenant: tn, https: server, got: got, log: listener}
}

func (w *world) requests() map[string]*cloudv1.CreateAuditSinkRequest {
	port, _ := strconv.Atoi(w.log.Addr().String()[strings.LastIndex(w.log.Addr().String(), ":")+1:])
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.https.Certificate().Raw}))
	return map[string]*cloudv1.CreateAuditSinkRequest{
		"https": {Name: "siem", Target: &cloudv1.CreateAuditSinkRequest_Https{Https: &cloudv1.HttpsAuditSink{
			Url: w.https.URL + "/hook", SigningSecret: secretText, Authorization: "Splunk token",
		}}},
		"s3": {Name: "archive", Format: cloudv1.AuditFormat_AUDIT_FORMAT_NATIVE, Target: &cloudv1.CreateAuditSinkRequest_S3{S3: &cloudv1.S3AuditSink{
			Endpoint: w.https.URL, Region: "eu-central-1", Bucket: "audit-acme", Prefix: "corvo/a=b/", AccessKeyId: accessKey, SecretAccessKey: secretText,
		}}},
		"syslog": {Name: "log", Format: cloudv1.AuditFormat_AUDIT_FORMAT_OCSF, Target: &cloudv1.CreateAuditSinkRequest_Syslog{Syslog: &cloudv1.SyslogAuditSink{
			Host: "127.0.0.1", Port: int32(port), CaPem: ca,
		}}},
	}
}

func (w *world) did(t *testing.T, n int) {
	t.Helper()
	for range n {
		err := w.World.Store.Tenant(w.ctx, w.tenant.ID, func(tx *store.Tx) error {
			return change.Make(w.ctx, w.World.Kit, tx, "namespace.update", change.AuditOnly(change.Target{Type: "namespace", ID: "ns_1", Name: "default", TenantID: w.tenant.ID}), nil)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) create(t *testing.T, r *cloudv1.CreateAuditSinkRequest) *cloudv1.AuditSink {
	t.Helper()
	res, err := w.CreateAuditSink(w.ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return res.GetSink()
}

func (w *world) get(t *testing.T, id string) *cloudv1.AuditSink {
	t.Helper()
	res, err := w.GetAuditSink(w.ctx, &cloudv1.GetAuditSinkRequest{SinkId: id})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetSink()
}

func (w *world) deliver(t *testing.T) {
	t.Helper()
	if err := w.Deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Whatever kind it is: a test event, then every entry once and in order; after an outage
// what was written meanwhile.
func TestSinks_GetEveryEntryInOrderAlsoAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"https", "s3", "syslog"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cloudtest.Each(t, func(t *testing.T, cw *cloudtest.World) {
				w := newWorld(t, cw)
				w.did(t, 3)
				made := w.create(t, w.requests()[kind])
				if got := w.got.seqs(t); !slices.Equal(got, []int{0}) {
					t.Fatalf("a test event was sent first: %v", got)
				}
				w.did(t, 3) // 4 is the sink's own entry.
				w.deliver(t)
				want := []int{0, 4, 5, 6, 7}
				if got := w.got.seqs(t); !slices.Equal(got, want) {
					t.Errorf("it got %v, want %v", got, want)
				}
				if s := w.get(t, made.GetId()); s.GetState() != cloudv1.AuditSinkState_AUDIT_SINK_STATE_ACTIVE || s.GetSentSeq() != 7 || s.GetLatestSeq() != 7 {
					t.Errorf("%v", s)
				}
				if kind == "syslog" {
					return // It has no answers to refuse with.
				}
				w.got.refuses(true)
				w.Advance(2 * time.Minute)
				w.did(t, 2)
				for range 3 {
					w.deliver(t)
					w.Advance(10 * time.Minute)
				}
				s := w.get(t, made.GetId())
				if s.GetState() != cloudv1.AuditSinkState_AUDIT_SINK_STATE_FAILING || !strings.Contains(s.GetLastError(), "it responded with status 50") || s.GetSentSeq() != 7 ||
					!s.GetFailingSince().AsTime().Before(w.Now().Add(-20*time.Minute)) || s.GetNextAttemptAt() == nil {
					t.Errorf("%v", s)
				}
				w.got.refuses(false)
				w.did(t, 1)
				w.deliver(t)
				if got, want := w.got.seqs(t), append(want, 8, 9, 10); !slices.Equal(got, want) {
					t.Errorf("after the outage it has %v, want %v", got, want)
				}
				if s := w.get(t, made.GetId()); s.GetState() != cloudv1.AuditSinkState_AUDIT_SINK_STATE_ACTIVE || s.GetLastError() != "" || s.GetFailingSince() != nil {
					t.Errorf("%v", s)
				}
			})
		})
	}
}

// A sink that fails waits longer and longer, and holds up neither work nor another sink.
func TestSinks_AFailingOneBacksOffAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	bad := w.create(t, w.requests()["https"])
	good := w.create(t, w.requests()["syslog"])
	w.https.Close()
	var waits []time.Duration
	for range 5 {
		w.did(t, 1)
		w.deliver(t)
		s := w.get(t, bad.GetId())
		waits = append(waits, s.GetNextAttemptAt().AsTime().Sub(w.Now()))
		w.Advance(waits[len(waits)-1])
	}
	if waits[0] > time.Second || waits[4] < 8*time.Second || waits[4] > 16*time.Second {
		t.Errorf("it waited %v", waits)
	}
	if s := w.get(t, good.GetId()); s.GetSentSeq() != s.GetLatestSeq() {
		t.Errorf("the other one is at %d of %d", s.GetSentSeq(), s.GetLatestSeq())
	}
	if s := w.get(t, bad.GetId()); strings.Contains(s.GetLastError(), "/hook") {
		t.Errorf("the error shows the URL: %s", s.GetLastError())
	}
}

// Two processes send each entry once, while both live.
func TestSinks_OneProcessSendsAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.create(t, w.requests()["https"])
	other := New(w.World.Kit, w.sender.egress)
	for range 5 {
		w.did(t, 4)
		var both sync.WaitGroup
		for _, s := range []*Service{w.Service, other} {
			both.Go(func() {
				if err := s.Deliver(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
	got := w.got.seqs(t)
	if !slices.IsSorted(got) || len(got) != len(slices.Compact(got)) || got[len(got)-1] != 21 {
		t.Errorf("%v", got)
	}
}

func TestSinks_FromTheBeginningInBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	w.did(t, 450)
	r := w.requests()["s3"]
	r.FromBeginning = true
	w.create(t, r)
	w.deliver(t)
	got := w.got.seqs(t)
	if len(got) != 452 || !slices.IsSorted(got) || !slices.Contains(w.got.names, "/audit-acme/corvo/a=b/2026/11/21/000000000001-000000000200.ndjson") {
		t.Errorf("%d entries in %q", len(got), w.got.names)
	}
}

func TestSinks_SecretsAreNeverShownAndANewTargetNeedsItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	made := w.create(t, w.requests()["https"])
	list, err := w.ListAuditSinks(w.ctx, nil)
	if err != nil || len(list.GetSinks()) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, shown := range []string{fmt.Sprint(made), fmt.Sprint(list)} {
		if strings.Contains(shown, secretText) || strings.Contains(shown, "Splunk") {
			t.Errorf("shown: %s", shown)
		}
	}
	w.Service.Kit.Store.ReadService(t.Context(), func(tx *store.Tx) error {
		v, err := tx.GetAuditSink(t.Context(), w.tenant.ID, made.GetId())
		if strings.Contains(v.Target+v.Secret, secretText) {
			t.Errorf("kept in the clear: %+v", v)
		}
		return err
	})
	_, err = w.UpdateAuditSink(w.ctx, &cloudv1.UpdateAuditSinkRequest{
		SinkId: made.GetId(), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"https"}},
		Target: &cloudv1.UpdateAuditSinkRequest_Https{Https: &cloudv1.HttpsAuditSink{Url: w.https.URL + "/elsewhere"}},
	})
	if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); f.Fields[0].Name != "https.signing_secret" {
		t.Errorf("%+v", f)
	}
	off, err := w.UpdateAuditSink(w.ctx, &cloudv1.UpdateAuditSinkRequest{SinkId: made.GetId(), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"enabled"}}, Etag: made.GetEtag()})
	if err != nil || off.GetSink().GetState() != cloudv1.AuditSinkState_AUDIT_SINK_STATE_DISABLED {
		t.Fatalf("%v, %v", off, err)
	}
	w.did(t, 2)
	w.deliver(t)
	if got := w.got.seqs(t); len(got) != 1 {
		t.Errorf("a disabled sink got %v", got)
	}
	tested, err := w.TestAuditSink(w.ctx, &cloudv1.TestAuditSinkRequest{SinkId: made.GetId()})
	if err != nil || !tested.GetDelivered() || len(w.got.seqs(t)) != 2 {
		t.Errorf("%v, %v", tested, err)
	}
	if _, err := w.DeleteAuditSink(w.ctx, &cloudv1.DeleteAuditSinkRequest{SinkId: made.GetId()}); err != nil {
		t.Error(err)
	}
	_, err = w.DeleteAuditSink(w.ctx, &cloudv1.DeleteAuditSinkRequest{SinkId: made.GetId()})
	cloudtest.Refused(t, err, "NOT_FOUND")
	if _, err := w.DeleteAuditSink(w.ctx, &cloudv1.DeleteAuditSinkRequest{SinkId: made.GetId(), AllowMissing: true}); err != nil {
		t.Error(err)
	}
	if got := w.Audit(t, w.tenant.ID); !slices.Equal(got, []string{"audit_sink.create", "audit_sink.update", "namespace.update", "namespace.update", "audit_sink.delete"}) {
		t.Errorf("%q", got)
	}
}

// Every address goes through the guard: what isn't public is refused before anything is
// sent, also when it is set up.
func TestSinks_AddressesInsideAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloudtest.New(t))
	strict := New(w.World.Kit, egress.Options{})
	hook := func(url string) *cloudv1.CreateAuditSinkRequest {
		return &cloudv1.CreateAuditSinkRequest{Name: "x", Target: &cloudv1.CreateAuditSinkRequest_Https{Https: &cloudv1.HttpsAuditSink{Url: url, SigningSecret: secretText}}}
	}
	syslog := func(host string, port int32) *cloudv1.CreateAuditSinkRequest {
		return &cloudv1.CreateAuditSinkRequest{Name: "x", Target: &cloudv1.CreateAuditSinkRequest_Syslog{Syslog: &cloudv1.SyslogAuditSink{Host: host, Port: port}}}
	}
	bucket := w.requests()["s3"]
	for field, r := range map[string][]*cloudv1.CreateAuditSinkRequest{
		"https.url":   {hook("http://siem.example"), hook("https://127.0.0.1/x"), hook("https://169.254.169.254/latest"), hook("https://a:b@siem.example"), hook("https://siem.example:8443")},
		"syslog.host": {syslog("10.0.0.1", 0), syslog("log.example", 514), syslog("::1", 6514), syslog("", 0), syslog("localhost.", 0)},
		"s3.endpoint": {bucket},
		"https":       {{Name: "x"}},
		"name":        {{Target: hook("https://siem.example").Target}},
	} {
		for _, one := range r {
			_, err := strict.CreateAuditSink(w.ctx, one)
			f := cloudtest.Refused(t, err, "INVALID_ARGUMENT")
			if f.Fields[0].Name != field {
				t.Errorf("%v: %+v, want %s", one, f.Fields, field)
			}
		}
	}
	// Names are looked up once, and what they lead to is checked when it is called.
	_, err := strict.CreateAuditSink(w.ctx, hook("https://localhost/x"))
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
	if got := w.got.seqs(t); len(got) != 0 {
		t.Errorf("something was sent: %v", got)
	}
}
