package tenancy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	jobsKind   = cloudv1.KeyKind_KEY_KIND_JOBS
	manageKind = cloudv1.KeyKind_KEY_KIND_MANAGEMENT

	adminRole    = permission.RoleAdmin
	operatorRole = permission.RoleOperator
	producerRole = permission.RoleProducer
	workerRole   = permission.RoleWorker
	viewerRole   = permission.RoleViewer
)

func (w *world) keyFor(t *testing.T, ctx context.Context, r *cloudv1.CreateApiKeyRequest) *cloudv1.CreateApiKeyResponse {
	t.Helper()
	if r.GetName() == "" {
		r.Name = "ci"
	}
	return must(w.CreateApiKey(ctx, r))(t)
}

func (w *world) stored(t *testing.T, ctx context.Context, id string) (k store.Key) {
	t.Helper()
	err := w.Store.ReadTenant(t.Context(), access.From(ctx).TenantID, func(tx *store.Tx) (err error) {
		k, err = tx.GetKey(t.Context(), access.From(ctx).TenantID, id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestCreateApiKey_ShowsTheSecretOnceAndKeepsItsDigest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	r := &cloudv1.CreateApiKeyRequest{RequestId: uuid, Kind: jobsKind, Roles: []string{producerRole}}
	first := w.keyFor(t, ctx, r)
	key, err := apikey.Parse(first.GetSecret())
	if err != nil || key.ID() != first.GetApiKey().GetId() || key.Kind() != apikey.DataPlane || !strings.HasPrefix(first.GetSecret(), first.GetApiKey().GetPrefix()) {
		t.Fatalf("%v: %v", first, err)
	}
	digest := key.Digest()
	if k := w.stored(t, ctx, key.ID()); len(k.Versions) != 1 || !bytes.Equal(k.Versions[0].Digest, digest[:]) {
		t.Errorf("stored %v", k)
	}
	again := must(w.CreateApiKey(ctx, r))(t)
	if again.GetSecret() != "" || again.GetApiKey().GetId() != key.ID() {
		t.Errorf("the repeated call shows %v", again)
	}
	secret := first.GetSecret()[len(first.GetApiKey().GetPrefix()):]
	for _, m := range []proto.Message{
		must(w.GetApiKey(ctx, &cloudv1.GetApiKeyRequest{KeyId: key.ID()}))(t),
		must(w.ListApiKeys(ctx, &cloudv1.ListApiKeysRequest{}))(t),
		must(w.ListAuditEvents(ctx, &cloudv1.ListAuditEventsRequest{}))(t),
	} {
		if text := protojson.Format(m); strings.Contains(text, secret) || strings.Contains(text, "digest") {
			t.Errorf("shown again: %s", text)
		}
	}
}

func TestCreateApiKey_TakesOverAKeyThatTheCallerMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	made, err := apikey.Generate(apikey.Management)
	if err != nil {
		t.Fatal(err)
	}
	digest := made.Digest()
	r := &cloudv1.CreateApiKeyRequest{Kind: manageKind, Roles: []string{viewer}, KeyId: made.ID(), Digest: digest[:]}
	res := w.keyFor(t, ctx, r)
	if res.GetSecret() != "" || res.GetApiKey().GetId() != made.ID() {
		t.Errorf("%v", res)
	}
	_, err = w.CreateApiKey(ctx, r)
	refused(t, err, "KEY_EXISTS")
	other := w.tenant(t, "other", plans.First)(owner)
	_, err = w.CreateApiKey(other, r)
	refused(t, err, "KEY_EXISTS")
	for name, tc := range map[string]struct {
		id     string
		digest []byte
		field  string
	}{
		"id alone":         {made.ID(), nil, "digest"},
		"digest alone":     {"", digest[:], "key_id"},
		"short digest":     {made.ID(), digest[:31], "digest"},
		"a digest of zero": {made.ID(), make([]byte, sha256.Size), "digest"},
		"a wrong id":       {"key_../../etc", digest[:], "key_id"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.CreateApiKey(ctx, &cloudv1.CreateApiKeyRequest{Name: "x", Kind: manageKind, Roles: []string{viewer}, KeyId: tc.id, Digest: tc.digest})
			field(t, err, tc.field)
		})
	}
}

func TestCreateApiKey_RefusesFieldByField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	worker := []string{workerRole}
	for name, tc := range map[string]struct {
		r     *cloudv1.CreateApiKeyRequest
		field string
	}{
		"no name":                          {&cloudv1.CreateApiKeyRequest{Kind: jobsKind, Roles: worker}, "name"},
		"line break in the name":           {&cloudv1.CreateApiKeyRequest{Name: "a\nb", Kind: jobsKind, Roles: worker}, "name"},
		"no kind":                          {&cloudv1.CreateApiKeyRequest{Name: "a"}, "kind"},
		"jobs without owner and roles":     {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind}, "owner"},
		"an owner and roles":               {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind, Roles: worker, Owner: "ci"}, "roles"},
		"an unknown owner":                 {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind, Owner: "nobody"}, "owner"},
		"one's own for jobs":               {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind, Owner: "me"}, "kind"},
		"a personal one with roles":        {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: cloudv1.KeyKind_KEY_KIND_PERSONAL, Roles: worker}, "owner"},
		"an unknown role":                  {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind, Roles: []string{"king"}}, "roles[0]"},
		"an unknown permission":            {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind, Roles: worker, Permissions: []string{"job.rule"}}, "permissions[0]"},
		"no pattern":                       {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind, Roles: worker, Queues: []string{"*a"}}, "queues[0]"},
		"no network":                       {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind, Roles: worker, Cidrs: []string{"10.0.0.0/40"}}, "cidrs[0]"},
		"IPv4 as IPv6":                     {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind, Roles: worker, Cidrs: []string{"::ffff:10.0.0.0/104"}}, "cidrs[0]"},
		"ended before it begins":           {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind, Roles: worker, ExpiresAt: timestamppb.New(w.now)}, "expires_at"},
		"ends beyond what a cell can tell": {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind, Roles: worker, ExpiresAt: timestamppb.New(time.Date(2290, 1, 1, 0, 0, 0, 0, time.UTC))}, "expires_at"},
		"no time":                          {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind, Roles: worker, ExpiresAt: &timestamppb.Timestamp{Nanos: -1}}, "expires_at"},
		"too many namespaces":              {&cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind, Roles: worker, Namespaces: make([]string, 101)}, "namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.CreateApiKey(ctx, tc.r)
			field(t, err, tc.field)
		})
	}
	_, err := w.CreateApiKey(ctx, &cloudv1.CreateApiKeyRequest{Name: "a", Kind: jobsKind, Roles: worker, Namespaces: []string{"nowhere"}})
	refused(t, err, "NOT_FOUND")
}

