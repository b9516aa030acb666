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

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// sightingsPart is how many sightings one answer has at most.
const sightingsPart = 5000

// sightings are what proxies told this node about keys since its start, in memory. Readers
// hold a cursor each, and of a key only the newest use counts, so that everything may be told
// and read again.
type sightings struct {
	boot string // Of this run: cursors of another one say nothing.

	mu   sync.Mutex
	last uint64               // Number of the newest sighting. Guarded by mu, as is uses.
	uses map[secretOfKey]used // Of keys that the cell has; pruned on reading.
}

type secretOfKey struct{ key, digest string }

type used struct {
	atNS   int64
	number uint64
}

func newSightings() *sightings {
	var b [8]byte
	rand.Read(b[:])
	return &sightings{boot: hex.EncodeToString(b[:]), uses: make(map[secretOfKey]used)}
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
	type numbered struct {
		*cellv1.KeyUse
		number uint64
	}
	var found []numbered
	for secret, u := range s.uses {
		tenant := tenantOf(v, secret)
		switch {
		case tenant == "":
			delete(s.uses, secret)
		case u.number > from:
			found = append(found, numbered{&cellv1.KeyUse{KeyId: secret.key, Digest: []byte(secret.digest), AtNs: u.atNS, TenantId: tenant}, u.number})
		}
	}
	slices.SortFunc(found, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	out := &cellv1.NodeSightings{More: len(found) > most}
	to := s.last
	if out.GetMore() {
		found = found[:most]
		to = found[most-1].number
	}
	for _, u := range found {
		out.Uses = append(out.Uses, u.KeyUse)
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

// Sightings asks all nodes at once what proxies told them. A node that is silent keeps what it
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
	out := m.cell.sightings.after(m.cell.View(), cursors[m.cell.NodeID()], sightingsPart)
	out.NodeId = m.cell.NodeID()
	return out
}
