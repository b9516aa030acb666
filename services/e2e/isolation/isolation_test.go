package isolation

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

const (
	victimName = "bravo"
	nobodyName = "nobdy" // As long, so that lengths reveal nothing.
	// testLimit ends what hangs. Alone it takes a minute; beside another package that works as
	// hard on two cores, more than twice that.
	testLimit = 10 * time.Minute
)

// setting is a cell with the two tenants.
type setting struct {
	cell   *rig.Cell
	a, b   *tenant
	probes map[string]probe
	ctx    context.Context // The test's own.
}

// A tenant sees nothing of another one that uses the same names: at any route, by any
// form of address, with any forged header.
func TestTenants_SeeNothingOfEachOther(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	t.Cleanup(cancel)
	s := &setting{cell: rig.StartCell(t, rig.CellOptions{}), ctx: ctx}
	s.probes = allProbes(ctx, t, s.cell.Nodes[0].URL)
	s.a, s.b = settle(t, s.cell, rig.CellTenant, nil), settle(t, s.cell, victimName, s.queueRoutes())
	if !slices.ContainsFunc(s.b.namespaces, func(n *namespace) bool { return n.shard == s.a.namespaces[0].shard }) {
		t.Fatal("the tenants share no shard, and the test would prove little")
	}
	before := s.b.snapshot(t, s.cell)
	if !strings.Contains(before, s.b.canary) {
		t.Fatal("the other tenant does not see its own canary")
	}

	t.Run("table", s.everyRouteIsAsked)
	t.Run("routes", func(t *testing.T) {
		for _, route := range slices.Sorted(maps.Keys(s.probes)) {
			t.Run(strings.ReplaceAll(route, "/", "_"), func(t *testing.T) {
				t.Parallel()
				s.everyQuestion(t, route)
				s.othersAddress(t, route)
				s.nodesAlone(t, route)
			})
		}
	})
	t.Run("hosts", s.hosts)
	t.Run("paths", s.paths)
	t.Run("cell", s.cellAdministration)
	t.Run("stream", s.stream)

	if after := s.b.snapshot(t, s.cell); after != before {
		t.Errorf("the other tenant's jobs have changed\nbefore:\n%s\nafter:\n%s", before, after)
	}
}

// everyRouteIsAsked compares the questions with the routes that the service documents.
func (s *setting) everyRouteIsAsked(t *testing.T) {
	for route, d := range s.probes {
		if d.job == nil && d.thing == nil && d.names == nil && !d.queue {
			t.Errorf("nothing is asked at %s: say in the table of routes what can be", route)
		}
		if strings.Contains(route, "{id}") && d.job == nil && d.thing == nil || strings.Contains(route, "{name}") && !d.queue {
			t.Errorf("%s takes a name in its path, and the table does not use it", route)
		}
	}
}

// queueRoutes gives each route with a queue in its path a queue of its own, because some
// of them create it.
func (s *setting) queueRoutes() map[string]string {
	asked := map[string]string{}
	for route, d := range s.probes {
		if d.queue {
			asked[route] = onlyQueue("books")
		}
	}
	return asked
}

func procedures(d protoreflect.ServiceDescriptor) (routes []string) {
	methods := d.Methods()
	for i := range methods.Len() {
		routes = append(routes, "POST /"+string(d.FullName())+"/"+string(methods.Get(i).Name()))
	}
	return routes
}

// question is one request about the other tenant; its twin, if there is one, is the same
// request about something that does not exist.
type question struct {
	ask, twin request
	hasTwin   bool
	derived   bool
	named     []string // What the question itself contains of the other tenant.
}

