package isolation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/sdks/go/stream"
)

// request is one call, spelled in any way.
type request struct {
	method  string
	base    string // Where to connect to: a URL of scheme and address.
	host    string // The Host header; empty is that of base.
	path    string
	body    any
	key     string
	headers map[string]string
	watch   bool // The body is the one message of a Connect stream.
}

// answer is what a caller can tell answers apart by.
type answer struct {
	status int
	header http.Header
	body   string
}

// clients: connections are kept, since the questions are thousands.
var client = &http.Client{
	Timeout:   20 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 32, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	},
}

// send calls until the answer is not "try again": leaders may move in the middle.
func (q request) send(ctx context.Context) (answer, error) {
	for {
		a, err := q.once(ctx)
		again := a.status == http.StatusServiceUnavailable || strings.Contains(a.body, `"`+stream.TextNotLeader+`"`)
		if err != nil || !again || ctx.Err() != nil {
			return a, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (q request) once(ctx context.Context) (answer, error) {
	var body io.Reader
	if q.body != nil {
		raw, err := json.Marshal(q.body)
		if err != nil {
			return answer{}, err
		}
		if q.watch {
			raw = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(raw))), raw...)
		}
		body = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, q.method, q.base+q.path, body)
	if err != nil {
		return answer{}, err
	}
	if q.host != "" {
		r.Host = q.host
	}
	if q.body != nil {
		r.Header.Set("Content-Type", "application/json")
		if q.watch {
			r.Header.Set("Content-Type", watchType)
		}
	}
	if q.key != "" {
		r.Header.Set("X-Api-Key", q.key)
	}
	for name, value := range q.headers {
		r.Header.Set(name, value)
	}
	res, err := client.Do(r)
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: %w", q.method, q.path, err)
	}
	return read(res)
}

// wire sends the path unchanged, which no HTTP client would.
func (q request) wire(ctx context.Context) (answer, error) {
	u, err := url.Parse(q.base)
	if err != nil {
		return answer{}, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return answer{}, err
		}
	}
	host := q.host
	if host == "" {
		host = u.Host
	}
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nX-API-Key: %s\r\nConnection: close\r\nContent-Length: 0\r\n", q.method, q.path, host, q.key)
	for name, value := range q.headers {
		text += name + ": " + value + "\r\n"
	}
	if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
		return answer{}, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: q.method})
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: %w", q.method, q.path, err)
	}
	return read(res)
}

// watchType is of Connect streams, whose messages have their length in front.
const watchType = "application/connect+json"

// eventsFor is how long an endless stream of events is read: existing events arrive at
// once.
const eventsFor = 200 * time.Millisecond

func read(res *http.Response) (answer, error) {
	defer res.Body.Close()
	if t := res.Header.Get("Content-Type"); t == "text/event-stream" || t == watchType {
		end := time.AfterFunc(eventsFor, func() { _ = res.Body.Close() }) // Ends the reading.
		defer end.Stop()
		raw, _ := io.ReadAll(res.Body) // It is cut off, always.
		return answer{status: res.StatusCode, header: res.Header, body: string(raw)}, nil
	}
	raw, err := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: string(raw)}, err
}

var (
	requestIDs = regexp.MustCompile(`req_[0-9a-f]+|"request_id":"[^"]+"`)
	jobIDs     = regexp.MustCompile(`job_[0-9A-Z]{26}`)
	durations  = regexp.MustCompile(`"duration_ms":\d+`)
	times      = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	// changing are headers that differ from answer to answer.
	changing = map[string]bool{"Date": true, "Server-Timing": true, "X-Request-Id": true, "X-Corvo-Index": true}
)

// plain is the answer without the parts that must differ: request ids, and the ids and
// names that were asked for.
func (a answer) plain(names ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", a.status)
	header := a.header.Clone()
	for name := range changing {
		header.Del(name)
	}
	if times.MatchString(a.body) || durations.MatchString(a.body) {
		header.Del("Content-Length") // A time without trailing zeros is as long as it is.
	}
	_ = header.Write(&b) // Sorted; a Builder takes everything.
	b.WriteString(a.body)
	text := jobIDs.ReplaceAllString(requestIDs.ReplaceAllString(b.String(), "REQUEST"), "JOB")
	text = durations.ReplaceAllString(times.ReplaceAllString(text, "TIME"), "DURATION")
	for _, name := range names {
		text = strings.ReplaceAll(text, name, "NAME")
	}
	return text
}

// told is the body and the values of the headers, to look for secrets in: without request
// ids, which are random and may contain a short lease token by chance.
func (a answer) told() string {
	var b strings.Builder
	b.WriteString(requestIDs.ReplaceAllString(a.body, ""))
	for name, values := range a.header {
		if changing[name] {
			continue
		}
		for _, value := range values {
			b.WriteString("\n" + value)
		}
	}
	return b.String()
}
