package cell

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/sampled"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

const (
	// sightingsPart is how many sightings one answer has at most.
	sightingsPart = 5000
	// refusalsMax are kept, the newest, and each for refusalsKept: whoever reads them is
	// rarely away for longer, and must not be told of those that its log has deleted.
	refusalsMax  = 10_000
	refusalsKept = 7 * 24 * time.Hour
	// refusedKindsMax is how many kinds of refusals of one tenant are counted at a time.
	refusedKindsMax = 1000
)

// sightings are what proxies told this node since its start about keys and refusals, and what
// it refused itself, in memory. Readers hold a cursor each, of a key only the newest use counts,
// and a refusal has an id, so that everything may be told and read again.
type sightings struct {
	boot   string // Of this run: cursors of another one say nothing.
	now    func() time.Time
	counts *sampled.Counter[Refusal, string] // Of this node's own, with the address of the first.

	mu       sync.Mutex
	last     uint64               // Number of the newest sighting. Guarded by mu, as is what follows.
	uses     map[secretOfKey]used // Of keys that the cell has; pruned on reading.
	refusals []refused            // Oldest first.
}

// Refusal is what somebody may not do on this node.
type Refusal struct {
	Tenant     string
	Namespace  job.Namespace
	Principal  string
	Permission permission.Permission
	Queue      string // Empty: anywhere in the namespace.
}

type refused struct {
	*cellv1.Refusal
	number  uint64
	takenAt time.Time
}

type secretOfKey struct{ key, digest string }

type used struct {
	atNS   int64
	number uint64
}

func newSightings() *sightings {
	var b [8]byte
	rand.Read(b[:])
	s := &sightings{boot: hex.EncodeToString(b[:]), now: time.Now, uses: make(map[secretOfKey]used)}
	s.counts = sampled.New(func() time.Time { return s.now() }, refusedKindsMax, func(r Refusal, peer string) (Refusal, string) {
		r.Tenant, r.Principal, r.Queue = strings.Clone(r.Tenant), strings.Clone(r.Principal), strings.Clone(r.Queue)
		return r, strings.Clone(peer)
	})
	return s
}

// NoteRefusal counts what a caller at an address was refused, for its tenant's audit log.
func (c *Cell) NoteRefusal(r Refusal, peer string) {
	if r.Tenant != "" {
		c.sightings.counts.Note(r.Tenant, r, peer)
	}
}

// take notes uses of secrets that keys of the cell have, which bounds what is kept.
func (s *sightings) take(v *View, uses []*cellv1.KeyUse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range uses {
		secret := secretOfKey{u.GetKeyId(), string(u.GetDigest())}
		if tenantOf(v, secret) == "" || u.GetAtNs() <= s.uses[secret].atNS {
			continue
		}
		s.last++
		s.uses[secret] = used{u.GetAtNs(), s.last}
	}
}

// takeRefusals notes refusals of tenants that the cell has.
func (s *sightings) takeRefusals(v *View, told []*cellv1.Refusal) {
	s.keep(slices.DeleteFunc(told, func(r *cellv1.Refusal) bool { _, ok := v.TenantByID(r.GetTenantId()); return !ok }))
}

// takeOwn notes what this node refused itself, as far as it is due.
func (s *sightings) takeOwn() {
	var due []*cellv1.Refusal
	for _, c := range s.counts.Take() {
		due = append(due, &cellv1.Refusal{
			Id: rand.Text(), TenantId: c.Kind.Tenant, NamespaceId: c.Kind.Namespace.String(), Principal: c.Kind.Principal, Peer: c.First,
			Permission: c.Kind.Permission.String(), Queue: c.Kind.Queue, Times: int64(c.Times), SinceNs: c.Since.UnixNano(),
		})
	}
	s.keep(due)
}

