package up

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/services/celladmin"
	"github.com/corvo-cloud/corvo/services/datadir"
)

const (
	demoTenant      = "demo"
	secretFile      = "cell.secret"
	credentialsFile = "credentials.json"
	shapeFile       = "shape"
	formedFile      = "formed"
	secretBytes     = 32
)

// credentials are for development: the one place where a key is kept as it is.
type credentials struct {
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`
	APIKey    string `json:"api_key"`

	key apikey.Key
}

// credentials makes or reads the secrets of this data directory. They are on disk
// before the cell hears of them: a key that nobody knows would be of no use.
func (s *Service) credentials() (credentials, error) {
	text, err := keep(s.dir.Join(secretFile), func() ([]byte, error) {
		var b [secretBytes]byte
		rand.Read(b[:])
		return []byte(hex.EncodeToString(b[:]) + "\n"), nil
	})
	if err != nil {
		return credentials{}, err
	}
	// The same bytes that --cell-secret-file reads.
	s.secret = []byte(strings.TrimSpace(string(text)))
	text, err = keep(s.dir.Join(credentialsFile), newCredentials)
	if err != nil {
		return credentials{}, err
	}
	var c credentials
	if err := json.Unmarshal(text, &c); err != nil {
		return credentials{}, fmt.Errorf("read %s: %w", s.dir.Join(credentialsFile), err)
	}
	if c.key, err = apikey.Parse(c.APIKey); err != nil {
		return credentials{}, fmt.Errorf("key in %s: %w", s.dir.Join(credentialsFile), err)
	}
	return c, nil
}

func newCredentials() ([]byte, error) {
	k, err := apikey.Generate(apikey.DataPlane)
	if err != nil {
		return nil, fmt.Errorf("make the demo key: %w", err)
	}
	text, err := json.MarshalIndent(credentials{Tenant: demoTenant, Namespace: celladmin.DefaultNamespace, APIKey: k.Reveal()}, "", "  ")
	return append(text, '\n'), err
}

// keep reads a file, or makes it on first use.
func keep(path string, content func() ([]byte, error)) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	if text, err = content(); err != nil {
		return nil, err
	}
	return text, datadir.WriteFile(path, text)
}

// settle tells the cell where its nodes are at this start, and makes what is
// missing of the demo tenant. What is there stays as it is: a revoked key stays
// revoked.
func settle(ctx context.Context, admin *celladmin.Client, nodes []node.Peer, creds credentials) error {
	var moved []*cellv1.Change
	for _, n := range nodes {
		moved = append(moved, celladmin.NodeChange(&cellv1.Node{Id: n.ID, RaftAddress: n.RaftAddress, ApiUrl: n.APIURL}))
	}
	index, err := admin.Apply(ctx, moved...)
	if err != nil {
		return fmt.Errorf("tell the cell where its nodes are: %w", err)
	}
	// Behind the change above lies everything that was acknowledged before.
	state, err := admin.StateAt(ctx, index)
	if err != nil {
		return err
	}
	missing, err := missing(state, creds)
	if err != nil || len(missing) == 0 {
		return err
	}
	if _, err := admin.Apply(ctx, missing...); err != nil {
		return fmt.Errorf("make the tenant %s: %w", creds.Tenant, err)
	}
	return nil
}

func missing(s *cellv1.State, creds credentials) ([]*cellv1.Change, error) {
	var out []*cellv1.Change
	tenant, err := celladmin.FindTenant(s, creds.Tenant)
	if errors.Is(err, celladmin.ErrNotFound) {
		tenant, err = celladmin.NewTenant(creds.Tenant), nil
		out = append(out, celladmin.TenantChange(tenant))
	}
	if err != nil {
		return nil, err
	}
	if _, err := celladmin.FindNamespace(s, tenant.GetId(), creds.Namespace); err != nil {
		out = append(out, celladmin.NamespaceChange(celladmin.NewNamespace(tenant.GetId(), creds.Namespace)))
	}
	if _, err := celladmin.FindKey(s, creds.key.ID()); err != nil {
		out = append(out, celladmin.KeyChange(celladmin.KeyRecord(creds.key, tenant.GetId(), "development", nil, []string{identity.RoleAdmin})))
	}
	return out, nil
}
