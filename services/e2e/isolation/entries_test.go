package isolation

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// side is the part of the service that answers.
type side int

const (
	data      side = iota + 1
	control        // The control API.
	directory      // The SCIM door.
	page           // Console, sign-in pages: the same for everybody.
	closed         // Closed to everybody, or not there.
	inside         // A node's own listener, for parts of the cell.
)

// entry is one entry point and a request to it.
type entry struct {
	name string
	side side
	// base is where it is, if not at the public address.
	base string
	ask  func(tenant string) request
	grpc bool
	// ofTenant: the request names a tenant.
	ofTenant bool
	public   bool
	changes  bool
	last     bool // Ends the session that it is called with, or changes what others may do.
}

// allEntries is what the service documents, and what it should not have.
func (m *matrix) allEntries(t *testing.T) []entry {
	t.Helper()
	all := slices.Concat(m.dataEntries(t), controlEntries(), m.directoryEntries(t), pageEntries(), closedEntries(), m.mailboxEntries(t))
	for _, s := range []side{data, control} {
		if !slices.ContainsFunc(all, func(e entry) bool { return e.side == s }) {
			t.Fatalf("no entries of side %d: the service says nothing of itself", s)
		}
	}
	all = append(all, m.nodeEntries(all, m.cell.Nodes[0].URL)...)
	slices.SortStableFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return all
}

// reading are data-plane routes that change nothing although they are not GET.
var reading = []string{
	"POST /api/v1/jobs/search", "POST /api/v1/jobs/bulk-get", "POST /api/v1/schedules/preview",
	rpc + "Subscribe", rpc + "GetServerInfo",
}

// dataEntries are the routes of the OpenAPI document and the procedures of the worker API,
// those over Connect and over gRPC.
func (m *matrix) dataEntries(t *testing.T) (all []entry) {
	t.Helper()
	m.probes = allProbes(m.ctx, t, m.fronts[0])
	for _, route := range slices.Sorted(maps.Keys(m.probes)) {
		d := m.probes[route]
		e := entry{
			name: "data " + route, side: data, public: d.public, changes: !strings.HasPrefix(route, "GET ") && !slices.Contains(reading, route),
		}
		method, path, _ := strings.Cut(route, " ")
		e.ofTenant = strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/corvo.")
		e.ask = func(tenant string) request {
			q := d.request(route, method, path)
			if e.ofTenant {
				q.path = "/t/" + tenant + q.path
			}
			return q
		}
		all = append(all, e)
		if strings.HasPrefix(path, "/corvo.") {
			all = append(all, overGRPC(e))
		}
	}
	return all
}

func overGRPC(e entry) entry {
	e.name, e.grpc = strings.Replace(e.name, " POST ", " gRPC ", 1), true
	return e
}

// knock asks about things that do not exist, so that an accepted call changes nothing
// that a later one needs.
func (d probe) request(route, method, path string) request {
	nobodys := job{id: "job_" + crockford(26), token: "1.1.1"}
	id := nobodys.id
	q := request{method: method, watch: d.watch}
	switch {
	case route == "POST /api/v1/enqueue":
		q.body = o{"queue": "matrix"}
	case route == "POST /api/v1/enqueue/batch":
		q.body = o{"jobs": []any{o{"queue": "matrix"}}}
	case route == rpc+"Enqueue":
		q.body = o{"queue": "matrix", "payloadJson": "{}"}
	case route == rpc+"EnqueueBatch":
		q.body = o{"jobs": []any{o{"queue": "matrix", "payloadJson": "{}"}}}
	case route == "POST /api/v1/schedules":
		q.body = o{"name": "m-" + crockford(12), "cron": "@yearly", "queue": "matrix", "paused": true, "payload": o{}}
	case d.job != nil:
		q.body = d.job(nobodys)
	case d.thing != nil:
		id = d.thingKind + crockford(26)
		q.body = d.thing(id)
	case d.names != nil:
		q.body = d.names()
	case d.queue:
		q.body = d.body
	}
	q.path = strings.NewReplacer("{id}", id, "{name}", "nothing-"+crockford(12)).Replace(path) + d.query
	return q
}

// controlEntries are the procedures of the control API: over Connect, over gRPC, and by GET
// where they only read.
func controlEntries() (all []entry) {
	protoregistry.GlobalFiles.RangeFilesByPackage(cloudv1.File_corvo_cloud_v1_auth_proto.Package(), func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			for j := range f.Services().Get(i).Methods().Len() {
				all = append(all, controlEntry(f.Services().Get(i).Methods().Get(j))...)
			}
		}
		return true
	})
	return all
}