func TestKeys_NobodyMakesOrTouchesABroaderOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := w.tenant(t, "acme", plans.First)
	jobs := func(r string) *cloudv1.CreateApiKeyRequest {
		return &cloudv1.CreateApiKeyRequest{Name: "k", Kind: jobsKind, Roles: []string{r}}
	}
	manage := func(r string) *cloudv1.CreateApiKeyRequest {
		return &cloudv1.CreateApiKeyRequest{Name: "k", Kind: manageKind, Roles: []string{r}}
	}
	for _, tc := range []struct {
		who  string
		key  *cloudv1.CreateApiKeyRequest
		good bool
	}{
		{owner, manage(owner), true}, {owner, manage(admin), true}, {owner, jobs(adminRole), true},
		{admin, manage(owner), false}, {admin, manage(admin), true}, {admin, jobs(adminRole), true},
		{developer, manage(owner), false}, {developer, manage(admin), false}, {developer, manage(developer), true}, {developer, manage(viewer), true},
		{developer, manage(permission.RoleAuditor), false},
		{developer, jobs(adminRole), false}, {developer, jobs(operatorRole), true}, {developer, jobs(producerRole), true}, {developer, jobs(workerRole), true}, {developer, jobs(viewerRole), true},
	} {
		t.Run(fmt.Sprintf("%v makes %v %v", tc.who, tc.key.GetKind(), tc.key.GetRoles()), func(t *testing.T) {
			_, err := w.CreateApiKey(people(tc.who), proto.Clone(tc.key).(*cloudv1.CreateApiKeyRequest))
			if tc.good {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			refused(t, err, "ABOVE_CALLER")
			id := w.keyFor(t, people(owner), proto.Clone(tc.key).(*cloudv1.CreateApiKeyRequest)).GetApiKey().GetId()
			_, err = w.RotateApiKey(people(tc.who), &cloudv1.RotateApiKeyRequest{KeyId: id})
			refused(t, err, "ABOVE_CALLER")
			_, err = w.RevokeApiKey(people(tc.who), &cloudv1.RevokeApiKeyRequest{KeyId: id})
			refused(t, err, "ABOVE_CALLER")
			_, err = w.UpdateApiKey(people(tc.who), &cloudv1.UpdateApiKeyRequest{KeyId: id, Name: "mine", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}}})
			refused(t, err, "ABOVE_CALLER")
		})
	}
	// A narrow key of a broad account cannot be broadened either.
	narrow := jobs(adminRole)
	narrow.Permissions = []string{"job.fetch"}
	small := w.keyFor(t, people(owner), narrow).GetApiKey().GetId()
	_, err := w.UpdateApiKey(people(developer), &cloudv1.UpdateApiKeyRequest{KeyId: small, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"permissions"}}})
	refused(t, err, "ABOVE_CALLER")
}

