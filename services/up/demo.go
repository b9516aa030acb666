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

	"github.com/corvo-cloud/corvo/control-plane/server"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/services/datadir"
)

const (
	demoTenant = "demo"
	// demoEmail belongs to nobody: its mails end in the mailbox of this process.
	demoEmail       = "demo@corvo.localhost"
	secretFile      = "cell.secret"
	masterFile      = "control.key"
	credentialsFile = "credentials.json"
	shapeFile       = "shape"
	// cellFile keeps the id of the cell, formedFile says that every node has it.
	cellFile    = "cell.id"
	formedFile  = "formed"
	secretBytes = 32
)

// credentials are for development: the one place where keys are kept as they are.
type credentials struct {
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`
	APIKey    string `json:"api_key"`
	// Token manages the tenant; files of before the control plane lack it.
	Token string `json:"token"`
	// The ids are kept for a cell that outlives the control plane's database.
	TenantID    string `json:"tenant_id"`
	NamespaceID string `json:"namespace_id"`

	key, token apikey.Key
}

// secrets makes or reads what the parts of this data directory share.
func (s *Service) secrets() error {
	if _, err := keep(s.dir.Join(secretFile), newSecret); err != nil {
		return err
	}
	raw, err := cellsecret.ReadFile(s.dir.Join(secretFile)) // As --cell-secret-file does.
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCellSecret, err)
	}
	if s.cellSecrets, err = cellsecret.New(raw...); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCellSecret, s.dir.Join(secretFile), err)
	}
	go s.cellSecrets.Follow(s.life, s.dir.Join(secretFile), s.log) // Ends with the service.
	master, err := keep(s.dir.Join(masterFile), newSecret)
	if err != nil {
		return err
	}
	// The same lines that --master-key-file reads, so that the key can be changed.
	if s.masters, err = server.ParseMasterKeys(master); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMasterKeys, s.dir.Join(masterFile), err)
	}
	return nil
}

func newSecret() ([]byte, error) {
	var b [secretBytes]byte
	rand.Read(b[:])
	return []byte(hex.EncodeToString(b[:]) + "\n"), nil
}

// credentials makes or reads the keys of the demo tenant. They are on disk before
// anybody hears of them: a key that nobody knows would be of no use.
func (s *Service) credentials() (credentials, error) {
	path := s.dir.Join(credentialsFile)
	text, err := keep(path, func() ([]byte, error) { return complete(credentials{}) })
	if err != nil {
		return credentials{}, err
	}
	var c credentials
	if err := json.Unmarshal(text, &c); err != nil {
		return credentials{}, fmt.Errorf("read %s: %w", path, err)
	}
	if c.Token == "" || c.TenantID == "" {
		if text, err = complete(c); err != nil {
			return credentials{}, err
		}
		if err := datadir.WriteFile(path, text); err != nil {
			return credentials{}, err
		}
		return s.credentials()
	}
	var errToken error
	c.key, err = apikey.Parse(c.APIKey)
	c.token, errToken = apikey.Parse(c.Token)
	if err := errors.Join(err, errToken); err != nil {
		return credentials{}, fmt.Errorf("keys in %s: %w", path, err)
	}
	return c, nil
}

// complete makes the keys that are missing.
func complete(c credentials) ([]byte, error) {
	c.Tenant, c.Namespace = demoTenant, celladmin.DefaultNamespace
	if c.TenantID == "" {
		c.TenantID = celladmin.NewTenant(c.Tenant).GetId()
		c.NamespaceID = celladmin.NewNamespace(c.TenantID, c.Namespace).GetId()
	}
	for _, missing := range []struct {
		key  *string
		kind apikey.Kind
	}{{&c.APIKey, apikey.DataPlane}, {&c.Token, apikey.Management}} {
		if *missing.key != "" {
			continue
		}
		k, err := apikey.Generate(missing.kind)
		if err != nil {
			return nil, fmt.Errorf("make the demo keys: %w", err)
		}
		*missing.key = k.Reveal()
	}
	text, err := json.MarshalIndent(c, "", "  ")
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

// settle tells the cell where its nodes are at this start.
func settle(ctx context.Context, admin *celladmin.Client, nodes []node.Peer) (*cellv1.State, error) {
	var moved []*cellv1.Change
	for _, n := range nodes {
		moved = append(moved, celladmin.NodeChange(&cellv1.Node{Id: n.ID, RaftAddress: n.RaftAddress, ApiUrl: n.APIURL}))
	}
	index, err := admin.Apply(ctx, moved...)
	if err != nil {
		return nil, fmt.Errorf("tell the cell where its nodes are: %w", err)
	}
	// Behind the change above lies everything that was acknowledged before.
	return admin.StateAt(ctx, index)
}

// seed is the demo tenant as the control plane shall know it. A cell that has it
// already, from before there was a control plane, keeps its ids and so its jobs.
func seed(s *cellv1.State, creds credentials) (server.Seed, error) {
	out := server.Seed{
		Tenant: creds.Tenant, TenantID: creds.TenantID, Namespace: creds.Namespace, NamespaceID: creds.NamespaceID,
		Email: demoEmail, Keys: []apikey.Key{creds.key, creds.token},
	}
	tenant, err := celladmin.FindTenant(s, creds.Tenant)
	if errors.Is(err, celladmin.ErrNotFound) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.TenantID = tenant.GetId()
	namespace, err := celladmin.FindNamespace(s, out.TenantID, creds.Namespace)
	if errors.Is(err, celladmin.ErrNotFound) {
		return out, nil
	}
	out.NamespaceID = namespace.GetId()
	return out, err
}
