package main

const (
	nodeRecord     = "node/record.go"
	nodePeers      = "node/peercheck.go"
	nodeQuarantine = "node/quarantine.go"
	nodeRecover    = "node/recover.go"
	nodeRoom       = "node/room.go"
	nodeScrub      = "node/scrub.go"
	nodeStart      = "node/node.go"
)

// nodeMutations break whom a node takes itself for, what it does with a replica that can't be
// trusted, and what it does while its disk has no room.
var nodeMutations = []mutation{
	{"a node starts with another node's folder", nodeRecord, "if r.NodeID != n.cfg.ID {", `if r.NodeID == "" {`},
	{"a folder that was refused starts again", nodeRecord, `if r.Refused != "" {`, `if r.Refused != "" && r.NodeID == "" {`},
	{"a node starts in the middle of a recovery", nodeRecord, `if r.Recovering != "" {`, `if r.Recovering != "" && r.NodeID == "" {`},
	{"a node forgets votes with a log that is gone", nodeRecord, "\t\treturn errors.Join(fmt.Errorf(\"%w: folder %s has a state but no raft log\", ErrWiped, n.cfg.Dir), err)", ""},
	{"a node alone starts without its log", nodeRecord, "\tcase n.cfg.alone():\n", "\tcase n.cfg.alone() && err != nil:\n"},
	{"a refusal is forgotten", nodePeers, "r.Refused = objection.Error()", "_ = r"},
	{"an older copy of a folder takes part", nodePeers, "errors.Is(err, transport.ErrOtherFolder) || errors.Is(err, transport.ErrOlderCopy)", "errors.Is(err, transport.ErrOtherFolder)"},
	{"a removed node goes on", nodePeers, "return errors.Is(err, transport.ErrRemoved) || ", "return "},

	{"a group may end its process for ever", nodeQuarantine, "if r.Crashes >= crashesMax && ", "if r.Crashes > 1<<20 && "},
	{"crashes at other entries count", nodeQuarantine, "r.CrashedAt, r.Crashes = index, 0", "r.CrashedAt = index"},
	{"a quarantined replica still runs", nodeQuarantine, "\tq.n.groups.remove(id)\n\treturn g.Shutdown()", "\treturn nil"},
	{"a quarantined leader leads", nodeQuarantine, "\tg.Dispute(why) // It serves no more from here on.\n", ""},
	{"a restart forgets a quarantine", nodeQuarantine, "if err := q.n.log.SetNodeValue(quarantineName(id), b); err != nil {", "if err := q.n.log.SetNodeValue(\"other\", b); err != nil {"},
	{"a wrong copy of the cell's records stays in use", nodeQuarantine, "\tif id == cell.GroupID {\n\t\tq.n.end(", "\tif id == cell.GroupID && q == nil {\n\t\tq.n.end("},
	{"a disputed group serves", nodeQuarantine, "\tg.Dispute(why)\n\treturn nil", "\treturn nil"},
	{"a repair keeps the lists of before", nodeQuarantine, "return ok && rec.GetShard() != id", "return ok && rec.GetShard() != 0"},
	{"what is sound is repaired", nodeQuarantine, "if _, out := q.out(id); !out {", "if _, out := q.out(id); !out && q == nil {"},
	{"a repair doesn't wait for the start", nodeQuarantine, "if id != cell.GroupID {\n\t\tif err := q.wait", "if id == 0 {\n\t\tif err := q.wait"},

	{"a recovered cell keeps its id", nodeRecover, "r.NewCellID = NewCellID()", "r.NewCellID = r.OldCellID"},
	{"a recovery leaves the old voters", nodeRecover, "if err := group.MakeAlone(f.state.Group(g.Group), f.log.Group(g.Group), rec.NodeID); err != nil {", "if err := error(nil); err != nil {"},
	{"a recovery begins anew after an interruption", nodeRecover, `if rec.Recovering != "" { // It goes on where it was interrupted.`, `if rec.Recovering != "" && f == nil {`},
	{"a refused folder becomes a cell", nodeRecover, `if why := f.node.record.Refused; why != "" {`, `if why := f.node.record.Refused; why != "" && f == nil {`},
	{"what others had more is not told", nodeRecover, "Missing: committed - min(committed, s.Last)", "Missing: 0 * committed"},

	{"a quorum that depends on full disks takes jobs", nodeRoom, "if answer-len(tight) < quorum {", "if answer-len(tight) < 0*quorum {"},
	{"a quorum that depends on full disks grants leases", nodeRoom, "if answer-len(full) < quorum {", "if answer-len(full) < 0*quorum {"},
	{"voters that are away have no room", nodeRoom, "if !slices.Contains(voters, id) || !n.GetReachable() {", "if !slices.Contains(voters, id) {"},
	{"nodes that don't vote have no room", nodeRoom, "if !slices.Contains(voters, id) || !n.GetReachable() {", "if !n.GetReachable() {"},
	{"voters that have less room are asked less", nodeRoom, "n.GetReachable() && n.GetAmpleDisks()", "n.GetReachable()"},
	{"voters of other shards are known", nodeRoom, "now.Before(r.ampleUntil) && maps", "now.Before(r.ampleUntil) || maps"},
	{"ample room lasts for ever", nodeRoom, "r.ampleUntil = now.Add(ampleFor)", "r.ampleUntil = now.Add(1000 * ampleFor)"},
	{"the log is looked for where it isn't", nodeRoom, "\t\treturn fmt.Errorf(\"%w: its raft log is in %s: start it with --log-dir %s\", ErrFolder, known, known)\n", "\t\treturn nil\n"},

	{"damage that a scrub found is no reason", nodeScrub, `n.setIf(len(damaged) > 0, health.Damaged, strings.Join(damaged, ", "))`, "n.setIf(len(damaged) > 1<<20, health.Damaged, strings.Join(damaged, \", \"))"},
	{"a scrub skips the log", nodeScrub, "for _, dir := range []string{n.logDir(), filepath.Join(n.cfg.Dir, stateDir)} {", "for _, dir := range []string{filepath.Join(n.cfg.Dir, stateDir)} {"},
	{"a node takes part before it asks the others", nodeStart, "\tif err := n.vet(); err != nil {\n\t\treturn err\n\t}\n", ""},
}
