package cloud_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// patience is how long a test waits: a dead loop holds what it claimed for half of it.
const patience = time.Minute

// churn makes and revokes keys of one tenant through control planes that come and go.
// Each call is repeated under its request id until it is answered, as the SDKs and
// Terraform do, and the answers are recorded in books.
type churn struct {
	t      *testing.T
	urls   []string // Of the control planes.
	token  string
	tenant rig.Tenant // With no key.
	// nodesDie: a read with a good key may find nobody to answer it, but never a refusal.
	nodesDie bool

	working sync.WaitGroup
	stopped chan struct{}

	mu sync.Mutex // Guards the rest.
	// live and revoked are the keys by id; a key that was never shown is "".
	live, revoked map[string]string
	repeated      int
}

// keyAnswer is the part of an answer about a key that tests look at.
type keyAnswer struct {
	APIKey keyShown `json:"apiKey"`
	Secret string   `json:"secret"`
}

type keyShown struct {
	ID                 string `json:"id"`
	Generation         string `json:"generation"`
	ObservedGeneration string `json:"observedGeneration"`
	RevokedAt          string `json:"revokedAt"`
}

// observed: the response says that every proxy has it.
func (k keyShown) observed() bool { return k.Generation == k.ObservedGeneration }

func startChurn(ctx context.Context, t *testing.T, nodesDie bool, done rig.SignedUp, urls ...string) *churn {
	t.Helper()
	c := &churn{
		t: t, nodesDie: nodesDie, urls: urls, token: done.Token, tenant: rig.NewTenant(done.TenantURL, ""), stopped: make(chan struct{}),
		live: make(map[string]string), revoked: make(map[string]string),
	}
	for i := range 4 {
		c.working.Go(func() { c.work(ctx, i) })
	}
	t.Cleanup(func() { c.stop() })
	return c
}

// stop returns when every call that was begun has its answer.
func (c *churn) stop() {
	select {
	case <-c.stopped:
	default:
		close(c.stopped)
	}
	c.working.Wait()
}

// A free tenant may make 300 keys a day: each worker paces itself, and stops before that.
const (
	keysEach  = 70
	keysEvery = 400 * time.Millisecond
)

func (c *churn) work(ctx context.Context, worker int) {
	for n := worker; n < worker+keysEach; n++ {
		select {
		case <-c.stopped:
			return
		case <-time.After(keysEvery):
		}
		if err := c.one(ctx, n); err != nil {
			c.t.Errorf("worker %d: %v", worker, err)
			return
		}
	}
}

// one makes a key, and revokes every other one.
func (c *churn) one(ctx context.Context, n int) error {
	made, err := c.create(ctx, n)
	if err != nil {
		return err
	}
	c.note(c.live, made.APIKey.ID, made.Secret)
	if made.Secret != "" && made.APIKey.observed() {
		if status, err := c.try(ctx, made.Secret); status != http.StatusOK && (!c.nodesDie || status == http.StatusUnauthorized) {
			return fmt.Errorf("key %s is confirmed and answered %d: %w", made.APIKey.ID, status, err)
		}
	}
	if n%2 == 0 {
		return nil
	}
	var ended keyAnswer
	if _, err := until(ctx, c.urls, n, c.token, "ApiKeyService/RevokeApiKey", map[string]any{"keyId": made.APIKey.ID}, &ended); err != nil {
		return err
	}
	c.mu.Lock()
	delete(c.live, made.APIKey.ID)
	c.mu.Unlock()
	c.note(c.revoked, made.APIKey.ID, made.Secret)
	if made.Secret == "" || !ended.APIKey.observed() {
		return nil
	}
	if status, err := c.try(ctx, made.Secret); status != http.StatusUnauthorized && (!c.nodesDie || status == http.StatusOK) {
		return fmt.Errorf("the end of key %s is confirmed and it answered %d: %w", made.APIKey.ID, status, err)
	}
	return nil
}

// create lets the service make every third key, and makes the others itself.
func (c *churn) create(ctx context.Context, n int) (made keyAnswer, _ error) {
	in := map[string]any{
		"requestId": uuid(), "name": fmt.Sprintf("churn %d", n), "kind": "KEY_KIND_JOBS", "namespaces": []string{"default"},
		"roles": []string{"producer", "viewer"},
	}
	var own apikey.Key
	if n%3 != 0 {
		var err error
		if own, err = apikey.Generate(apikey.DataPlane); err != nil {
			return made, err
		}
		digest := own.Digest()
		in["keyId"], in["digest"] = own.ID(), base64.StdEncoding.EncodeToString(digest[:])
	}
	tries, err := until(ctx, c.urls, n, c.token, "ApiKeyService/CreateApiKey", in, &made)
	if err != nil {
		return made, err
	}
	if tries > 1 {
		c.mu.Lock()
		c.repeated++
		c.mu.Unlock()
	}
	if !own.IsZero() {
		if made.APIKey.ID != own.ID() || made.Secret != "" {
			return made, fmt.Errorf("asked for key %s, got %s", own.ID(), made.APIKey.ID)
		}
		made.Secret = own.Reveal()
	} else if made.Secret == "" && tries == 1 {
		return made, fmt.Errorf("key %s was made without a secret", made.APIKey.ID)
	}
	return made, nil
}

func (c *churn) note(book map[string]string, id, secret string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	book[id] = secret
}

func (c *churn) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.live) + len(c.revoked)
}

