package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// httpConn is one HTTP/1.1 connection with one call at a time. net/http costs
// several times what the server spends on a call, so requests are written here, and
// answers are parsed by the caller itself.
type httpConn struct {
	dialer *dialer
	net    net.Conn
	in     *bufio.Reader
	out    []byte
	body   bytes.Buffer

	head     string // Everything of a request after the path, up to the length.
	basePath string

	enqueueOne []byte // The one request to add a job.
	ids        []string
	got        []lease
}

// replyBytesMax bounds one answer: a batch of 512 payloads.
const replyBytesMax = 256 << 20

func (d *dialer) dialHTTP(ctx context.Context) (conn, error) {
	address := d.server.Host
	if d.server.Port() == "" {
		address = net.JoinHostPort(d.server.Hostname(), map[string]string{"http": "80", "https": "443"}[d.server.Scheme])
	}
	nc, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	if d.server.Scheme == "https" {
		nc = tls.Client(nc, &tls.Config{ServerName: d.server.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
	}
	var head strings.Builder
	fmt.Fprintf(&head, " HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nUser-Agent: corvo-bench\r\n", d.server.Host)
	for _, h := range [][2]string{{"X-API-Key", d.apiKey}, {"X-Corvo-Namespace", d.namespace}} {
		if h[1] != "" {
			fmt.Fprintf(&head, "%s: %s\r\n", h[0], h[1])
		}
	}
	head.WriteString("Content-Length: ")
	c := &httpConn{dialer: d, net: nc, in: bufio.NewReaderSize(nc, 64<<10), head: head.String(), basePath: strings.TrimRight(d.server.Path, "/") + "/api/v1"}
	c.enqueueOne = fmt.Appendf(nil, `{"queue":%q,"payload":%s}`, d.queue, d.payload)
	// A cancelled run must not hang in a read.
	context.AfterFunc(ctx, func() { _ = nc.Close() })
	return c, nil
}

func (c *httpConn) close() { _ = c.net.Close() }

func (c *httpConn) caller() caller { return c }

// statusError is a refusal.
type statusError struct {
	status int
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// post sends one request and returns the body of its answer, valid until the next.
func (c *httpConn) post(path string, body []byte) ([]byte, error) {
	for {
		status, err := c.exchange(path, body)
		switch {
		case err != nil:
			return nil, err
		case status == 429:
			time.Sleep(overloadPause)
		case status >= 300:
			return nil, &statusError{status, c.body.String()}
		default:
			return c.body.Bytes(), nil
		}
	}
}

func (c *httpConn) exchange(path string, body []byte) (int, error) {
	c.out = append(c.out[:0], "POST "...)
	c.out = append(c.out, c.basePath...)
	c.out = append(c.out, path...)
	c.out = append(c.out, c.head...)
	c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
	c.out = append(c.out, "\r\n\r\n"...)
	c.out = append(c.out, body...)
	if _, err := c.net.Write(c.out); err != nil {
		return 0, fmt.Errorf("write request: %w", err)
	}
	reply, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, fmt.Errorf("read answer: %w", err)
	}
	c.body.Reset()
	if _, err := c.body.ReadFrom(http.MaxBytesReader(nil, reply.Body, replyBytesMax)); err != nil {
		return 0, fmt.Errorf("read answer: %w", err)
	}
	return reply.StatusCode, nil
}

func (c *httpConn) enqueue(_ context.Context, n int) ([]string, error) {
	c.ids = c.ids[:0]
	if n == 1 {
		reply, err := c.post("/enqueue", c.enqueueOne)
		if err != nil {
			return nil, err
		}
		id, ok := member(reply, `"job_id"`)
		if !ok {
			return nil, fmt.Errorf("no job_id in %q", reply)
		}
		c.ids = append(c.ids, id)
		return c.ids, nil
	}
	body := append([]byte(`{"jobs":[`), c.enqueueOne...)
	for range n - 1 {
		body = append(append(body, ','), c.enqueueOne...)
	}
	reply, err := c.post("/enqueue/batch", append(body, "]}"...))
	if err != nil {
		return nil, err
	}
	var done struct {
		JobIDs []string `json:"job_ids"`
	}
	if err := json.Unmarshal(reply, &done); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return done.JobIDs, nil
}

func (c *httpConn) work(_ context.Context, settle []lease, n int) ([]lease, int, error) {
	refused, err := c.settle(settle)
	if err != nil || n == 0 {
		return nil, refused, err
	}
	got, err := c.fetch(n, 0)
	return got, refused, err
}

func (c *httpConn) settle(settle []lease) (refused int, err error) {
	switch len(settle) {
	case 0:
		return 0, nil
	case 1:
		_, err = c.post("/ack/"+settle[0].id, fmt.Appendf(nil, `{"lease_token":%q}`, settle[0].token))
		var status *statusError
		if errors.As(err, &status) && (status.status == 404 || status.status == 409) {
			return 1, nil
		}
		return 0, err
	}
	body := []byte(`{"acks":[`)
	for i, l := range settle {
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"job_id":%q,"lease_token":%q}`, l.id, l.token)
	}
	reply, err := c.post("/ack/batch", append(body, "]}"...))
	if err != nil {
		return 0, err
	}
	var done struct {
		Acked int `json:"acked"`
	}
	if err := json.Unmarshal(reply, &done); err != nil {
		return 0, fmt.Errorf("read answer: %w", err)
	}
	return len(settle) - done.Acked, nil
}

func (c *httpConn) await(_ context.Context, wait time.Duration) ([]lease, error) {
	return c.fetch(1, wait)
}

func (c *httpConn) fetch(n int, wait time.Duration) ([]lease, error) {
	c.got = c.got[:0]
	path := "/fetch"
	if n > 1 {
		path = "/fetch/batch"
	}
	reply, err := c.post(path, fmt.Appendf(nil, `{"queues":[%q],"worker_id":"corvo-bench","count":%d,"lease":"%ds","wait":"%dms"}`,
		c.dialer.queue, n, leaseSeconds, wait.Milliseconds()))
	if err != nil || len(reply) == 0 {
		return nil, err
	}
	if n == 1 {
		id, _ := member(reply, `"job_id"`)
		token, _ := member(reply, `"lease_token"`)
		if id != "" {
			c.got = append(c.got, lease{id, token})
		}
		return c.got, nil
	}
	var batch struct {
		Jobs []struct {
			JobID      string `json:"job_id"`
			LeaseToken string `json:"lease_token"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal(reply, &batch); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	for _, j := range batch.Jobs {
		c.got = append(c.got, lease{j.JobID, j.LeaseToken})
	}
	return c.got, nil
}

// member finds the text value of a quoted name, without parsing what is around
// it: the payloads of a run contain no such name, and ids and tokens no escapes.
func member(body []byte, quotedName string) (string, bool) {
	_, rest, found := bytes.Cut(body, []byte(quotedName))
	if !found {
		return "", false
	}
	rest = bytes.TrimLeft(rest, ": \n\t")
	if len(rest) == 0 || rest[0] != '"' {
		return "", false
	}
	value, _, closed := bytes.Cut(rest[1:], []byte{'"'})
	return string(value), closed
}
