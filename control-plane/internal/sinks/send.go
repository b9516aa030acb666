package sinks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
)

// batch is lines on their way.
type batch struct {
	// id is the same for the same lines, so that a receiver may drop a repetition.
	id     string
	object string // Name of the object in S3, below the prefix.
	lines  []string
	at     time.Time
	times  []time.Time // Of each line.
}

func (b *batch) body() []byte { return []byte(strings.Join(b.lines, "\n") + "\n") }

const contentType = "application/x-ndjson"

// sender sends to all kinds of targets.
type sender struct {
	egress egress.Options
	client *http.Client
}

func newSender(o egress.Options) *sender { return &sender{egress: o, client: egress.NewClient(o)} }

// send returns when the target has taken all of a batch.
func (d *sender) send(ctx context.Context, t target, s secrets, b batch) error {
	switch {
	case t.HTTPS != nil:
		return d.post(ctx, t.HTTPS, s, b)
	case t.S3 != nil:
		return d.put(ctx, t.S3, s, b)
	case t.Syslog != nil:
		return d.log(ctx, t.Syslog, b)
	}
	return errors.New("the sink has no target")
}

func (d *sender) post(ctx context.Context, t *httpsTarget, s secrets, b batch) error {
	body := b.body()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL can't be called")
	}
	stamp := strconv.FormatInt(b.at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(s.Signing))
	fmt.Fprintf(mac, "%s.%s.", b.id, stamp) // A hash never fails.
	mac.Write(body)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("User-Agent", "Corvo-Audit")
	r.Header.Set("Webhook-Id", b.id)
	r.Header.Set("Webhook-Timestamp", stamp)
	r.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	if s.Authorization != "" {
		r.Header.Set("Authorization", s.Authorization)
	}
	return d.do(r)
}

func (d *sender) put(ctx context.Context, t *s3Target, s secrets, b batch) error {
	body := b.body()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, t.Endpoint+"/"+t.Bucket+"/"+t.Prefix+b.object, bytes.NewReader(body))
	if err != nil {
		return errors.New("the endpoint can't be called")
	}
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("X-Amz-Content-Sha256", digest)
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	credentials := aws.Credentials{AccessKeyID: t.AccessKeyID, SecretAccessKey: s.AccessKey}
	if err := signer.SignHTTP(ctx, credentials, r, digest, "s3", t.Region, b.at); err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	return d.do(r)
}

// answerMax is how much of a refusal is shown.
const answerMax = 300

func (d *sender) do(r *http.Request) (err error) {
	res, err := d.client.Do(r)
	if err != nil {
		return readable(err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	said, _ := io.ReadAll(io.LimitReader(res.Body, answerMax)) // The status decides.
	if res.StatusCode/100 != 2 {
		text := strings.TrimSpace(strings.ToValidUTF8(strings.Join(strings.Fields(string(said)), " "), "\uFFFD"))
		if text != "" {
			text = ": " + text
		}
		return fmt.Errorf("it responded with status %d%s", res.StatusCode, text)
	}
	return nil
}

// readable leaves out the URL, which may have a token in it.
func readable(err error) error {
	var called interface{ Unwrap() error }
	if errors.As(err, &called) && strings.Contains(err.Error(), "http") {
		if inner := called.Unwrap(); inner != nil {
			return inner
		}
	}
	return err
}

const (
	// syslogInfo is facility 13 (log audit), severity 6 (informational).
	syslogInfo    = 13*8 + 6
	syslogTimeout = 10 * time.Second
	// syslogCloseWait is how long a server may take to close its side, or to complain.
	syslogCloseWait = 2 * time.Second
)

// log sends each line as a message with its length in front (RFC 5425). Syslog has no
// answers: what counts as taken is what the server had read, or buffered, when it closed the
// connection without an error.
func (d *sender) log(ctx context.Context, t *syslogTarget, b batch) (err error) {
	var roots *x509.CertPool
	if t.CA != "" {
		roots = x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(t.CA))
	}
	conn, err := egress.DialTLS(ctx, d.egress, t.Host, strconv.Itoa(int(t.Port)), roots)
	if err != nil {
		return err
	}
	defer func() {
		// The other side may have closed it already.
		if closed := conn.Close(); err != nil {
			err = errors.Join(err, closed)
		}
	}()
	if err := conn.SetDeadline(time.Now().Add(syslogTimeout)); err != nil {
		return err
	}
	var out bytes.Buffer
	for i, line := range b.lines {
		message := syslogMessage(b.times[i], line)
		fmt.Fprintf(&out, "%d %s", len(message), message)
	}
	if _, err := conn.Write(out.Bytes()); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if err := conn.CloseWrite(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(syslogCloseWait)); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(conn, answerMax)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the server ended the connection: %w", err)
	}
	return nil
}

// syslogMessage is a message of RFC 5424; the line is its text.
func syslogMessage(at time.Time, line string) string {
	return fmt.Sprintf("<%d>1 %s corvo corvo-audit - audit - \ufeff%s", syslogInfo, at.UTC().Format("2006-01-02T15:04:05.000000Z"), line)
}
