package law

// A Module is a go.mod of ours and those of ours that it may require.
type Module struct {
	Path string
	May  []string
}

// Modules is the drawing of the planes, lowest first: a module may require only what
// is listed before it. A tidy go.mod names what tests import too, so this binds them
// as well; Rooms does not.
var Modules = []Module{
	{"data-plane/api", nil},
	{"data-plane", []string{"data-plane/api"}},
	{"control-plane/api", nil},
	{"migrations", nil},
	{"control-plane", []string{"control-plane/api", "data-plane/api", "migrations"}},
	{"web", nil},
	{"sdks/go", []string{"data-plane/api"}},
	{"cli", []string{"control-plane/api", "data-plane", "data-plane/api", "sdks/go"}},
	{"terraform-provider", []string{"control-plane/api", "data-plane/api"}},
	{"services", []string{"cli", "control-plane", "control-plane/api", "data-plane", "data-plane/api", "migrations", "sdks/go", "web"}},
	{"tools", nil},
}

// A Room is one package (or a subtree, with /...) and the rooms of ours it may
// import. What is not listed is forbidden; an entry with /... covers what lies
// under it.
type Room struct {
	Path    string
	May     []string
	Because string
}

// Rooms is the drawing of the repository as a table: arrows point inwards, from
// the wire to the domain. Read it from top to bottom, domain first. A new
// package needs a line here; think about where it stands before adding one.
//
// Paths are relative to the repository's module path. The standard library and
// other people's modules are not listed here but in Libraries.
var Rooms = []Room{
	// Contracts: what other processes and languages see.
	{"data-plane/api/gen/...", []string{"data-plane/api/gen/..."},
		"generated from the protos"},
	{"data-plane/api/apikey", nil,
		"a key's form is a fact about text; it knows no store"},
	{"data-plane/api/clientnet", nil,
		"what an address says: which client, and how much of it is one; it knows nothing that is counted"},
	{"data-plane/api/browser", nil,
		"what a server does because browsers exist; it knows no key and no route"},
	{"data-plane/api/cellsecret", nil,
		"the secrets that processes of a cell share, and their replacement; it knows not what is signed"},
	{"data-plane/api/identity", []string{"data-plane/api/cellsecret"},
		"who asks, signed; used on both sides of a hop, so it may know neither"},
	{"data-plane/api/usertoken", []string{"data-plane/api/identity"},
		"the token of a person's browser: its text and what makes it good; it knows no store"},
	{"data-plane/api/cellclock", []string{"data-plane/api/cellsecret"},
		"compares the clocks of a cell; it knows nobody who leads and nothing that follows"},
	{"data-plane/api/forward", nil,
		"carries bytes between processes of a cell; it knows no use case"},
	{"data-plane/api/refusal", nil,
		"how a gRPC call is refused at its open; it knows no reason"},
	{"data-plane/api/wire", nil,
		"words, answers and requests of the HTTP/JSON API, for the node and for clients; it knows nothing of either"},
	{"data-plane/api/repeat", []string{"data-plane/api/gen/..."},
		"which calls may be sent twice, told from their bytes; it knows no connection and no store"},
	{"data-plane/api/connections", []string{"data-plane/api/clientnet"},
		"how many connections a server holds; it knows neither requests nor credentials"},
	{"data-plane/api/fair", nil,
		"divides by weight what is scarce; it knows neither tenants nor what is divided"},
	{"data-plane/api/eventually", nil,
		"how tests of every module wait; it knows not for what"},
	{"data-plane/api/faulttest", nil,
		"a peer that misbehaves, for tests of every module; it knows not what is called"},
	{"data-plane/api/retention", []string{"data-plane/api/gen/..."},
		"how long what has ended is kept, for the planes that say so and the one that does it; it knows no job"},
	{"data-plane/api/celladmin", []string{"data-plane/api/..."},
		"client of a cell's administration; it never sees a job"},

	// Domain: pure, replayed on every replica (law 2).
	{"data-plane/internal/fault", nil,
		"the words of a refusal; everybody may speak them"},
	{"data-plane/internal/engine/cellversion", nil,
		"which versions of the cell the program speaks; it knows nothing that they bring"},
	{"data-plane/internal/engine/job", nil,
		"pure words: ids, states, backoff"},
	{"data-plane/internal/floor/codec", nil,
		"the one binary encoding; it must not know what it carries"},
	{"data-plane/internal/engine/keys", []string{"data-plane/internal/engine/job"},
		"byte order of the state, positions and due times; it knows no values"},
	{"data-plane/internal/engine/command", []string{"data-plane/internal/floor/codec", "data-plane/internal/engine/job", "data-plane/internal/engine/keys"},
		"what the log says, positions and due times included; it must decode in ten years, so it knows no store"},
	{"data-plane/internal/engine/feed", []string{"data-plane/internal/floor/codec", "data-plane/internal/engine/job", "data-plane/internal/engine/keys", "data-plane/internal/floor/statedb"},
		"facts that resulted, in order; it decides nothing"},
	{"data-plane/internal/engine/records", []string{"data-plane/internal/floor/codec", "data-plane/internal/engine/command", "data-plane/internal/engine/feed", "data-plane/internal/engine/job", "data-plane/internal/engine/keys"},
		"the values of the state and their bytes; they know neither store nor what changes them"},

	{"data-plane/internal/engine/cron", nil,
		"when a schedule runs: expressions, zones, instants; it knows no job and no clock"},

	// Floor: disks and wires. It sees bytes.
	{"data-plane/internal/floor/health", nil,
		"why a node should not lead; it is a set of reasons and knows no cause and no consequence"},
	{"data-plane/internal/floor/processors", nil,
		"how busy the processors are; it knows nobody who asks"},
	{"data-plane/internal/floor/disk", nil,
		"file systems with faults and delays; it knows no format"},
	{"data-plane/internal/floor/storefiles", nil,
		"which files of a Pebble store are damaged; it knows no key"},
	{"data-plane/internal/floor/statedb", []string{"data-plane/internal/floor/disk", "data-plane/internal/floor/storefiles"},
		"the node's state store: opening, spans, applied records; it knows no job"},
	{"data-plane/internal/floor/raftlog", []string{"data-plane/internal/floor/disk", "data-plane/internal/floor/storefiles"},
		"log and stable store of all groups; an entry is bytes"},
	{"data-plane/internal/floor/transport", []string{"data-plane/api/cellsecret", "data-plane/internal/floor/health"},
		"raft messages of all groups over one listener; it knows addresses, not jobs"},
	{"data-plane/internal/floor/peerstate", []string{"data-plane/internal/engine/cellversion", "data-plane/internal/floor/transport"},
		"what other nodes have said of themselves; it knows terms and indexes, not what they count"},
	{"data-plane/internal/floor/group", []string{"data-plane/internal/engine/cellversion", "data-plane/internal/fault", "data-plane/internal/floor/health", "data-plane/internal/floor/statedb", "data-plane/internal/floor/transport"},
		"one replica of one raft group; its machine is an interface, so that the meta group and the shards share it"},

	// The state machine stands on the floor and is run by it.
	{"data-plane/internal/engine/stateread", []string{"data-plane/api/retention", "data-plane/internal/engine/command", "data-plane/internal/engine/feed", "data-plane/internal/floor/group", "data-plane/internal/engine/job", "data-plane/internal/engine/keys", "data-plane/internal/engine/records", "data-plane/internal/floor/statedb"},
		"reads the state; it changes nothing, and of group it knows the two times"},
	{"data-plane/internal/engine/state", []string{"data-plane/internal/engine/cellversion", "data-plane/internal/engine/command", "data-plane/internal/engine/feed", "data-plane/internal/floor/group", "data-plane/internal/engine/job", "data-plane/internal/engine/keys", "data-plane/internal/engine/records", "data-plane/internal/floor/statedb", "data-plane/internal/engine/stateread"},
		"state = f(log): no clock, no network, no leader memory; of group it knows the shape of an entry, of raft nothing"},

	{"data-plane/internal/edge/notify", []string{"data-plane/internal/engine/job"},
		"tells that there is something new; it knows neither events nor who listens"},
	{"data-plane/internal/edge/readmodel", []string{"data-plane/internal/edge/notify", "data-plane/internal/floor/codec", "data-plane/internal/floor/processors", "data-plane/internal/engine/command", "data-plane/internal/fault", "data-plane/internal/engine/feed", "data-plane/internal/engine/job", "data-plane/internal/engine/records", "data-plane/internal/floor/statedb", "data-plane/internal/engine/stateread"},
		"a searchable copy of the state, made from feed and state's readers; it decides nothing and knows neither protocol nor raft"},

	// Leader side.
	{"data-plane/internal/engine/dispatch", []string{"data-plane/internal/engine/command", "data-plane/internal/engine/job", "data-plane/internal/engine/keys", "data-plane/internal/engine/records", "data-plane/internal/engine/state", "data-plane/internal/floor/statedb", "data-plane/internal/engine/stateread"},
		"memory of the leader: what is ready and who waits; it proposes nothing by itself"},
	{"data-plane/internal/engine/shard", []string{"data-plane/api/fair", "data-plane/api/retention", "data-plane/internal/engine/cellversion", "data-plane/internal/engine/command", "data-plane/internal/engine/dispatch", "data-plane/internal/fault", "data-plane/internal/floor/group", "data-plane/internal/engine/job", "data-plane/internal/engine/keys", "data-plane/internal/engine/records", "data-plane/internal/engine/state", "data-plane/internal/floor/statedb", "data-plane/internal/engine/stateread"},
		"proposes for one shard and runs its timers; it validates nothing and speaks no protocol"},
	{"data-plane/internal/floor/grouptest", []string{"data-plane/internal/floor/group", "data-plane/internal/engine/job", "data-plane/internal/floor/raftlog", "data-plane/internal/engine/state", "data-plane/internal/floor/statedb", "data-plane/internal/floor/transport"},
		"a shard's replica for tests of what stands on it; it knows not what is proposed"},
	{"data-plane/internal/edge/queue", []string{"data-plane/api/retention", "data-plane/api/wire", "data-plane/internal/edge/notify", "data-plane/internal/floor/codec", "data-plane/internal/engine/command", "data-plane/internal/engine/cron", "data-plane/internal/fault", "data-plane/internal/engine/feed", "data-plane/internal/engine/job", "data-plane/internal/edge/readmodel", "data-plane/internal/engine/records", "data-plane/internal/engine/shard", "data-plane/internal/engine/state", "data-plane/internal/floor/statedb", "data-plane/internal/engine/stateread"},
		"use cases: validate, stamp, propose, look, and answer in the words of wire, so that an answer is said once; it reads through state's readers, the feed and the read model, and knows neither protocol nor key layout"},

	// The cell.
	{"data-plane/internal/cell", []string{"data-plane/api/celladmin", "data-plane/api/cellsecret", "data-plane/api/forward", "data-plane/api/gen/...", "data-plane/api/identity", "data-plane/api/retention", "data-plane/internal/engine/cellversion", "data-plane/internal/fault", "data-plane/internal/floor/group", "data-plane/internal/floor/health", "data-plane/internal/engine/job", "data-plane/internal/floor/statedb"},
		"desired state and membership; it never sees a job"},
	{"data-plane/internal/edge/cluster", []string{"data-plane/internal/cell", "data-plane/internal/fault", "data-plane/internal/engine/job", "data-plane/internal/edge/queue", "data-plane/internal/engine/shard"},
		"routes a namespace to the shard's leader; it decides nothing about jobs"},
	{"data-plane/internal/edge/shape", []string{"data-plane/api/gen/...", "data-plane/api/wire", "data-plane/internal/fault", "data-plane/internal/engine/job"},
		"reads and describes what clients send; it knows neither routes nor what a use case allows"},
	{"data-plane/internal/edge/messages", []string{"data-plane/api/gen/...", "data-plane/api/wire", "data-plane/internal/fault", "data-plane/internal/engine/job", "data-plane/internal/edge/queue", "data-plane/internal/edge/shape"},
		"messages of corvo.v1 to inputs and answers of the use cases; it knows neither callers nor connections"},
	{"data-plane/internal/edge/admission", []string{"data-plane/api/fair", "data-plane/internal/fault", "data-plane/internal/floor/processors"},
		"shares the processors by weight; it is given a tenant and a number and knows neither calls nor jobs"},
	{"data-plane/internal/edge/streams", []string{"data-plane/api/fair", "data-plane/api/gen/...", "data-plane/api/identity", "data-plane/api/wire", "data-plane/internal/edge/messages", "data-plane/internal/fault", "data-plane/internal/edge/queue", "data-plane/internal/edge/shape"},
		"worker streams, from their first frame to their end; it asks the server through Backend and knows neither requests nor routes"},
	{"data-plane/internal/edge/server", []string{"data-plane/api/...", "data-plane/internal/edge/admission", "data-plane/internal/edge/messages", "data-plane/internal/fault", "data-plane/internal/engine/job", "data-plane/internal/edge/queue", "data-plane/internal/edge/shape", "data-plane/internal/edge/streams"},
		"wire to use case and back; it must not know storage, raft or commands"},
	{"data-plane/node", []string{"data-plane/api/...", "data-plane/internal/..."},
		"the public package: builds and starts a node, so it alone knows everybody"},
	{"data-plane/node/nodetest", []string{"data-plane/api/celladmin", "data-plane/api/cellsecret", "data-plane/node"},
		"starts nodes for tests of any module; it knows not what is asked of them"},

	// The control plane: it meets the data plane through the cell's contract alone.
	{"control-plane/api/gen/...", []string{"control-plane/api/gen/..."},
		"generated from the protos"},
	{"migrations", nil,
		"SQL text; it knows no database"},
	{"control-plane/internal/fault", nil,
		"the words of a refusal; everybody may speak them"},
	{"control-plane/internal/ids", nil,
		"names of records; it knows no record"},
	{"control-plane/internal/access", []string{"control-plane/api/gen/...", "data-plane/api/identity"},
		"who calls and what a role may do; it knows no store"},
	{"control-plane/internal/seal", nil,
		"encrypts and signs text; it knows no secret's meaning"},
	{"control-plane/pgtest", nil,
		"a PostgreSQL for tests; it knows no schema, and other modules' tests use it too"},
	{"control-plane/internal/store", []string{"control-plane/api/gen/...", "migrations"},
		"records in two databases; it knows no rules"},
	{"control-plane/internal/reconcile", []string{"control-plane/api/gen/...", "control-plane/internal/access", "control-plane/internal/ids", "control-plane/internal/seal", "control-plane/internal/store", "data-plane/api/apikey", "data-plane/api/celladmin", "data-plane/api/gen/...", "data-plane/api/identity"},
		"carries what is written to where it must happen; it knows no use case and no email"},
	{"control-plane/internal/urls", nil,
		"addresses that people and programs are shown; it knows nobody who serves them"},
	{"control-plane/internal/kit", []string{"control-plane/internal/access", "control-plane/internal/ids", "control-plane/internal/seal", "control-plane/internal/store", "control-plane/internal/urls"},
		"what every use case is built of; it knows none of them"},
	{"control-plane/internal/listing", []string{"control-plane/internal/access", "control-plane/internal/fault", "control-plane/internal/kit", "control-plane/internal/store"},
		"the pages of a list; it knows not what is listed"},
	{"control-plane/internal/etag", []string{"control-plane/internal/fault"},
		"the tag of a version of a record; it knows no record"},
	{"control-plane/internal/once", []string{"control-plane/internal/access", "control-plane/internal/fault", "control-plane/internal/kit", "control-plane/internal/store"},
		"calls that may be made again; it knows not what they do"},
	{"control-plane/internal/cookies", nil,
		"the session cookie's name and attributes; it knows no session"},
	{"control-plane/internal/change", []string{"control-plane/internal/access", "control-plane/internal/ids", "control-plane/internal/kit", "control-plane/internal/store", "data-plane/api/apikey"},
		"a change's row with its audit entry and outbox rows; it knows no use case"},
	{"control-plane/internal/session", []string{"control-plane/internal/access", "control-plane/internal/ids", "control-plane/internal/seal", "control-plane/internal/store"},
		"how long a browser stays signed in; it knows neither cookies nor ways to sign in"},
	{"control-plane/internal/ratelimit", []string{"control-plane/internal/fault", "control-plane/internal/store", "data-plane/api/clientnet"},
		"how often strangers may do what costs us; it knows not what they do"},
	{"control-plane/internal/mail", []string{"control-plane/internal/ids", "control-plane/internal/kit", "control-plane/internal/seal", "control-plane/internal/store"},
		"emails and how they are sent; it does not know why"},
	{"control-plane/internal/signup", []string{"control-plane/api/gen/...", "control-plane/internal/access", "control-plane/internal/cookies", "control-plane/internal/fault", "control-plane/internal/ratelimit", "control-plane/internal/ids", "control-plane/internal/kit", "control-plane/internal/mail", "control-plane/internal/names", "control-plane/internal/seal", "control-plane/internal/session", "control-plane/internal/store", "control-plane/internal/tenancy", "data-plane/api/apikey"},
		"from an address and a name to a tenant; it knows no cell and no SMTP"},
	{"control-plane/internal/login", []string{"control-plane/api/gen/...", "control-plane/internal/access", "control-plane/internal/change", "control-plane/internal/cookies", "control-plane/internal/fault", "control-plane/internal/ratelimit", "control-plane/internal/kit", "control-plane/internal/mail", "control-plane/internal/seal", "control-plane/internal/session", "control-plane/internal/store"},
		"sign-in by mailed links; it knows no other way to sign in"},
	{"control-plane/internal/members", []string{"control-plane/api/gen/...", "control-plane/internal/access", "control-plane/internal/change", "control-plane/internal/cookies", "control-plane/internal/etag", "control-plane/internal/fault", "control-plane/internal/ratelimit", "control-plane/internal/ids", "control-plane/internal/kit", "control-plane/internal/listing", "control-plane/internal/mail", "control-plane/internal/seal", "control-plane/internal/session", "control-plane/internal/store", "control-plane/internal/tenancy"},
		"who belongs to a tenant; it knows not how they sign in"},
	{"control-plane/internal/egress", nil,
		"calls to addresses that customers chose; it knows not what is fetched"},
	{"control-plane/internal/sso", []string{"control-plane/api/gen/...", "control-plane/internal/access", "control-plane/internal/change", "control-plane/internal/cookies", "control-plane/internal/egress", "control-plane/internal/etag", "control-plane/internal/fault", "control-plane/internal/ratelimit", "control-plane/internal/ids", "control-plane/internal/kit", "control-plane/internal/mail", "control-plane/internal/members", "control-plane/internal/once", "control-plane/internal/seal", "control-plane/internal/session", "control-plane/internal/store"},
		"sign-in by a tenant's own provider, which it trusts for nothing else; it knows no other way to sign in"},
	{"control-plane/internal/cloudtest", []string{"control-plane/api/gen/...", "control-plane/internal/access", "control-plane/internal/cookies", "control-plane/internal/fault", "control-plane/internal/ids", "control-plane/internal/kit", "control-plane/internal/mail", "control-plane/internal/seal", "control-plane/internal/store", "control-plane/internal/urls", "control-plane/pgtest"},
		"what stands around a use case in its tests; it knows no use case"},
	{"control-plane/internal/names", nil,
		"which names tenants and namespaces may have; it knows none that is taken"},
	{"control-plane/internal/tokenkeys", []string{"control-plane/internal/seal", "control-plane/internal/store", "data-plane/api/usertoken"},
		"the keys that sign browsers' tokens; it knows no token"},
	{"control-plane/internal/masterkey", []string{"control-plane/internal/seal", "control-plane/internal/store"},
		"the change of the key that seals everything; it knows no secret's meaning"},
	{"control-plane/internal/tenancy", []string{"control-plane/api/gen/...", "control-plane/internal/access", "control-plane/internal/change", "control-plane/internal/etag", "control-plane/internal/fault", "control-plane/internal/ratelimit", "control-plane/internal/ids", "control-plane/internal/kit", "control-plane/internal/listing", "control-plane/internal/names", "control-plane/internal/once", "control-plane/internal/store", "control-plane/internal/tokenkeys", "data-plane/api/apikey", "data-plane/api/identity", "data-plane/api/retention", "data-plane/api/usertoken"},
		"use cases of tenants, namespaces, keys, audit and tokens; it knows neither wire nor cell"},
	{"control-plane/internal/server", []string{"control-plane/api/gen/...", "control-plane/internal/access", "control-plane/internal/cookies", "control-plane/internal/etag", "control-plane/internal/fault", "control-plane/internal/ratelimit", "control-plane/internal/ids", "control-plane/internal/kit", "control-plane/internal/seal", "control-plane/internal/session", "control-plane/internal/store", "control-plane/internal/tenancy", "data-plane/api/apikey"},
		"wire to use case and back: who calls and whether they may; what a call does is handed in"},
	{"control-plane/server", []string{"control-plane/api/...", "control-plane/internal/...", "data-plane/api/..."},
		"the public package: builds the control plane, so it alone knows everybody"},

	// Clients and programs.
	{"sdks/go/...", []string{"data-plane/api/gen/...", "data-plane/api/wire", "sdks/go/..."},
		"a client knows the contract and nothing of the server"},
	{"cli/conformance", []string{"data-plane/api/gen/..."},
		"what must be true, asked as a stranger asks; it knows the contract and nothing of the server"},
	{"cli/internal/bench", []string{"data-plane/api/gen/...", "data-plane/api/wire", "sdks/go/..."},
		"measures as a stranger would, through the wire"},
	{"cli/internal/cli", []string{"cli/conformance", "cli/internal/bench", "control-plane/api/gen/...", "data-plane/api/retention", "data-plane/api/wire", "data-plane/node", "sdks/go/..."},
		"client commands speak the public protocol; only the server command starts a node"},
	{"cli/cmd/corvo", []string{"cli/internal/cli"},
		"a thin main"},
	{"web", nil,
		"the built console as files; it knows neither server nor headers"},
	{"terraform-provider/internal/cloud", []string{"control-plane/api/gen/...", "data-plane/api/apikey", "data-plane/api/wire"},
		"speaks the service's contract; it knows no Terraform"},
	{"terraform-provider/internal/provider", []string{"control-plane/api/gen/...", "data-plane/api/apikey", "data-plane/api/wire", "terraform-provider/internal/cloud"},
		"the service in Terraform's words; it knows no transport"},
	{"terraform-provider/internal/acceptance", nil,
		"tests with the real Terraform and the real service, as a user has them"},
	{"terraform-provider", []string{"terraform-provider/internal/provider"},
		"a thin main"},
	{"services/proxy/...", []string{"data-plane/api/...", "services/datadir"},
		"the proxy of a cell meets the data plane through its contract alone"},
	{"services/ingress", []string{"data-plane/api/...", "services/proxy"},
		"the one public port: by host and path to the side whose it is; it authenticates nobody"},
	{"services/mailbox", nil,
		"a mail server for development; it knows nothing of ours"},
	{"services/datadir", nil,
		"one process per data directory; it knows nothing of what lies there"},
	{"services/up/...", []string{"control-plane/server", "data-plane/api/...", "data-plane/node", "services/ingress", "services/mailbox", "services/datadir", "services/proxy"},
		"everything in one process, each plane through its one public package"},
	{"services/cmd/...", []string{"control-plane/server", "data-plane/api/...", "data-plane/node", "services/...", "web"},
		"a thin main that starts the parts"},
	{"services/e2e/...", []string{"data-plane/api/..."},
		"tests from outside: binaries and the wire"},
}

