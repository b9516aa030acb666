package isolation

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// outcome is the result of a call.
type outcome struct {
	answer

	code string // Of a refusal, as the service says it.
	grpc bool
}

// refused: the caller was not admitted.
func (o outcome) refused() bool {
	return o.status == http.StatusUnauthorized || o.status == http.StatusForbidden
}

// nothing: not found, which is the answer for unknown routes and for what belongs to
// somebody else.
func (o outcome) nothing() bool {
	return o.status == http.StatusNotFound || o.status == http.StatusMethodNotAllowed
}

func (o outcome) String() string {
	if o.status < http.StatusMultipleChoices {
		return "ok"
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", o.status, o.code))
}

// plain is the answer without the parts that must differ.
func (o outcome) plain(tenant string) string {
	if o.grpc {
		return o.String() // Its headers are of the transport.
	}
	a := o.answer
	a.body = detailValues.ReplaceAllString(controlIDs.ReplaceAllString(a.body, "REQUEST"), "")
	return a.plain(tenant)
}

var (
	controlIDs   = regexp.MustCompile(`req_[0-9A-Z]{26}`)
	detailValues = regexp.MustCompile(`"value":"[^"]*"`) // The detail, a second time.
)

// ask sends a request with a credential, from an address of its own, so that rate limits
// do not interfere.
func (m *matrix) ask(t *testing.T, d entry, c credential, tenant, front string) outcome {
	q := elsewhere(d.ask(tenant))
	q.base = cmp.Or(d.base, front)
	maps.Copy(q.headers, c.headers)
	if d.side == closed && d.base != "" {
		delete(q.headers, "X-Forwarded-For") // The mailbox refuses what was carried.
	}
	for {
		a, err := q.sendOver(m, d.grpc)
		if err != nil {
			t.Errorf("%s with %s: %v", d.name, c.name, err)
			return outcome{}
		}
		o := outcome{answer: a, code: codeOf(a), grpc: d.grpc}
		moved := o.code == "LEADER_UNAVAILABLE" // Also under gRPC, and in the middle of a stream.
		if a.status != http.StatusTooManyRequests && !moved || m.ctx.Err() != nil {
			return o
		}
		m.pause(t)
	}
}

// notBuilt is what replaces the console's page in a program without it. The table is the
// same for both.
const notBuilt = "The console isn't built into this program."

func (q request) sendOver(m *matrix, grpc bool) (answer, error) {
	if grpc {
		return q.overGRPC(m)
	}
	a, err := q.send(m.ctx)
	if strings.HasPrefix(a.body, notBuilt) {
		a.status = http.StatusOK
	}
	if err == nil && q.watch && a.status == http.StatusOK {
		a = endOfStream(a)
	}
	return a, err
}

// endOfStream: the refusal of a Connect stream is its end, under status 200.
func endOfStream(a answer) answer {
	var end struct {
		Error struct{ Code string }
	}
	at := strings.Index(a.body, `{"error":`)
	if at < 0 || json.NewDecoder(strings.NewReader(a.body[at:])).Decode(&end) != nil {
		return a
	}
	a.status, a.body = statusOf(end.Error.Code), fmt.Sprintf(`{"code":%q}`, end.Error.Code)
	return a
}

// codeOf reads the code of a refusal, as the data plane or the control API says it.
func codeOf(a answer) string {
	if code := a.header.Get("Corvo-Error-Code"); code != "" {
		return code
	}
	var said struct {
		Code any `json:"code"`
	}
	_ = json.Unmarshal([]byte(a.body), &said) // Or it says none.
	if text, ok := said.Code.(string); ok {
		return text
	}
	return ""
}

// grpcClient speaks HTTP/2 without TLS.
var grpcClient = &http.Client{Timeout: 20 * time.Second, Transport: func() *http.Transport {
	t := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	t.Protocols.SetUnencryptedHTTP2(true)
	return t
}()}

// overGRPC makes the call as one gRPC call and translates its status.
func (q request) overGRPC(m *matrix) (answer, error) {
	raw, err := json.Marshal(q.body)
	if err != nil {
		return answer{}, err
	}
	raw = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(raw))), raw...)
	r, err := http.NewRequestWithContext(m.ctx, http.MethodPost, q.base+q.path, bytes.NewReader(raw))
	if err != nil {
		return answer{}, err
	}
	for name, value := range q.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/grpc+json")
	r.Header.Set("Te", "trailers")
	res, err := grpcClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	end := time.AfterFunc(eventsFor, func() { _ = res.Body.Close() }) // A stream of events has none.
	defer end.Stop()
	body, _ := io.ReadAll(res.Body) // It may be cut off.
	for name, values := range res.Trailer {
		res.Header[name] = values
	}
	a := answer{status: res.StatusCode, header: res.Header, body: string(body)}
	if status := res.Header.Get("Grpc-Status"); status != "" && status != "0" {
		n, err := strconv.Atoi(status)
		if err != nil || n >= len(grpcCodes) {
			return a, fmt.Errorf("%s: gRPC status %q", q.path, status)
		}
		a.status = statusOf(grpcCodes[n])
		if a.header.Get("Corvo-Error-Code") == "" {
			a.header.Set("Corvo-Error-Code", grpcCodes[n])
		}
	}
	return a, nil
}

var grpcCodes = []string{
	"ok", "canceled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists", "permission_denied",
	"resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented", "internal", "unavailable", "data_loss", "unauthenticated",
}

// statusOf is the HTTP status that Connect gives a code.
func statusOf(code string) int {
	switch code {
	case "unauthenticated", "UNAUTHORIZED":
		return http.StatusUnauthorized
	case "permission_denied":
		return http.StatusForbidden
	case "not_found", "unimplemented":
		return http.StatusNotFound
	case "resource_exhausted":
		return http.StatusTooManyRequests
	case "already_exists", "aborted":
		return http.StatusConflict
	case "unknown", "internal", "data_loss", "unavailable":
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// elsewhere makes a request come from a network of its own, in the trusted proxy's words.
func elsewhere(q request) request {
	var ip [16]byte
	if _, err := rand.Read(ip[:]); err != nil {
		panic(err) // Never: see crypto/rand.
	}
	ip[0] = 0x20
	headers := map[string]string{"X-Forwarded-For": net.IP(ip[:]).String()}
	maps.Copy(headers, q.headers)
	q.headers = headers
	return q
}