// publicProcedures need no credential: they are how people get one.
var publicProcedures = []string{
	"AuthService/StartLogin", "AuthService/PreviewLogin", "AuthService/FinishLogin", "AuthService/StartDeviceLogin", "AuthService/PollDeviceLogin",
	"SignupService/CheckName", "SignupService/Start", "SignupService/PreviewConfirm", "SignupService/Confirm",
	"MemberService/PreviewInvitation", "MemberService/AcceptInvitation", "DomainService/FindSignIn",
}

// leaving ends what the others are tried with: one's own session, or membership.
var leaving = []string{"AuthService/Logout", "SessionService/RevokeOtherSessions", "SessionService/LeaveTenant"}

// minting changes nothing in the tenant, and nobody may repeat it by GET.
const minting = "AuthService/MintToken"

func controlEntry(d protoreflect.MethodDescriptor) []entry {
	name := string(d.Parent().Name()) + "/" + string(d.Name())
	options, _ := d.Options().(*descriptorpb.MethodOptions)
	safe := options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
	path := "/corvo.cloud.v1." + name
	body := func(tenant string) o {
		in := o{}
		if d.Input().Fields().ByName("tenant") != nil {
			in["tenant"] = tenant
		}
		if d.Input().Fields().ByName("namespace") != nil && (safe || name == minting) {
			in["namespace"] = "default"
		}
		return in
	}
	e := entry{
		name: "control POST " + name, side: control, public: slices.Contains(publicProcedures, name), changes: !safe && name != minting,
		ask: func(tenant string) request { return request{method: "POST", path: path, body: body(tenant)} },
	}
	e.ofTenant = !e.public && d.Input().Fields().ByName("tenant") != nil
	if p, _ := proto.GetExtension(options, cloudv1.E_Permission).(cloudv1.Permission); p == cloudv1.Permission_PERMISSION_SIGNED_IN {
		e.changes, e.ofTenant = false, false // It is about oneself.
	}
	if slices.Contains(leaving, name) {
		e.changes, e.last = false, true
		return []entry{e}
	}
	all := []entry{e, overGRPC(e)}
	if safe {
		get := e
		get.name = "control GET " + name
		get.ask = func(tenant string) request {
			raw, err := json.Marshal(body(tenant))
			if err != nil {
				panic(err) // Strings alone.
			}
			return request{method: "GET", path: path + "?connect=v1&encoding=json&message=" + url.QueryEscape(string(raw))}
		}
		all = append(all, get)
	}
	return all
}

func fixed(name string, s side, base string, q request) entry {
	return entry{name: name, side: s, base: base, ask: func(string) request { return q }}
}

func pageEntries() (all []entry) {
	for _, path := range []string{"/", "/signin", "/assets/none.js", "/robots.txt", "/auth/oidc/start", "/auth/oidc/callback", "/auth/oidc/tn_none/callback", "/auth/style.css"} {
		all = append(all, fixed("page GET "+path, page, "", request{method: "GET", path: path}))
	}
	return all
}

// closedEntries are what other programs of this kind have, and the cell's own API, at the
// public address.
func closedEntries() (all []entry) {
	for _, path := range []string{
		"/metrics", "/debug/pprof/", "/debug/vars", "/internal", "/mail", "/mail/messages", "/t/demo/metrics",
		"/api/v1/auth/keys", "/api/v1/namespaces",
	} {
		all = append(all, fixed("closed GET "+path, closed, "", request{method: "GET", path: path}))
	}
	for _, path := range append(cellProcedures(), reflection) {
		all = append(all, fixed("closed POST "+path, closed, "", request{method: "POST", path: path, body: o{}}))
	}
	return all
}

const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"

func cellProcedures() (paths []string) {
	services := cellv1.File_corvo_cell_v1_cell_proto.Services()
	for i := range services.Len() {
		for _, route := range procedures(services.Get(i)) {
			paths = append(paths, strings.TrimPrefix(route, "POST "))
		}
	}
	return paths
}

// mailboxEntries are the mailbox's, without the secret in its address.
func (m *matrix) mailboxEntries(t *testing.T) (all []entry) {
	t.Helper()
	u, err := url.Parse(m.mailbox)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/mail", "/mail/messages", "/mail/messages/1", "/wrong/mail/messages"} {
		all = append(all, fixed("mailbox GET "+path, closed, "http://"+u.Host, request{method: "GET", path: path}))
	}
	return all
}

// nodeEntries are those of the data plane and the cell at a node itself.
func (m *matrix) nodeEntries(all []entry, base string) (out []entry) {
	for _, e := range all {
		if e.side != data || e.public || e.grpc {
			continue
		}
		_, route, _ := strings.Cut(e.name, " ")
		method, path, _ := strings.Cut(route, " ")
		q := m.probes[route].request(route, method, path)
		q.watch = false
		out = append(out, fixed("node "+route, inside, base, q))
	}
	for _, path := range cellProcedures() {
		out = append(out, fixed("node POST "+path, inside, base, request{method: "POST", path: path, body: o{}}))
	}
	return out
}