func TestRotateApiKey_TwoSecretsAtMostAndTheOldOneEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	id := w.keyFor(t, ctx, &cloudv1.CreateApiKeyRequest{Kind: jobsKind, Roles: []string{workerRole}}).GetApiKey().GetId()
	w.outbox(t)
	r := &cloudv1.RotateApiKeyRequest{KeyId: id, RequestId: uuid, OverlapSeconds: 3600}
	first := must(w.RotateApiKey(ctx, r))(t)
	key, err := apikey.Parse(first.GetSecret())
	if err != nil || key.ID() != id {
		t.Fatalf("%q: %v", first.GetSecret(), err)
	}
	if v := first.GetApiKey().GetVersions(); len(v) != 2 || v[0].GetExpiresAt().AsTime() != w.now.Add(time.Hour) || v[1].GetExpiresAt() != nil {
		t.Errorf("versions %v", v)
	}
	if again := must(w.RotateApiKey(ctx, r))(t); again.GetSecret() != "" || len(again.GetApiKey().GetVersions()) != 2 {
		t.Errorf("the repeated call: %v", again)
	}
	// The cell hears now, and again when the old secret ends.
	if rows := w.outbox(t); len(rows) != 2 || rows[0].DueAt != w.now && rows[1].DueAt != w.now || rows[0].DueAt != w.now.Add(time.Hour) && rows[1].DueAt != w.now.Add(time.Hour) {
		t.Errorf("outbox %v", rows)
	}
	_, err = w.RotateApiKey(ctx, &cloudv1.RotateApiKeyRequest{KeyId: id})
	refused(t, err, "ROTATION_UNDERWAY")
	w.now = w.now.Add(time.Hour)
	digest := sha256.Sum256([]byte("mine"))
	third := must(w.RotateApiKey(ctx, &cloudv1.RotateApiKeyRequest{KeyId: id, Digest: digest[:]}))(t)
	if v := third.GetApiKey().GetVersions(); len(v) != 1 || third.GetSecret() != "" {
		t.Errorf("without overlap: %v", third)
	}
	if k := w.stored(t, ctx, id); len(k.Versions) != 1 || !bytes.Equal(k.Versions[0].Digest, digest[:]) {
		t.Errorf("stored %v", k.Versions)
	}
	for _, tc := range []struct {
		r     *cloudv1.RotateApiKeyRequest
		field string
	}{
		{&cloudv1.RotateApiKeyRequest{KeyId: id, OverlapSeconds: -1}, "overlap_seconds"},
		{&cloudv1.RotateApiKeyRequest{KeyId: id, OverlapSeconds: 7*24*3600 + 1}, "overlap_seconds"},
		{&cloudv1.RotateApiKeyRequest{KeyId: id, Digest: []byte{1}}, "digest"},
		{&cloudv1.RotateApiKeyRequest{KeyId: id, Digest: digest[:]}, "digest"},
	} {
		_, err := w.RotateApiKey(ctx, tc.r)
		field(t, err, tc.field)
	}
}