// A Library is somebody else's module that only some rooms may touch.
type Library struct {
	Path    string // Import path prefix.
	Rooms   []string
	Because string
}

// Libraries confines the dependencies whose types would otherwise spread.
var Libraries = []Library{
	{"github.com/hashicorp/raft", []string{"data-plane/internal/floor/group", "data-plane/internal/floor/grouptest", "data-plane/internal/floor/raftlog", "data-plane/internal/floor/transport"},
		"only the floor speaks raft; above it an entry is proposed or refused"},
	{"github.com/cockroachdb/pebble", []string{"data-plane/internal/floor/disk", "data-plane/internal/floor/grouptest", "data-plane/internal/floor/storefiles", "data-plane/internal/floor/raftlog", "data-plane/internal/floor/statedb", "data-plane/node"},
		"only what stores may know the store"},
	{"github.com/spf13/cobra", []string{"cli/internal/cli", "services/cmd/..."},
		"flags belong to programs"},
	{"github.com/spf13/pflag", []string{"cli/internal/cli"},
		"flags belong to programs"},
	{"github.com/coreos/go-oidc", []string{"control-plane/internal/sso"},
		"what a provider says is checked in one room"},
	{"github.com/gofrs/flock", []string{"control-plane/internal/store", "services/datadir"},
		"only what owns files on disk takes them"},
	{"github.com/wneessen/go-mail", []string{"control-plane/internal/mail"},
		"one room writes emails"},
	{"github.com/go-json-experiment/json", []string{"data-plane/internal/edge/shape"},
		"one room knows the JSON grammar"},
	{"github.com/robfig/cron", []string{"data-plane/internal/engine/cron"},
		"one room reads expressions; the instants are its own"},
	{"connectrpc.com/connect", []string{"data-plane/api/...", "data-plane/internal/edge/server", "data-plane/internal/edge/shape", "data-plane/internal/cell", "data-plane/node", "control-plane/...", "sdks/go/...", "cli/conformance", "cli/internal/...", "services/...", "terraform-provider/internal/..."},
		"use cases and everything below speak Go, not RPC"},
}