// more waits until n more keys are in the books.
func (c *churn) more(n int) {
	c.t.Helper()
	before := c.count()
	eventually.NoError(c.t, patience, fmt.Sprintf("%d more keys", n), func() error {
		if now := c.count(); now < before+n {
			return fmt.Errorf("%d", now-before)
		}
		return nil
	})
}

// try is a read with a key.
func (c *churn) try(ctx context.Context, key string) (int, error) {
	return tryKey(ctx, c.tenant, key)
}

func tryKey(ctx context.Context, tenant rig.Tenant, key string) (int, error) {
	tenant.Key = key
	return tenant.Call(ctx, http.MethodGet, "/api/v1/queues", nil, nil)
}

// audit compares the books with what every control plane lists and what the proxies do.
func (c *churn) audit(ctx context.Context, signedUp int) {
	c.t.Helper()
	c.stop()
	for _, url := range c.urls {
		eventually.NoError(c.t, patience, "the list of "+url, func() error { return c.compare(ctx, url, signedUp) })
	}
	for id, secret := range c.live {
		if status, err := c.try(ctx, secret); secret != "" && status != http.StatusOK {
			c.t.Errorf("key %s: %d %v", id, status, err)
		}
	}
	for id, secret := range c.revoked {
		if status, _ := c.try(ctx, secret); secret != "" && status != http.StatusUnauthorized {
			c.t.Errorf("revoked key %s: %d", id, status)
		}
	}
	c.t.Logf("%d keys live, %d revoked, %d calls repeated", len(c.live), len(c.revoked), c.repeated)
}

// compare walks the list. It has the recorded keys and those of the sign-up.
func (c *churn) compare(ctx context.Context, url string, signedUp int) error {
	var wrong []error
	found := 0
	for token := ""; ; {
		var page struct {
			APIKeys       []keyShown `json:"apiKeys"`
			NextPageToken string     `json:"nextPageToken"`
		}
		in := map[string]any{"showRevoked": true, "pageSize": 50, "pageToken": token}
		if err := rig.NewAPI(url, c.token).Call(ctx, "ApiKeyService/ListApiKeys", in, &page); err != nil {
			return err
		}
		for _, k := range page.APIKeys {
			found++
			_, live := c.live[k.ID]
			_, revoked := c.revoked[k.ID]
			if live && k.RevokedAt != "" || revoked && k.RevokedAt == "" || !k.observed() {
				wrong = append(wrong, fmt.Errorf("key %s is at %s, observed %s, revoked %q", k.ID, k.Generation, k.ObservedGeneration, k.RevokedAt))
			}
		}
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	if want := len(c.live) + len(c.revoked) + signedUp; found != want {
		wrong = append(wrong, fmt.Errorf("%d keys, want %d", found, want))
	}
	return errors.Join(wrong...)
}

// until repeats a call at one control plane after the other until it is answered.
// It retries after a lost connection, 5xx, or a rate limit of the caller's network, which
// all these users behind one address share; any other refusal is an answer.
func until(ctx context.Context, urls []string, first int, token, procedure string, in, out any) (tries int, err error) {
	for {
		err = rig.NewAPI(urls[(first+tries)%len(urls)], token).Call(ctx, procedure, in, out)
		tries++
		if err == nil || ctx.Err() != nil {
			return tries, err
		}
		pause := 20 * time.Millisecond
		if refusal := new(rig.Refusal); errors.As(err, &refusal) {
			switch {
			case refusal.Status == http.StatusTooManyRequests && strings.Contains(refusal.Body, "TOO_MANY_REQUESTS"):
				pause = time.Second // As the refusal asks.
			case refusal.Status < http.StatusInternalServerError:
				return tries, err
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// signUpsMax keeps two of them below the hourly limit of a network.
const signUpsMax = 25

// signUps makes tenants, one after the other, until stop is closed, and gives the
// answers that arrived.
func signUps(ctx context.Context, t *testing.T, mails func(ctx context.Context, address string) (string, error), prefix string, stop <-chan struct{}, urls ...string) (made []rig.SignedUp) {
	t.Helper()
	for n := range signUpsMax {
		select {
		case <-stop:
			return made
		default:
		}
		name := fmt.Sprintf("%s-%d", prefix, n)
		done, err := signUpUntil(ctx, mails, name, n, urls)
		if err != nil {
			t.Errorf("sign up %s: %v", name, err)
			return made
		}
		if done.TenantID != "" {
			made = append(made, done)
		}
	}
	return made
}

// signUpUntil repeats both calls. If the response to the second was lost, the tenant
// exists and nobody knows its keys: the zero answer.
func signUpUntil(ctx context.Context, mails func(ctx context.Context, address string) (string, error), name string, n int, urls []string) (done rig.SignedUp, _ error) {
	in := map[string]any{"email": name + "@example.com", "tenant": name}
	if _, err := until(ctx, urls, n, "", "SignupService/Start", in, nil); err != nil {
		return done, err
	}
	for {
		token, err := mails(ctx, name+"@example.com")
		if err != nil {
			return done, err
		}
		tries, err := until(ctx, urls, n, "", "SignupService/Confirm", map[string]any{"token": token}, &done)
		switch {
		case err == nil:
			return done, nil
		case strings.Contains(err.Error(), "LINK_REPLACED") && ctx.Err() == nil:
			time.Sleep(100 * time.Millisecond) // The newer mail is on its way. Bounded by ctx.
		case strings.Contains(err.Error(), "LINK_USED") && tries > 1:
			return rig.SignedUp{}, nil
		default:
			return done, err
		}
	}
}

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // Never fails.
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
