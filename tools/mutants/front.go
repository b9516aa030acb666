package main

const (
	proxyAuth    = "proxy/authenticate.go"
	proxyView    = "proxy/view.go"
	proxyAttempt = "proxy/carry.go"
	proxyConfirm = "proxy/confirm.go"
	cellWatch    = "internal/cell/watch.go"
	cellMachine  = "internal/cell/machine.go"
	cellWatchers = "internal/cell/watchers.go"
	cellMembers  = "internal/cell/membership.go"
	cellHandover = "internal/cell/handover.go"
	cellGroup    = "internal/cell/cell.go"
)

// frontMutations break who gets through a proxy, and with what it knows.
var frontMutations = []mutation{
	{"a cookie counts from any site", proxyAuth, "if fromCookie && p.crossOrigin.Check(r) != nil {", "if fromCookie && p.crossOrigin.Check(r) != nil && p == nil {"},
	{"keys of other kinds open the data plane", proxyAuth, "if err != nil || !opensDataPlane(key.Kind()) {", "if err != nil {"},
	{"a key opens another tenant's address", proxyAuth, "if !addr.agrees(tenant.proto.GetName()) {", "if !addr.agrees(tenant.proto.GetName()) && s == nil {"},
	{"the secret before a rotation is refused", proxyAuth, "for i := range rec.digests {", "for i := range rec.digests[:1] {"},
	{"a secret opens for an unknown id", proxyAuth, "if match != 1 || !known {", "if match != 1 && !known {"},
	{"a key counts from any network", proxyAuth, "; !rec.networks.Has(from) {", "; rec.networks.Has(from) && !rec.networks.Has(from) {"},
	{"a revoked key opens", proxyAuth, "if rec.proto.GetRevoked() || !tenant.alive() {", "if !tenant.alive() {"},
	{"a dead tenant's key opens", proxyAuth, "if rec.proto.GetRevoked() || !tenant.alive() {", "if rec.proto.GetRevoked() {"},
	{"a stranger is wrong while the state is old", proxyAuth, "if ref != nil && ref.stranger && !p.view.fresh(p.now()) {", "if ref != nil && ref.stranger && p.view.fresh(p.now()) && p == nil {"},
	{"a call outlives its key", proxyAuth, "if c.expired(now) {", "if c.expired(now) && s == nil {"},
	{"an older state replaces a newer one", proxyView, "if msg.GetState().GetIndex() < cur.index {", "if msg.GetState().GetIndex() == 0 {"},
	{"a change that is known comes again", proxyView, "if msg.GetIndex() <= cur.index {\n\t\t\treturn false", "if msg.GetIndex() == 0 {\n\t\t\treturn false"},
	{"a node that is behind confirms", proxyView, "case msg.GetIndex() != 0 && msg.GetIndex() < cur.index:", "case msg.GetIndex() != 0 && msg.GetIndex() < cur.index && cur == nil:"},
	{"any other cell's state is taken", proxyView, "if !slices.Contains(msg.GetState().GetReplacedCells(), cur.cell) {", "if !slices.Contains(msg.GetState().GetReplacedCells(), cur.cell) && msg.GetState() == nil {"},
	{"a state lasts for ever", proxyView, "<= celladmin.CopyKept {", "<= 1000*celladmin.CopyKept {"},
	{"what may have been done is tried again", proxyAttempt, "!errors.Is(err, errNotDone) && !forward.NeverSent(err) && !h.cl.changesNothing {", "!errors.Is(err, errNotDone) && !forward.NeverSent(err) && !h.cl.changesNothing && h == nil {"},
	{"what is let in while no node answers isn't waited for", proxyConfirm, "return !p.ending.Load() && p.view.loaded.Load() }", "return p.Ready() }"},
	{"a proxy that ends is waited for", proxyConfirm, "if p.ending.Load() && counted {", "if p.ending.Load() && counted && ctx == nil {"},
}

// cellMutations break what a cell knows of itself.
var cellMutations = []mutation{
	{"an entry with what nobody knows is taken", cellMachine, "if len(req.ProtoReflect().GetUnknown()) > 0 {", "if len(req.ProtoReflect().GetUnknown()) > 1<<20 {"},
	{"a change with what nobody knows is taken", cellMachine, "if c.GetChange() == nil || len(c.ProtoReflect().GetUnknown()) > 0 {", "if c.GetChange() == nil {"},
	{"a watch begins before it is reached", cellWatch, "if err := c.waitReached(ctx, afterIndex); err != nil {", "if err := c.waitReached(ctx, 0*afterIndex); err != nil {"},
	{"a cell without a leader confirms", cellWatch, "if owed++; owed > leaderlessMax {", "if owed++; owed > 1<<30 {"},
	{"who followed before a start is forgotten", cellWatchers, "c.watchers.settle(time.Now().Add(watcherReturn))", "c.watchers.settle(time.Now())"},
	{"a new node waits for who never followed it", cellWatchers, "if c.group.New() {", "if c.group.New() && c == nil {"},
	{"who breaks off is forgotten", cellWatchers, "|| now.Sub(p.left) > watcherReturn)", "|| now.Sub(p.left) >= 0)"},
	{"who breaks off is waited for for ever", cellWatchers, "|| now.Sub(p.left) > watcherReturn)", "|| now.Sub(p.left) > 1000*watcherReturn)"},
	{"a quorum may be removed", cellMembers, "if reachable < rest/2+1 {", "if reachable < 0*rest {"},
	{"leadership goes to who can't be reached", cellHandover, "if to == s.from || !n.GetReachable() || !mayLead(s.nodes, s.from, to, id) {", "if to == s.from || !mayLead(s.nodes, s.from, to, id) {"},
	{"leadership goes to who may not lead", cellHandover, "|| !mayLead(s.nodes, s.from, to, id) {", "{"},
}
