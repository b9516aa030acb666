package stripetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Key is the key that a Server of a test takes.
const Key = "sk_test_ofthefake"

// Fault is what goes wrong with one call.
type Fault int

// Faults.
const (
	None Fault = iota
	// LoseAnswer does what was asked, and closes the connection.
	LoseAnswer
	// Drop closes the connection before anything is done.
	Drop
	// TooMany answers 429, and Broken 500.
	TooMany
	Broken
)

// keyLife is how long an idempotency key, and the identifier of a meter event, is known.
const keyLife = 24 * time.Hour

// object is a record as Stripe shows it.
type object map[string]any

func (o object) id() string { return o["id"].(string) }

func (o object) text(field string) string {
	s, _ := o[field].(string)
	return s
}

// Options of a Server that no test holds.
type Options struct {
	// URL is where the server is reached: callers and the links to its pages begin with it.
	URL string
	// Key is the one that callers show.
	Key string
	Now func() time.Time
	// State is what Save was given last; nil for a new Stripe.
	State []byte
	// Save is called with the whole state after each change, and before it is answered.
	Save func(state []byte) error
}

// Server is a Stripe.
type Server struct {
	URL string
	// SummaryLag is how long a meter event takes to be in summaries.
	SummaryLag time.Duration

	t    T // Nil if no test holds it.
	key  string
	now  func() time.Time
	save func([]byte) error
	// happened says that there is a new event.
	happened chan struct{}

	mu  sync.Mutex
	has record // Guarded by mu.
	// The usage of has by customer, and by identifier. Guarded by mu.
	usageOf, identified map[string][]*usage
	calls               []string // Of a test's server. Guarded by mu.
	fault               func(call string) Fault
	away                time.Time // Guarded by mu.
}

// record is what a Stripe keeps.
type record struct {
	// Account is another one for each Stripe, and Secret a part of its pages' paths.
	Account, Secret string
	Objects         map[string][]object // By type, in the order they were made.
	Usage           []*usage
	Answers         map[string]answered // By idempotency key.
	Unsent          []object            // Events.
	Made            int
}

type usage struct {
	Event, Identifier, Customer string
	Value                       int64
	At, Received                time.Time
	Cancelled                   bool
}

type answered struct {
	Digest string
	At     time.Time
	Status int
	Body   json.RawMessage
}

// T is what a Server needs of a test. A testing.TB has it; the package testing is not for
// programs.
type T interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Error(...any)
	Cleanup(func())
	Context() context.Context
}

// New starts a Stripe that ends with the test.
func New(t T, now func() time.Time) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{URL: "http://" + l.Addr().String(), t: t, key: Key, now: now, SummaryLag: 10 * time.Minute, happened: make(chan struct{}, 1),
		has: newRecord("acct_test", "pages"), usageOf: make(map[string][]*usage), identified: make(map[string][]*usage)}
	h := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = h.Serve(l) }() // Ends with Close.
	t.Cleanup(func() { _ = h.Close() })
	return s
}

// Faults asks for faults: f is told each call as "POST /v1/customers". Nil: none.
func (s *Server) Faults(f func(call string) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Away closes every connection until a time.
func (s *Server) Away(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = until
}

// Calls are the calls since it was asked last.
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// problem is a refusal.
type problem struct {
	status            int
	kind, code, param string
	text              string
}

func invalid(param, text string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, kind: "invalid_request_error", param: param, text: fmt.Sprintf(text, args...)}
}

func missing(param, id string) *problem {
	return &problem{status: http.StatusNotFound, kind: "invalid_request_error", code: "resource_missing", param: param, text: "No such " + param + ": '" + id + "'"}
}

func (p *problem) body() object {
	return object{"error": object{"type": p.kind, "code": p.code, "param": p.param, "message": p.text}}
}

// ServeHTTP implements http.Handler: the API below /v1, and the pages.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/v1/") {
		s.page(w, r)
		return
	}
	fault, status, body := s.answer(r)
	if fault == Drop || fault == LoseAnswer {
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = c.Close()
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_"+strconv.Itoa(status))
	w.WriteHeader(status)
	_, _ = w.Write(body) // The caller is gone: nobody to tell.
}