func TestRevokeApiKey_IsForEverAndTwiceIsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	id := w.keyFor(t, ctx, &cloudv1.CreateApiKeyRequest{Kind: jobsKind, Roles: []string{workerRole}}).GetApiKey().GetId()
	first := must(w.RevokeApiKey(ctx, &cloudv1.RevokeApiKeyRequest{KeyId: id}))(t).GetApiKey()
	w.now = w.now.Add(time.Hour)
	again := must(w.RevokeApiKey(ctx, &cloudv1.RevokeApiKeyRequest{KeyId: id}))(t).GetApiKey()
	if first.GetSync() != cloudv1.Sync_SYNC_DELETING || !proto.Equal(first.GetRevokedAt(), again.GetRevokedAt()) || again.GetGeneration() != 2 {
		t.Errorf("%v, then %v", first, again)
	}
	_, err := w.RotateApiKey(ctx, &cloudv1.RotateApiKeyRequest{KeyId: id})
	refused(t, err, "KEY_REVOKED")
	_, err = w.UpdateApiKey(ctx, &cloudv1.UpdateApiKeyRequest{KeyId: id, Name: "x", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}}})
	refused(t, err, "KEY_REVOKED")
	if l := must(w.ListApiKeys(ctx, &cloudv1.ListApiKeysRequest{}))(t); len(l.GetApiKeys()) != 0 {
		t.Errorf("listed unasked: %v", l)
	}
	if l := must(w.ListApiKeys(ctx, &cloudv1.ListApiKeysRequest{ShowRevoked: true}))(t); len(l.GetApiKeys()) != 1 {
		t.Errorf("not listed though asked: %v", l)
	}
	_, err = w.RevokeApiKey(ctx, &cloudv1.RevokeApiKeyRequest{KeyId: "key_000000000000"})
	refused(t, err, "NOT_FOUND")
	if res := must(w.RevokeApiKey(ctx, &cloudv1.RevokeApiKeyRequest{KeyId: "key_000000000000", AllowMissing: true}))(t); res.GetApiKey() != nil {
		t.Errorf("%v", res)
	}
}

// Notices before the end of a key go by when the end was set.
func TestUpdateApiKey_KeepsWhenTheEndWasSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	ends := timestamppb.New(w.now.Add(48 * time.Hour))
	id := w.keyFor(t, ctx, &cloudv1.CreateApiKeyRequest{Kind: jobsKind, Roles: []string{workerRole}, ExpiresAt: ends}).GetApiKey().GetId()
	for _, tc := range []struct {
		path string
		ends time.Duration
		set  bool
	}{{"name", 0, false}, {"expires_at", 48 * time.Hour, false}, {"expires_at", 72 * time.Hour, true}} {
		r := &cloudv1.UpdateApiKeyRequest{KeyId: id, Name: "n", ExpiresAt: timestamppb.New(w.now.Add(tc.ends)), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{tc.path}}}
		must(w.UpdateApiKey(ctx, r))(t)
		k := must(store.Get(ctx, w.Store.ReadService, func(tx *store.Tx) (store.Key, error) { return tx.FindKey(ctx, id) }))(t)
		if set := k.EndSetAt.Equal(w.now); set != tc.set {
			t.Errorf("after a change of %s to %v, the end was set at %v", tc.path, tc.ends, k.EndSetAt)
		}
	}
}

func TestUpdateApiKey_MaskEtagAndExpiry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	ns := w.namespaceFor(t, ctx, "orders")
	made := w.keyFor(t, ctx, &cloudv1.CreateApiKeyRequest{Kind: jobsKind, Roles: []string{workerRole}, ExpiresAt: timestamppb.New(w.now.Add(time.Hour))}).GetApiKey()
	update := func(r *cloudv1.UpdateApiKeyRequest, paths ...string) (*cloudv1.ApiKey, error) {
		r.KeyId, r.UpdateMask = made.GetId(), &fieldmaskpb.FieldMask{Paths: paths}
		res, err := w.UpdateApiKey(ctx, r)
		return res.GetApiKey(), err
	}
	got := must(update(&cloudv1.UpdateApiKeyRequest{Name: "ignored", Namespaces: []string{"orders"}, Etag: made.GetEtag()}, "namespaces", "expires_at"))(t)
	if got.GetName() != "ci" || len(got.GetNamespaceIds()) != 1 || got.GetNamespaceIds()[0] != ns.GetId() || got.GetExpiresAt() != nil || got.GetGeneration() != 2 {
		t.Errorf("%v", got)
	}
	_, err := update(&cloudv1.UpdateApiKeyRequest{Name: "x", Etag: made.GetEtag()}, "name")
	refused(t, err, "ETAG_MISMATCH")
	_, err = update(&cloudv1.UpdateApiKeyRequest{}, "kind")
	field(t, err, "update_mask")
	_, err = update(&cloudv1.UpdateApiKeyRequest{Queues: []string{"a b"}}, "queues")
	field(t, err, "queues[0]")
}