// keep adds refusals, and drops those that are too old or too many.
func (s *sightings) keep(list []*cellv1.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, r := range list {
		s.last++
		s.refusals = append(s.refusals, refused{r, s.last, now})
	}
	drop := max(len(s.refusals)-refusalsMax, 0)
	for drop < len(s.refusals) && now.Sub(s.refusals[drop].takenAt) > refusalsKept {
		drop++
	}
	s.refusals = slices.Delete(s.refusals, 0, drop)
}

// tenantOf is whose key has the secret; empty if none has.
func tenantOf(v *View, secret secretOfKey) string {
	k, ok := v.KeyByID(secret.key)
	if !ok || !slices.ContainsFunc(k.GetDigests(), func(d []byte) bool { return string(d) == secret.digest }) {
		return ""
	}
	return k.GetTenantId()
}

// after is what was noted since a cursor, oldest first.
func (s *sightings) after(v *View, cursor string, most int) *cellv1.NodeSightings {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.position(cursor)
	// Exactly one of the two is set.
	type numbered struct {
		use     *cellv1.KeyUse
		refusal *cellv1.Refusal
		number  uint64
	}
	var found []numbered
	for secret, u := range s.uses {
		tenant := tenantOf(v, secret)
		switch {
		case tenant == "":
			delete(s.uses, secret)
		case u.number > from:
			found = append(found, numbered{use: &cellv1.KeyUse{KeyId: secret.key, Digest: []byte(secret.digest), AtNs: u.atNS, TenantId: tenant}, number: u.number})
		}
	}
	for _, r := range s.refusals {
		if r.number > from {
			found = append(found, numbered{refusal: r.Refusal, number: r.number})
		}
	}
	slices.SortFunc(found, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	out := &cellv1.NodeSightings{More: len(found) > most}
	to := s.last
	if out.GetMore() {
		found = found[:most]
		to = found[most-1].number
	}
	for _, f := range found {
		if f.use != nil {
			out.Uses = append(out.Uses, f.use)
		} else {
			out.Refusals = append(out.Refusals, f.refusal)
		}
	}
	out.Cursor = s.boot + ":" + strconv.FormatUint(to, 10)
	return out
}

// position is 0 for a cursor of another run, or none.
func (s *sightings) position(cursor string) uint64 {
	boot, number, _ := strings.Cut(cursor, ":")
	if boot != s.boot {
		return 0
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Sightings asks all nodes at once what proxies told them, and what they refused. A node that is silent keeps what it
// has, and its cursor stays where it is.
func (m *Membership) Sightings(ctx context.Context, cursors map[string]string) []*cellv1.NodeSightings {
	nodes := m.cell.View().Nodes()
	answers := make([]*cellv1.NodeSightings, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() {
			var err error
			if answers[i], err = m.sightingsOf(ctx, n, cursors); err != nil {
				m.logger.Debug("ask a node for its sightings", "node", n.GetId(), "err", err)
			}
		})
	}
	asked.Wait()
	return slices.DeleteFunc(answers, func(s *cellv1.NodeSightings) bool { return s == nil })
}

func (m *Membership) sightingsOf(ctx context.Context, n *cellv1.Node, cursors map[string]string) (*cellv1.NodeSightings, error) {
	if n.GetId() == m.cell.NodeID() {
		return m.ownSightings(cursors), nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	client, _ := m.peers.of(n)
	res, err := client.ListSightings(ctx, connect.NewRequest(&cellv1.ListSightingsRequest{Cursors: cursors, Local: true}))
	if err != nil {
		return nil, Fault(err)
	}
	for _, s := range res.Msg.GetNodes() {
		return s, nil
	}
	return nil, nil
}

func (m *Membership) ownSightings(cursors map[string]string) *cellv1.NodeSightings {
	m.cell.sightings.takeOwn()
	out := m.cell.sightings.after(m.cell.View(), cursors[m.cell.NodeID()], sightingsPart)
	out.NodeId = m.cell.NodeID()
	return out
}
