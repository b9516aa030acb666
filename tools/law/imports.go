package law

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
	{"data-plane/api/identity", nil,
		"who asks, signed; used on both sides of a hop, so it may know neither"},
	{"data-plane/api/forward", nil,
		"carries bytes between processes of a cell; it knows no use case"},

	// Domain: pure, replayed on every replica (law 2).
	{"data-plane/internal/fault", nil,
		"the words of a refusal; everybody may speak them"},
	{"data-plane/internal/job", nil,
		"pure words: ids, states, backoff"},
	{"data-plane/internal/codec", nil,
		"the one binary encoding; it must not know what it carries"},
	{"data-plane/internal/keys", []string{"data-plane/internal/job"},
		"byte order of the state, positions and due times; it knows no values"},
	{"data-plane/internal/command", []string{"data-plane/internal/codec", "data-plane/internal/job", "data-plane/internal/keys"},
		"what the log says, positions and due times included; it must decode in ten years, so it knows no store"},
	{"data-plane/internal/feed", []string{"data-plane/internal/codec", "data-plane/internal/job", "data-plane/internal/keys", "data-plane/internal/statedb"},
		"facts that resulted, in order; it decides nothing"},

	// Floor: disks and wires. It sees bytes.
	{"data-plane/internal/disk", nil,
		"file systems with faults and delays; it knows no format"},
	{"data-plane/internal/statedb", nil,
		"the node's state store: opening, spans, applied records; it knows no job"},
	{"data-plane/internal/raftlog", []string{"data-plane/internal/disk"},
		"log and stable store of all groups; an entry is bytes"},
	{"data-plane/internal/transport", nil,
		"raft messages of all groups over one listener; it knows addresses, not jobs"},
	{"data-plane/internal/group", []string{"data-plane/internal/fault", "data-plane/internal/statedb", "data-plane/internal/transport"},
		"one replica of one raft group; its machine is an interface, so that the meta group and the shards share it"},

	// The state machine stands on the floor and is run by it.
	{"data-plane/internal/state", []string{"data-plane/internal/codec", "data-plane/internal/command", "data-plane/internal/feed", "data-plane/internal/group", "data-plane/internal/job", "data-plane/internal/keys", "data-plane/internal/statedb"},
		"state = f(log): no clock, no network, no leader memory; of group it knows the shape of an entry, of raft nothing"},

	// Leader side.
	{"data-plane/internal/dispatch", []string{"data-plane/internal/command", "data-plane/internal/job", "data-plane/internal/keys", "data-plane/internal/state", "data-plane/internal/statedb"},
		"memory of the leader: what is ready and who waits; it proposes nothing by itself"},
	{"data-plane/internal/shard", []string{"data-plane/internal/command", "data-plane/internal/dispatch", "data-plane/internal/fault", "data-plane/internal/group", "data-plane/internal/job", "data-plane/internal/keys", "data-plane/internal/state", "data-plane/internal/statedb"},
		"proposes for one shard and runs its timers; it validates nothing and speaks no protocol"},
	{"data-plane/internal/queue", []string{"data-plane/internal/codec", "data-plane/internal/command", "data-plane/internal/fault", "data-plane/internal/job", "data-plane/internal/shard", "data-plane/internal/state", "data-plane/internal/statedb"},
		"use cases: validate, stamp, propose; it reads through state's readers and knows neither protocol nor key layout"},

	// The cell.
	{"data-plane/internal/cell", []string{"data-plane/api/forward", "data-plane/api/gen/...", "data-plane/api/identity", "data-plane/internal/fault", "data-plane/internal/group", "data-plane/internal/job", "data-plane/internal/statedb"},
		"desired state and membership; it never sees a job"},
	{"data-plane/internal/cluster", []string{"data-plane/internal/cell", "data-plane/internal/fault", "data-plane/internal/job", "data-plane/internal/queue", "data-plane/internal/shard"},
		"routes a namespace to the shard's leader; it decides nothing about jobs"},
	{"data-plane/internal/server", []string{"data-plane/api/...", "data-plane/internal/fault", "data-plane/internal/job", "data-plane/internal/queue"},
		"wire to use case and back; it must not know storage, raft or commands"},
	{"data-plane/node", []string{"data-plane/api/...", "data-plane/internal/..."},
		"the public door: builds and starts a node, so it alone knows everybody"},

	// Clients and programs.
	{"sdks/go/...", []string{"data-plane/api/gen/...", "sdks/go/..."},
		"a client knows the contract and nothing of the server"},
	{"data-plane/internal/bench/...", []string{"data-plane/api/gen/...", "sdks/go/..."},
		"measures as a stranger would, through the wire"},
	{"data-plane/internal/cli", []string{"data-plane/internal/bench/...", "data-plane/node", "sdks/go/..."},
		"client commands speak the public protocol; only the server command starts a node"},
	{"data-plane/cmd/corvo", []string{"data-plane/internal/cli"},
		"a thin main"},
	{"services/proxy/...", []string{"data-plane/api/..."},
		"the front door of a cell meets the data plane through its contract alone"},
	{"services/celladmin", []string{"data-plane/api/..."},
		"client of a cell's administration; it never sees a job"},
	{"services/datadir", nil,
		"one process per data directory; it knows nothing of what lies there"},
	{"services/up/...", []string{"data-plane/api/...", "data-plane/node", "services/celladmin", "services/datadir", "services/proxy"},
		"everything in one process, each plane through its one public door"},
	{"services/cmd/...", []string{"data-plane/api/...", "data-plane/node", "services/..."},
		"a thin main that starts the parts"},
	{"services/e2e/...", []string{"data-plane/api/...", "services/celladmin"},
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
	{"github.com/hashicorp/raft", []string{"data-plane/internal/group", "data-plane/internal/raftlog", "data-plane/internal/transport"},
		"only the floor speaks raft; above it an entry is proposed or refused"},
	{"github.com/cockroachdb/pebble", []string{"data-plane/internal/disk", "data-plane/internal/raftlog", "data-plane/internal/statedb", "data-plane/node"},
		"only what stores may know the store"},
	{"github.com/spf13/cobra", []string{"data-plane/internal/cli", "services/cmd/..."},
		"flags belong to programs"},
	{"connectrpc.com/connect", []string{"data-plane/api/...", "data-plane/internal/server", "data-plane/internal/cell", "data-plane/internal/bench/...", "data-plane/node", "sdks/go/...", "services/..."},
		"use cases and everything below speak Go, not RPC"},
}