func TestKeys_AnothersNamespaceIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	theirs := w.namespaceFor(t, w.tenant(t, "other", plans.First)(owner), "orders")
	id := w.keyFor(t, ctx, &cloudv1.CreateApiKeyRequest{Kind: jobsKind, Roles: []string{workerRole}}).GetApiKey().GetId()
	var said []string
	for _, namespace := range []string{theirs.GetId(), "ns_00000000000000000000000000", "orders"} {
		_, err := w.UpdateApiKey(ctx, &cloudv1.UpdateApiKeyRequest{KeyId: id, Namespaces: []string{namespace}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"namespaces"}}})
		said = append(said, refused(t, err, "NOT_FOUND").Message)
		_, err = w.CreateApiKey(ctx, &cloudv1.CreateApiKeyRequest{Name: "k", Kind: jobsKind, Roles: []string{workerRole}, Namespaces: []string{namespace}})
		said = append(said, refused(t, err, "NOT_FOUND").Message)
	}
	for _, m := range said {
		if m != said[0] {
			t.Errorf("%q tells more than %q", m, said[0])
		}
	}
	if k := w.stored(t, ctx, id); k.Generation != 1 {
		t.Errorf("a refused change left %v", k)
	}
}

// Revoked keys stay in the cell, which all tenants share.
func TestCreateApiKey_CreatingAndRevokingHasADailyLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	id := access.From(ctx).TenantID
	err := w.Store.Tenant(ctx, id, func(tx *store.Tx) error {
		for range freeKeysPerDay - 1 {
			if _, err := tx.CountRate(ctx, "make.keys:"+id, w.now.Truncate(24*time.Hour)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r := func() *cloudv1.CreateApiKeyRequest {
		return &cloudv1.CreateApiKeyRequest{Name: "ci", Kind: jobsKind, Roles: []string{producerRole}}
	}
	last := w.keyFor(t, ctx, r()).GetApiKey()
	must(w.RevokeApiKey(ctx, &cloudv1.RevokeApiKeyRequest{KeyId: last.GetId()}))(t)
	_, err = w.CreateApiKey(ctx, r())
	refused(t, err, "PLAN_LIMIT")
	w.keyFor(t, w.tenant(t, "globex", plans.First)(owner), r())
	w.now = w.now.Add(24 * time.Hour)
	w.keyFor(t, ctx, r())
}

// Proxies judge by the cell's time when the overlap is over.
func TestRotateApiKey_TheOverlapGoesByTheTimeOfTheCell(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{8 * time.Hour, -8 * time.Hour} {
		w := newWorld(t)
		w.ahead = ahead
		ctx := w.tenant(t, "acme", plans.First)(owner)
		id := w.keyFor(t, ctx, &cloudv1.CreateApiKeyRequest{Kind: jobsKind, Roles: []string{workerRole}}).GetApiKey().GetId()
		must(w.RotateApiKey(ctx, &cloudv1.RotateApiKeyRequest{KeyId: id, OverlapSeconds: 3600}))(t)
		if v := w.stored(t, ctx, id).Versions; len(v) != 2 || !v[0].ExpiresAt.Equal(w.cellNow().Add(time.Hour)) {
			t.Errorf("the cell is %s ahead: versions %v", ahead, v)
		}
	}
}

// A key makes no key that works longer, or from more networks, than itself.
func TestCreateApiKey_ByAKeyIsNoBroaderThanThatKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := w.tenant(t, "acme", plans.First)
	ends := w.now.Add(30 * 24 * time.Hour)
	made := must(w.CreateApiKey(people(owner), &cloudv1.CreateApiKeyRequest{
		Name: "terraform", Kind: manageKind, Roles: []string{owner}, ExpiresAt: timestamppb.New(ends), Cidrs: []string{"10.0.0.0/8"},
	}))(t).GetApiKey()
	c := access.From(people(owner))
	c.UserID, c.KeyID, c.OwnerID = "", made.GetId(), made.GetOwnerId()
	byKey := access.With(t.Context(), c)
	for name, tc := range map[string]struct {
		until time.Time
		from  []string
		field string
	}{
		"no end":            {time.Time{}, []string{"10.1.0.0/16"}, "expires_at"},
		"a later end":       {ends.Add(time.Second), []string{"10.1.0.0/16"}, "expires_at"},
		"from anywhere":     {ends, nil, "cidrs"},
		"from elsewhere":    {ends, []string{"10.1.0.0/16", "192.0.2.0/24"}, "cidrs"},
		"from a wider part": {ends, []string{"10.0.0.0/7"}, "cidrs"},
		"within":            {ends, []string{"10.1.0.0/16"}, ""},
	} {
		r := &cloudv1.CreateApiKeyRequest{Name: name, Kind: jobsKind, Roles: []string{workerRole}, Cidrs: tc.from}
		if !tc.until.IsZero() {
			r.ExpiresAt = timestamppb.New(tc.until)
		}
		_, err := w.CreateApiKey(byKey, r)
		if tc.field == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		field(t, err, tc.field)
	}
}

// A personal key is its owner's alone: whoever rotates it has it.
func TestRotateApiKey_APersonalOneIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := w.tenant(t, "acme", plans.First)
	c := access.From(people(viewer))
	c.UserID = "usr_01JD0000000000000000000001"
	k := store.Key{
		TenantID: c.TenantID, ID: "key_000000000001", Name: "laptop", Kind: cloudv1.KeyKind_KEY_KIND_PERSONAL, OwnerID: c.UserID, CreatedBy: c.UserID,
		Versions: []store.KeyVersion{{Digest: make([]byte, 32), CreatedAt: w.now}}, CreatedAt: w.now, UpdatedAt: w.now, Version: 1, Generation: 1,
	}
	err := w.Store.Tenant(t.Context(), c.TenantID, func(tx *store.Tx) error { return tx.InsertKey(t.Context(), k) })
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.RotateApiKey(people(owner), &cloudv1.RotateApiKeyRequest{KeyId: k.ID})
	refused(t, err, "PERSONAL_KEY")
	if _, err := w.RotateApiKey(access.With(t.Context(), c), &cloudv1.RotateApiKeyRequest{KeyId: k.ID}); err != nil {
		t.Errorf("by its owner: %v", err)
	}
}

// What a personal key may do is less where the sign-in policy stops it.
func TestGetApiKey_SaysWhatThePolicyLeavesOfAPersonalKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := w.tenant(t, "acme", plans.First)
	c := access.From(people(owner))
	u := store.User{ID: "usr_01JD0000000000000000000002", Email: "eve@example.com", CreatedAt: w.now}
	k := store.Key{
		TenantID: c.TenantID, ID: "key_000000000001", Name: "laptop", Kind: cloudv1.KeyKind_KEY_KIND_PERSONAL, OwnerID: u.ID, CreatedBy: u.ID,
		CreatedAt: w.now, UpdatedAt: w.now, Version: 1, Generation: 1,
	}
	err := w.Store.Service(t.Context(), func(tx *store.Tx) error {
		return errors.Join(tx.InsertUser(t.Context(), u), tx.InsertMembership(t.Context(), store.Membership{TenantID: c.TenantID, UserID: u.ID, CreatedAt: w.now, Version: 1}),
			tx.InsertBinding(t.Context(), store.Binding{TenantID: c.TenantID, ID: "bnd_eve", PrincipalID: u.ID, RoleID: "role_worker", CreatedAt: w.now}),
			tx.InsertKey(t.Context(), k), tx.InsertSignInPolicy(t.Context(), store.SignInPolicy{TenantID: c.TenantID, Version: 1}))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		policy        store.SignInPolicy
		stopped, some bool
	}{
		{store.SignInPolicy{}, false, true},
		{store.SignInPolicy{NoPersonalKeys: true}, true, true},
		{store.SignInPolicy{RequireSSO: true}, true, false},
	} {
		err := w.Store.Tenant(t.Context(), c.TenantID, func(tx *store.Tx) error {
			p, err := tx.GetSignInPolicy(t.Context(), c.TenantID)
			tc.policy.TenantID, tc.policy.Version = c.TenantID, p.Version
			return errors.Join(err, tx.UpdateSignInPolicy(t.Context(), &tc.policy))
		})
		if err != nil {
			t.Fatal(err)
		}
		got := must(w.GetApiKey(people(owner), &cloudv1.GetApiKeyRequest{KeyId: k.ID}))(t).GetApiKey()
		if got.GetStoppedForJobs() != tc.stopped || len(got.GetEffective()) > 0 != tc.some {
			t.Errorf("policy %+v: stopped %v, may %v", tc.policy, got.GetStoppedForJobs(), got.GetEffective())
		}
	}
}