// questions of one route. The first of a job stands for all where few are enough.
func (s *setting) questions(route string) (all []question) {
	method, path, _ := strings.Cut(route, " ")
	d := s.probes[route]
	if d.job != nil {
		for _, j := range s.b.jobs() {
			all = append(all, aboutJobs(d, method, path, j, j.random()))
			// The victim's id with a lease token of one's own.
			mixed := j
			mixed.token = s.a.namespaces[0].jobs[0].token
			all = append(all, aboutJobs(d, method, path, mixed, mixed.random()))
		}
	}
	if d.thing != nil {
		for _, ns := range s.b.namespaces {
			theirs, nobodys := ns.things[d.thingKind], d.thingKind+crockford(26)
			at := func(id string) request {
				return request{method: method, path: strings.ReplaceAll(path, "{id}", id) + d.query, body: d.thing(id)}
			}
			all = append(all, question{ask: at(theirs), twin: at(nobodys), hasTwin: true, named: []string{theirs, nobodys}})
		}
	}
	if d.queue {
		at := func(name string) request {
			return request{method: method, path: strings.ReplaceAll(path, "{name}", name) + d.query, body: d.body}
		}
		theirs, nobodys := s.b.asked[route], onlyQueue("books")
		all = append(all,
			question{ask: at(theirs), twin: at(nobodys), hasTwin: true, named: []string{theirs, nobodys}},
			question{ask: at(queue)}) // A queue of one's own, of the same name.
	}
	if d.names != nil {
		all = append(all, question{ask: request{method: method, path: path + d.query, body: d.names(), watch: d.watch}})
	}
	for i := range all {
		all[i].derived = d.derived
	}
	return all
}

func aboutJobs(d probe, method, path string, j, nobodys job) question {
	return question{
		ask:  request{method: method, path: strings.ReplaceAll(path, "{id}", j.id), body: d.job(j)},
		twin: request{method: method, path: strings.ReplaceAll(path, "{id}", nobodys.id), body: d.job(nobodys)}, hasTwin: true,
		named: []string{j.id, j.token},
	}
}

// forms are the three ways to address a tenant.
func forms(name string) map[string]func(request) request {
	return map[string]func(request) request{
		"host": func(q request) request { q.host = name + ".localhost"; return q },
		"path": func(q request) request { q.path = "/t/" + name + q.path; return q },
		"bare": func(q request) request { return q },
	}
}

// forgeries are: no forged header, each alone, all of them, and whole identities.
func (s *setting) forgeries() []map[string]string {
	all := forged(s.b)
	list := []map[string]string{nil}
	for name, value := range all {
		list = append(list, map[string]string{name: value})
	}
	return append(append(list, all), credible(s.b)...)
}

// everyQuestion asks them all as tenant A, until the first wrong answer.
func (s *setting) everyQuestion(t *testing.T, route string) {
	for form, address := range forms(s.a.name) {
		for i, q := range s.questions(route) {
			forgeries := s.forgeries()
			if i > 0 { // Which job it is and which header is forged are independent.
				forgeries = forgeries[:1]
			}
			for _, headers := range forgeries {
				at := fmt.Sprintf("%s %s with %q", form, route, slices.Sorted(maps.Keys(headers)))
				s.compare(t, at, q, func(r request) request {
					r = address(r)
					r.base, r.key, r.headers = s.cell.Proxies[0].URL, s.a.key, headers
					return r
				})
				if t.Failed() {
					return
				}
			}
		}
	}
}

// compare asks the question and its twin.
func (s *setting) compare(t *testing.T, at string, q question, as func(request) request) {
	t.Helper()
	a, err := as(q.ask).send(s.ctx)
	if err != nil {
		t.Errorf("%s: %v", at, err)
		return
	}
	s.noSecrets(t, at, a, q.named)
	if a.status == http.StatusBadRequest && q.derived && q.ask.body != nil {
		t.Errorf("%s: what is asked is refused for its form: say in the table of routes what can be asked there\n%s", at, a.body)
	}
	if !q.hasTwin {
		return
	}
	twin, err := as(q.twin).send(s.ctx)
	if err != nil {
		t.Errorf("%s: %v", at, err)
		return
	}
	if got, want := a.plain(q.named...), twin.plain(q.named...); got != want {
		t.Errorf("%s: %s\nof the other tenant:\n%s\nof nobody:\n%s", at, q.ask.path, got, want)
	}
}

func (s *setting) noSecrets(t *testing.T, at string, a answer, named []string) {
	t.Helper()
	told := a.told()
	for _, secret := range s.b.secrets() {
		if !slices.Contains(named, secret) && tells(told, secret) {
			t.Errorf("%s: the answer tells %q of the other tenant:\n%s", at, secret, a.body)
		}
	}
}