func (s *Server) answer(r *http.Request) (Fault, int, []byte) {
	if err := parse(r); err != nil {
		return None, http.StatusBadRequest, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	call := r.Method + " " + r.URL.Path
	if s.t != nil {
		s.calls = append(s.calls, call)
	}
	fault := None
	if s.fault != nil {
		fault = s.fault(call)
	}
	if s.now().Before(s.away) {
		fault = Drop
	}
	if fault == Drop {
		return fault, 0, nil
	}
	if fault == TooMany {
		p := &problem{status: http.StatusTooManyRequests, kind: "invalid_request_error", code: "rate_limit", text: "Too many requests"}
		return fault, p.status, encode(p.body())
	}
	status, body := s.once(r, fault)
	if r.Method != http.MethodGet {
		if err := s.keep(); err != nil {
			return None, http.StatusInternalServerError, encode((&problem{kind: "api_error", text: err.Error()}).body())
		}
	}
	return fault, status, body
}

// once repeats the answer to an idempotency key, whatever it was.
func (s *Server) once(r *http.Request, fault Fault) (int, []byte) {
	key := r.Header.Get("Idempotency-Key")
	if r.Method != http.MethodPost || key == "" {
		return s.do(r, fault)
	}
	sum := sha256.Sum256([]byte(r.URL.Path + "?" + r.PostForm.Encode()))
	digest := hex.EncodeToString(sum[:])
	if a, ok := s.has.Answers[key]; ok && s.now().Sub(a.At) < keyLife {
		if a.Digest != digest {
			p := &problem{status: http.StatusBadRequest, kind: "idempotency_error", text: "Keys for idempotent requests can only be used with the same parameters they were first used with."}
			return p.status, encode(p.body())
		}
		return a.Status, a.Body
	}
	status, body := s.do(r, fault)
	s.has.Answers[key] = answered{digest, s.now(), status, body}
	return status, body
}

func (s *Server) do(r *http.Request, fault Fault) (int, []byte) {
	if r.Header.Get("Authorization") != "Bearer "+s.key {
		p := &problem{status: http.StatusUnauthorized, kind: "invalid_request_error", text: "Invalid API Key provided: " + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
		return p.status, encode(p.body())
	}
	if fault == Broken {
		p := &problem{status: http.StatusInternalServerError, kind: "api_error", text: "Something went wrong"}
		return p.status, encode(p.body())
	}
	o, p := s.route(r.Method, strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/"), form(r.Form))
	if p != nil {
		return p.status, encode(p.body())
	}
	return http.StatusOK, encode(o)
}

func encode(o object) []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // Of plain values.
	}
	return b
}

// parse reads a call's parameters. With Stripe a DELETE has a body too, which net/http ignores.
func parse(r *http.Request) error {
	method := r.Method
	if method == http.MethodDelete {
		r.Method = http.MethodPost
	}
	err := r.ParseForm()
	r.Method = method
	return err
}

// route finds what is asked.
func (s *Server) route(method string, path []string, f form) (object, *problem) {
	post := method == http.MethodPost
	switch name := strings.Join(path, "/"); {
	case name == "customers" && post:
		return s.newCustomer(f)
	case name == "customers/search":
		return s.searchCustomers(f)
	case len(path) == 2 && path[0] == "customers" && !post:
		return s.get("customer", path[1])
	case name == "checkout/sessions" && post:
		return s.newCheckout(f)
	case len(path) == 3 && path[0] == "checkout" && !post:
		return s.get("checkout.session", path[2])
	case name == "billing_portal/sessions" && post:
		return s.newPortal(f)
	case name == "subscriptions" && !post:
		return s.list("subscription", f, "customer", "status")
	case len(path) == 2 && path[0] == "subscriptions" && post:
		return s.changeSubscription(path[1], f)
	case len(path) == 2 && path[0] == "subscriptions" && method == http.MethodDelete:
		return s.endSubscription(path[1], f)
	case name == "products" && post:
		return s.newProduct(f)
	case len(path) == 2 && path[0] == "products" && post:
		return s.renameProduct(path[1], f)
	case len(path) == 2 && path[0] == "products":
		return s.get("product", path[1])
	case name == "prices" && post:
		return s.newPrice(f)
	case name == "prices":
		return s.listPrices(f)
	case name == "billing/meters" && post:
		return s.newMeter(f)
	case name == "billing/meters":
		return s.list("billing.meter", f, "status")
	case name == "billing/meter_events" && post:
		return s.newUsage(f)
	case name == "billing/meter_event_adjustments" && post:
		return s.cancelUsage(f)
	case len(path) == 4 && path[1] == "meters" && path[3] == "event_summaries":
		return s.summary(path[2], f)
	case name == "invoices" && post:
		return s.newInvoice(f)
	case name == "invoices" && !post:
		for _, i := range s.has.Objects["invoice"] {
			if i.text("customer") == f.get("customer") {
				s.count(i, s.SummaryLag)
			}
		}
		return s.list("invoice", f, "customer")
	case len(path) == 3 && path[0] == "invoices" && path[2] == "lines":
		i := s.find("invoice", path[1])
		if i == nil {
			return nil, missing("invoice", path[1])
		}
		return page(i["all lines"].([]object), f)
	case name == "invoiceitems" && post:
		return s.newItem(f)
	case name == "invoiceitems":
		return s.list("invoiceitem", f, "customer", "created[gte]", "pending")
	case name == "events" && !post:
		return listOf(newestFirst(s.has.Unsent)), nil
	}
	return nil, &problem{status: http.StatusNotFound, kind: "invalid_request_error", text: "Unrecognized request URL (" + method + ": /v1/" + strings.Join(path, "/") + ")"}
}

// form is parameters as Stripe names them: a[b][0][c].
type form url.Values

func (f form) get(name string) string { return url.Values(f).Get(name) }

// under are the parameters below a name: under("metadata").
func (f form) under(name string) form {
	out := form{}
	for k, v := range f {
		rest, ok := strings.CutPrefix(k, name+"[")
		if !ok {
			continue
		}
		head, tail, _ := strings.Cut(rest, "]")
		out[head+tail] = v
	}
	return out
}

// each are the entries of a list.
func (f form) each(name string) (out []form) {
	for i := 0; ; i++ {
		one := f.under(name).under(strconv.Itoa(i))
		if plain := f.under(name)[strconv.Itoa(i)]; len(one) == 0 && plain == nil {
			return out
		} else if len(one) == 0 {
			one = form{"": plain}
		}
		out = append(out, one)
	}
}

func (f form) texts() object {
	out := make(object)
	for k, v := range f {
		out[k] = v[0]
	}
	return out
}

// takes refuses a parameter that is not known, and demands some.
func (f form) takes(known string, required ...string) *problem {
	for k := range f {
		if head, _, _ := strings.Cut(k, "["); !slices.Contains(strings.Fields(known), head) {
			return &problem{status: http.StatusBadRequest, kind: "invalid_request_error", code: "parameter_unknown", param: k, text: "Received unknown parameter: " + k}
		}
	}
	for _, name := range required {
		if f.get(name) == "" && len(f.under(name)) == 0 {
			return &problem{status: http.StatusBadRequest, kind: "invalid_request_error", code: "parameter_missing", param: name, text: "Missing required param: " + name}
		}
	}
	return nil
}

func (f form) integer(name string) (int64, *problem) {
	n, err := strconv.ParseInt(f.get(name), 10, 64)
	if err != nil {
		return 0, invalid(name, "Invalid integer: %s", f.get(name))
	}
	return n, nil
}

func (f form) currency() *problem {
	c := f.get("currency")
	if len(c) != 3 || strings.ToLower(c) != c {
		return invalid("currency", "Invalid currency: %s", c)
	}
	return nil
}

// keepUsage keeps a meter event.
func (s *Server) keepUsage(u *usage) {
	s.has.Usage = append(s.has.Usage, u)
	s.indexUsage(u)
}

func (s *Server) indexUsage(u *usage) {
	s.usageOf[u.Customer] = append(s.usageOf[u.Customer], u)
	s.identified[u.Identifier] = append(s.identified[u.Identifier], u)
}

// add keeps a new object.
func (s *Server) add(kind, prefix string, o object) object {
	s.has.Made++
	if o["id"] == nil {
		o["id"] = fmt.Sprintf("%s_%d", prefix, s.has.Made)
	}
	o["object"], o["livemode"], o["created"] = kind, false, s.now().Unix()
	s.has.Objects[kind] = append(s.has.Objects[kind], o)
	return o
}

func (s *Server) find(kind, id string) object {
	for _, o := range s.has.Objects[kind] {
		if o.id() == id {
			return o
		}
	}
	return nil
}

func (s *Server) get(kind, id string) (object, *problem) {
	o := s.find(kind, id)
	if o == nil {
		return nil, missing(kind, id)
	}
	return o, nil
}

func newestFirst(list []object) []object {
	out := slices.Clone(list)
	slices.Reverse(out)
	return out
}

func listOf(list []object) object {
	if list == nil {
		list = []object{}
	}
	return object{"object": "list", "has_more": false, "data": list}
}

// list gives a page of what filters let through, newest first.
func (s *Server) list(kind string, f form, filters ...string) (object, *problem) {
	if p := f.takes("limit starting_after expand " + strings.Join(filters, " ") + " created"); p != nil {
		return nil, p
	}
	var out []object
	for _, o := range newestFirst(s.has.Objects[kind]) {
		if slices.ContainsFunc(filters, func(name string) bool { return !matches(o, name, f.get(name)) }) {
			continue
		}
		out = append(out, o)
	}
	return page(out, f)
}

// page is a part of a list.
func page(out []object, f form) (object, *problem) {
	if after := f.get("starting_after"); after != "" {
		i := slices.IndexFunc(out, func(o object) bool { return o.id() == after })
		out = out[i+1:]
	}
	limit := 10
	if n, p := f.integer("limit"); p == nil {
		limit = int(n)
	}
	page := listOf(out[:min(limit, len(out))])
	page["has_more"] = len(out) > limit
	return page, nil
}

func matches(o object, name, want string) bool {
	switch {
	case want == "" || name == "status" && want == "all":
		return true
	case name == "created[gte]":
		n, _ := strconv.ParseInt(want, 10, 64) // A bad one filters nothing.
		return o["created"].(int64) >= n
	case name == "pending":
		return (o["invoice"] == nil) == (want == "true")
	}
	return o.text(name) == want
}
