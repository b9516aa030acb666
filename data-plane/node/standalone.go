package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/cell"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/server"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/disk"
)

// A node alone has no control plane, so it creates the tenant and namespace that it
// serves and, if it checks keys, the first key.
const (
	aloneTenant    = "local"
	aloneNamespace = "default"
	keyFile        = "api-key"
	settleTimeout  = 30 * time.Second
)

// localReady reports whether the tenant of a node alone is there.
func (n *Node) localReady() bool {
	if n.cfg.Access == Signed {
		return true
	}
	_, ok := n.aloneNamespace()
	return ok
}

func (n *Node) aloneNamespace() (job.Namespace, bool) {
	v := n.cell.View()
	t, ok := v.TenantByName(aloneTenant)
	if !ok {
		return job.Namespace{}, false
	}
	rec, ok := v.NamespaceByName(t.GetId(), aloneNamespace)
	if !ok {
		return job.Namespace{}, false
	}
	ns, err := job.ParseNamespace(rec.GetId())
	return ns, err == nil
}

// SettleAlone creates tenant and namespace of a node alone if they do not exist.
// With Access Keys it returns an API key that may do everything, the same one after
// a restart, from a file that only its owner can read.
func (n *Node) SettleAlone(ctx context.Context) (key string, err error) {
	if why, out := n.quarantine.out(cell.GroupID); out && n.opened.Load() == nil {
		return "", fmt.Errorf("%w: %s", ErrQuarantined, why)
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := n.leadCell(ctx); err != nil {
		return "", err
	}
	if _, ok := n.aloneNamespace(); !ok {
		tenant := "tn_" + ulid.Make().String()
		err := n.apply(ctx,
			&cellv1.Change{Change: &cellv1.Change_Tenant{Tenant: &cellv1.Tenant{Id: tenant, Name: aloneTenant}}},
			&cellv1.Change{Change: &cellv1.Change_Namespace{Namespace: &cellv1.Namespace{
				Id: job.Namespace(ulid.Make()).String(), TenantId: tenant, Name: aloneNamespace,
			}}})
		if err != nil {
			return "", fmt.Errorf("make the local tenant: %w", err)
		}
	}
	if err := n.settleRetention(ctx); err != nil {
		return "", fmt.Errorf("set the retention: %w", err)
	}
	if n.cfg.Access != Keys {
		return "", nil
	}
	return n.aloneKey(ctx)
}

// settleRetention makes the namespace keep what the configuration of this start says.
func (n *Node) settleRetention(ctx context.Context) error {
	ns, _ := n.aloneNamespace()
	has, _ := n.cell.View().NamespaceByID(ns)
	if proto.Equal(has.GetRetention(), n.cfg.Retention.Message()) {
		return nil
	}
	rec := &cellv1.Namespace{Id: has.GetId(), TenantId: has.GetTenantId(), Name: has.GetName(), Shard: has.GetShard(), Retention: n.cfg.Retention.Message()}
	return n.apply(ctx, celladmin.NamespaceChange(rec))
}

// leadCell waits until this node leads the meta group, as a node alone soon does.
func (n *Node) leadCell(ctx context.Context) error {
	for {
		moved := n.cell.Group().LeadershipChanged()
		if n.cell.Group().Leading() {
			_, err := n.cell.WaitShards(ctx)
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("wait to lead the cell: %w", ctx.Err())
		}
	}
}

func (n *Node) apply(ctx context.Context, changes ...*cellv1.Change) error {
	_, err := n.cell.Apply(ctx, &cellv1.ApplyRequest{Changes: changes})
	return err
}

func (n *Node) aloneKey(ctx context.Context) (string, error) {
	path := filepath.Join(n.cfg.Dir, keyFile)
	b, err := os.ReadFile(path)
	if err == nil {
		text := strings.TrimSpace(string(b))
		k, err := apikey.Parse(text)
		if err != nil {
			return "", fmt.Errorf("%w: %s doesn't contain an API key: put the key back, or remove the file to get a new key", ErrKeyFile, path)
		}
		if _, known := n.cell.View().KeyByID(k.ID()); known {
			return text, nil
		}
		return text, n.storeAloneKey(ctx, k) // A crash came between the file and the cell.
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read first key: %w", err)
	}
	k, err := apikey.Generate(apikey.DataPlane)
	if err != nil {
		return "", fmt.Errorf("make first key: %w", err)
	}
	// The file comes first: a key that no file has would be lost. It stays if the cell doesn't
	// answer, because the cell may have the key; the next start stores it again.
	if err := disk.WriteFile(vfs.Default, path, []byte(k.Reveal()+"\n")); err != nil {
		return "", fmt.Errorf("keep first key: %w", err)
	}
	if err := n.storeAloneKey(ctx, k); err != nil {
		return "", err
	}
	return k.Reveal(), nil
}

func (n *Node) storeAloneKey(ctx context.Context, k apikey.Key) error {
	tenant, _ := n.cell.View().TenantByName(aloneTenant)
	digest := k.Digest()
	err := n.apply(ctx, &cellv1.Change{Change: &cellv1.Change_Key{Key: &cellv1.Key{
		Id: k.ID(), TenantId: tenant.GetId(), Digests: [][]byte{digest[:]},
		Name: "first key", Grants: celladmin.GrantsOf(permission.Grants{{Permissions: permission.OfLevel(permission.OfNamespace)}}),
	}}})
	if err != nil {
		return fmt.Errorf("store first key: %w", err)
	}
	return nil
}

// local allows everybody on this machine: it waits for the namespace and then is
// server.Open. It refuses other sites' pages in a browser on this machine.
type local struct {
	node    *Node
	limit   int
	open    atomic.Pointer[server.Open]
	browser http.CrossOriginProtection
}

// Authenticate implements server.Authenticator.
func (l *local) Authenticate(r *http.Request) (*server.Principal, error) {
	if !namesThisMachine(r.Host) || l.browser.Check(r) != nil {
		return nil, fault.New(fault.Forbidden, "CROSS_ORIGIN",
			"without API keys, this server only answers programs on this machine, at localhost or 127.0.0.1, and no pages of other sites; start it with --require-key to reach it from elsewhere")
	}
	o := l.open.Load()
	if o == nil {
		ns, ok := l.node.aloneNamespace()
		if !ok {
			return nil, fault.New(fault.Unavailable, "STARTING", "the server is starting; try again in a moment")
		}
		o = server.NewOpen(ns)
		l.open.Store(o)
	}
	p, err := o.Authenticate(r)
	if err == nil {
		p.Caller.PayloadBytesMax = l.limit
	}
	return p, err
}

// namesThisMachine refuses other host names: a site can point its own name here, so
// that its pages could act as this machine's user.
func namesThisMachine(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	// Only HTTP/1.0 requests have no host, and no browser sends those.
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// cellKeys looks keys up in the cell's state.
type cellKeys struct{ n *Node }

// LookupKey implements server.Keys.
func (c cellKeys) LookupKey(id string) (server.Key, bool, error) {
	v := c.n.cell.View()
	if v.Index() == 0 {
		return server.Key{}, false, fault.New(fault.Unavailable, "STARTING", "the server is starting; try again in a moment")
	}
	rec, ok := v.KeyByID(id)
	if !ok {
		return server.Key{}, false, nil
	}
	k := server.Key{
		Grants: celladmin.GrantsFrom(rec), Owner: rec.GetPrincipalId(), Revoked: rec.GetRevoked(),
		Namespaces: make(map[string]job.Namespace), Default: aloneNamespace, Networks: clientnet.NetworksOf(rec.GetCidrs()),
	}
	for i, d := range rec.GetDigests() {
		if ends := rec.GetDigestEndsNs(); i < len(ends) && ends[i] != 0 && time.Now().UnixNano() >= ends[i] {
			continue
		}
		if len(d) == sha256.Size {
			k.Digests = append(k.Digests, [sha256.Size]byte(d))
		}
	}
	if rec.GetNotAfterNs() != 0 {
		k.NotAfter = time.Unix(0, rec.GetNotAfterNs())
	}
	if ns, ok := v.NamespaceByName(rec.GetTenantId(), aloneNamespace); ok {
		id, err := job.ParseNamespace(ns.GetId())
		if err != nil {
			return server.Key{}, false, fmt.Errorf("namespace of key %s: %w", rec.GetId(), err)
		}
		k.Namespaces[aloneNamespace] = id
	}
	return k, true, nil
}