// tells finds a secret in a text. A lease token is a few letters, which the random part of a
// job's id contains once in some runs: a short secret counts where it stands by itself.
func tells(text, secret string) bool {
	const short = 16
	if len(secret) >= short || !strings.Contains(text, secret) {
		return strings.Contains(text, secret)
	}
	return regexp.MustCompile(`(^|[^0-9A-Za-z])` + regexp.QuoteMeta(secret) + `($|[^0-9A-Za-z])`).MatchString(text)
}

func TestTells_AShortSecretThatStandsByItself(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"job_id":"job_01M8HQ7TAGAZAR8B273SB8253A"}`: false,
		`{"lease_token":"AR8B"}`:                      true, "\x04AR8B\x12": true, "AR8B": true, "": false,
		"job_0AR8B1 AR8B": true,
	} {
		if got := tells(text, "AR8B"); got != want {
			t.Errorf("%q tells: %v", text, got)
		}
	}
	if long := "corvo_dp_aaaaaaaaaaaa"; !tells("Z"+long+"Z", long) {
		t.Error("a long secret is found only where it stands by itself")
	}
}

// othersAddress asks at the other tenant's address: refused as at the address of a
// tenant that does not exist, with a key of one's own and with none.
func (s *setting) othersAddress(t *testing.T, route string) {
	method, path, _ := strings.Cut(route, " ")
	d := s.probes[route]
	path = strings.NewReplacer("{id}", s.b.jobs()[0].id, "{name}", s.b.ledger).Replace(path)
	for form := range forms("") {
		for key, status := range map[string]int{s.a.key: 403, "": 401, "corvo_dp_no_key": 401} {
			if form == "bare" || d.public {
				continue
			}
			ask := func(name string) answer {
				q := forms(name)[form](request{method: method, base: s.cell.Proxies[0].URL, path: path, key: key, body: o{}})
				a, err := q.send(s.ctx)
				if err != nil {
					t.Errorf("%s %s: %v", form, route, err)
				}
				return a
			}
			others, nobodys := ask(victimName), ask(nobodyName)
			if d.names != nil && form == "path" && !strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/corvo.") {
				status = nobodys.status // The proxy's own routes, which need no key.
			}
			if others.status != status || others.plain(victimName, nobodyName) != nobodys.plain(victimName, nobodyName) {
				t.Errorf("%s %s: want %d and no difference\nother tenant:\n%s\nnobody:\n%s", form, route, status, others.plain(), nobodys.plain())
			}
		}
	}
}

// nodesAlone asks the nodes themselves: what no proxy has signed is refused.
func (s *setting) nodesAlone(t *testing.T, route string) {
	if s.probes[route].public {
		return
	}
	for _, n := range s.cell.Nodes {
		for _, key := range []string{"", s.a.key, s.b.key} {
			for _, headers := range s.forgeries() {
				for _, q := range s.questions(route)[:1] {
					q.ask.base, q.ask.key, q.ask.headers, q.ask.watch = n.URL, key, headers, false // A stream's status is always 200.
					a, err := q.ask.send(s.ctx)
					if err != nil {
						t.Errorf("%s at %s: %v", route, n.ID, err)
						continue
					}
					if a.status != 401 {
						t.Errorf("%s at %s with %q: status %d, want 401\n%s", route, n.ID, slices.Sorted(maps.Keys(headers)), a.status, a.body)
					}
					s.noSecrets(t, route+" at "+n.ID, a, q.named)
				}
			}
		}
	}
}

// hosts spells the other tenant's host in every way, and that of no tenant.
func (s *setting) hosts(t *testing.T) {
	id := s.b.jobs()[0].id
	others, nobodys := hosts(victimName), hosts(nobodyName)
	for i := range others {
		for _, prefix := range []string{"", "/t/" + s.a.name} {
			for _, path := range []string{"/api/v1/queues", "/api/v1/jobs/" + id} {
				ask := func(host string) answer {
					a, err := request{method: "GET", base: s.cell.Proxies[0].URL, host: host, path: prefix + path, key: s.a.key}.wire(s.ctx)
					if err != nil {
						t.Errorf("host %q: %v", host, err)
					}
					return a
				}
				s.same(t, fmt.Sprintf("host %q, %s", others[i], prefix+path), ask(others[i]), ask(nobodys[i]), id)
			}
		}
	}
}

// paths writes the address of the other tenant's job in every way.
func (s *setting) paths(t *testing.T) {
	j := s.b.jobs()[0]
	others, nobodys := paths(s.a.name, victimName, j.id), paths(s.a.name, nobodyName, j.random().id)
	for i := range others {
		for _, host := range []string{"", s.a.name + ".localhost"} {
			for _, method := range []string{"GET", "DELETE", "OPTIONS"} {
				ask := func(path string) answer {
					a, err := request{method: method, base: s.cell.Proxies[0].URL, host: host, path: path, key: s.a.key}.wire(s.ctx)
					if err != nil {
						t.Errorf("%s %s: %v", method, path, err)
					}
					return a
				}
				a := ask(others[i])
				s.same(t, fmt.Sprintf("%s %s at %q", method, others[i], host), a, ask(nobodys[i]), j.id)
				if method != "OPTIONS" && a.status < 400 && !strings.HasSuffix(others[i], "/healthz") {
					t.Errorf("%s %s at %q: status %d, want a refusal\n%s", method, others[i], host, a.status, a.body)
				}
			}
		}
	}
}

func (s *setting) same(t *testing.T, at string, others, nobodys answer, named ...string) {
	t.Helper()
	s.noSecrets(t, at, others, named)
	names := []string{victimName, nobodyName, hexByte(victimName[0]) + victimName[1:], hexByte(nobodyName[0]) + nobodyName[1:]}
	if got, want := others.plain(names...), nobodys.plain(names...); got != want {
		t.Errorf("%s:\nof the other tenant:\n%s\nof nobody:\n%s", at, got, want)
	}
}

// cellAdministration is for parts of the cell: a proxy does not show it, a node
// refuses it.
func (s *setting) cellAdministration(t *testing.T) {
	services := cellv1.File_corvo_cell_v1_cell_proto.Services()
	for i := range services.Len() {
		for _, route := range procedures(services.Get(i)) {
			_, path, _ := strings.Cut(route, " ")
			for _, headers := range s.forgeries() {
				for form, address := range forms(s.a.name) {
					q := address(request{method: "POST", base: s.cell.Proxies[0].URL, path: path, key: s.a.key, headers: headers, body: o{}})
					s.refused(t, form+" "+path, q, 404)
				}
				for _, n := range s.cell.Nodes {
					s.refused(t, n.ID+" "+path, request{method: "POST", base: n.URL, path: path, key: s.a.key, headers: headers, body: o{}}, 401)
				}
			}
		}
	}
}

func (s *setting) refused(t *testing.T, at string, q request, status int) {
	t.Helper()
	a, err := q.send(s.ctx)
	if err != nil {
		t.Errorf("%s: %v", at, err)
		return
	}
	// A server stream refuses inside an answer of 200, or for its content type.
	if a.status != status && a.status != 415 {
		t.Errorf("%s: status %d, want %d\n%s", at, a.status, status, a.body)
	}
	s.noSecrets(t, at, a, nil)
}

// stream asks over a real stream what the table asks in a unary call.
func (s *setting) stream(t *testing.T) {
	for form, url := range map[string]string{"path": s.cell.Proxies[0].URL + "/t/" + s.a.name, "bare": s.cell.Proxies[0].URL} {
		for _, pipelined := range []bool{false, true} {
			st := newStreamOf(t, url, s.a.key, pipelined)
			for _, j := range s.b.jobs() {
				got, want := answer{body: st.ask(s.ctx, frame(j))}, answer{body: st.ask(s.ctx, frame(j.random()))}
				s.noSecrets(t, form+" stream", got, []string{j.id, j.token})
				if got.plain(j.token) != want.plain(j.token) {
					t.Errorf("%s stream, pipelined %v, %s job:\nof the other tenant:\n%s\nof nobody:\n%s", form, pipelined, j.state, got.plain(), want.plain())
				}
			}
			s.noSecrets(t, form+" stream", answer{body: st.ask(s.ctx, frameOfNames())}, nil)
			st.close()
		}
	}
}
