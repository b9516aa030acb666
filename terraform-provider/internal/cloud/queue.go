package cloud

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// answerMax bounds what is read of an answer; a queue takes less than a kilobyte.
const answerMax = 1 << 20

// GetQueue reads a queue of the namespace with that name.
func (c *Client) GetQueue(ctx context.Context, namespace, name string) (wire.Queue, error) {
	var q wire.Queue
	err := c.callQueue(ctx, "GetQueue", http.MethodGet, namespace, name, "", nil, &q)
	return q, err
}

// ListQueues lists the queues of the namespace with that name.
func (c *Client) ListQueues(ctx context.Context, namespace string) ([]wire.Queue, error) {
	var all []wire.Queue
	err := c.callQueue(ctx, "ListQueues", http.MethodGet, namespace, "", "", nil, &all)
	return all, err
}

// PutQueue gives a queue its settings, and makes it if there is none. With an etag it
// refuses, as a Conflict with wire.CodeQueueChanged, a queue that has other settings.
func (c *Client) PutQueue(ctx context.Context, namespace, name, etag string, in wire.QueueRequest) (wire.Queue, error) {
	var q wire.Queue
	err := c.callQueue(ctx, "PutQueue", http.MethodPut, namespace, name, "", in, &q, "If-Match", etag)
	return q, err
}

// DeleteQueue removes a queue with its jobs. It is no error if there is none.
func (c *Client) DeleteQueue(ctx context.Context, namespace, name string) error {
	err := c.callQueue(ctx, "DeleteQueue", http.MethodDelete, namespace, name, "?confirm=true", nil, new(wire.Status))
	if Is(err, NotFound) {
		return nil
	}
	return err
}

func (c *Client) callQueue(ctx context.Context, call, method, namespace, name, query string, in, out any, header ...string) error {
	id, err := c.Identity(ctx)
	if err != nil {
		return err
	}
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode the settings of queue %s: %w", name, err)
		}
	}
	target := strings.TrimSuffix(id.TenantURL+"/api/v1/queues/"+url.PathEscape(name), "/") + query
	return c.patience.try(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
		if err != nil {
			return fmt.Errorf("address of queue %s: %w", name, err)
		}
		req.Header.Set("Authorization", "Bearer "+c.token)
		req.Header.Set("User-Agent", c.userAgent)
		req.Header.Set("X-Corvo-Namespace", namespace)
		for i := 0; i < len(header); i += 2 {
			if header[i+1] != "" {
				req.Header.Set(header[i], header[i+1])
			}
		}
		if in != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		return c.do(call, req, out)
	})
}

func (c *Client) do(call string, req *http.Request, out any) (err error) {
	res, err := c.http.Do(req)
	if err != nil {
		return &Error{Kind: Unavailable, Call: call, Message: apikey.Redact(err.Error()), transient: isBroken(err), cause: err}
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	data, err := io.ReadAll(io.LimitReader(res.Body, answerMax))
	if err != nil {
		return &Error{Kind: Unavailable, Call: call, Message: "the response was cut off: " + err.Error(), transient: isBroken(err), cause: err}
	}
	if res.StatusCode/100 != 2 {
		return fromProblem(call, res, data)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return elsewhere(call, res)
	}
	return nil
}

// elsewhere: something answered at the tenant URL, but not as the engine does.
func elsewhere(call string, res *http.Response) *Error {
	e := &Error{Kind: Elsewhere, Call: call, Message: res.Status}
	if res.Request != nil {
		e.Help = fmt.Sprintf("%s responded with %q, which isn't a response of Corvo. Check what stands between this machine and the tenant URL.", res.Request.URL.Redacted(), res.Status)
	}
	return e
}

// fromProblem translates a refusal at the tenant URL.
func fromProblem(call string, res *http.Response, data []byte) error {
	var p wire.Problem
	kind := kindOfStatus(res.StatusCode)
	if err := json.Unmarshal(data, &p); err != nil || p.Error == "" || p.Code == "" {
		if kind != Unavailable && kind != Exhausted {
			return elsewhere(call, res)
		}
		p.Error = res.Status // Of a proxy that can't reach the service right now.
	}
	if kind == NotFound && p.Code != wire.CodeNotFound {
		kind = Failed // Nothing that says that the queue is gone.
	}
	e := &Error{
		Kind: kind, Call: call, Reason: string(p.Code), Message: apikey.Redact(p.Error), RequestID: p.RequestID,
		Permission: neededFor(call).String(), RetryAfter: retryAfter(res.Header),
	}
	e.RequestID = cmp.Or(e.RequestID, res.Header.Get("X-Request-Id"))
	if p.RetryAfterMS > 0 {
		e.RetryAfter = time.Duration(min(p.RetryAfterMS, retryAfterMax.Milliseconds()+1)) * time.Millisecond
	}
	for _, f := range p.Fields {
		e.Fields = append(e.Fields, Field{Name: f.Field, Problem: f.Message})
	}
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.transient = true
	}
	return e
}

// neededFor is what a call at the tenant URL asks for.
func neededFor(call string) permission.Permission {
	return map[string]permission.Permission{
		"GetQueue": permission.QueueRead, "ListQueues": permission.QueueRead, "PutQueue": permission.QueueUpdate, "DeleteQueue": permission.QueueDelete,
	}[call]
}

func kindOfStatus(status int) Kind {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return Invalid
	case http.StatusUnauthorized:
		return Unauthenticated
	case http.StatusForbidden:
		return Denied
	case http.StatusNotFound:
		return NotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return Conflict
	case http.StatusTooManyRequests:
		return Exhausted
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Unavailable
	}
	return Failed
}
