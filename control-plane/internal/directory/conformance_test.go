package directory

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/scim"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// client is a directory that calls, with its token.
type client struct {
	*cloudtest.World
	t      testing.TB
	s      *Service
	url    string
	token  string
	tenant store.Tenant
	owner  store.User
	conn   store.Connection
}

// newClient makes a tenant with a connection whose directory has a token.
func newClient(t testing.TB, w *cloudtest.World, s *Service, name string) *client {
	t.Helper()
	c := &client{World: w, t: t, s: s}
	c.tenant, c.owner = w.Tenant(t, name, "owner@"+name+".test")
	c.conn = store.Connection{
		TenantID: c.tenant.ID, ID: w.IDs.New(ids.Connection, w.Now()), Name: "Okta", Issuer: "https://idp.test", ClientID: "corvo", DefaultRole: rights.FixedID(permission.RoleViewer),
		Enabled: true, Settings: 1, Tested: 1, CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1,
	}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertConnection(ctx, c.conn) })
	c.token = c.newToken().GetSecret()
	web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r = r.WithContext(access.With(r.Context(), access.Caller{RequestID: "req_test", Peer: "203.0.113.9"}))
		s.Handler().ServeHTTP(rw, r)
	}))
	t.Cleanup(web.Close)
	c.url = web.URL + scim.Base
	return c
}

func newService(w *cloudtest.World) *Service { return New(w.Kit) }

func (c *client) asOwner() context.Context {
	ctx, _ := c.As(c.t, c.tenant, c.owner, permission.RoleOwner)
	return ctx
}

func (c *client) newToken() *cloudv1.CreateScimTokenResponse {
	c.t.Helper()
	res, err := c.s.CreateScimToken(c.asOwner(), &cloudv1.CreateScimTokenRequest{ConnectionId: c.conn.ID})
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

// answer is what a call got.
type answer struct {
	status int
	etag   string
	body   map[string]any
}

func (a answer) text(name string) string { s, _ := a.body[name].(string); return s }

func (c *client) try(method, path, body string, headers ...string) (answer, error) {
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", scim.ContentType)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	raw, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	a := answer{status: res.StatusCode, etag: res.Header.Get("ETag")}
	if len(raw) > 0 && err == nil {
		err = json.Unmarshal(raw, &a.body)
	}
	return a, err
}

// do makes a call that must end with a status.
func (c *client) do(want int, method, path, body string, headers ...string) answer {
	c.t.Helper()
	a, err := c.try(method, path, body, headers...)
	if err != nil {
		c.t.Fatal(err)
	}
	if a.status != want {
		c.t.Fatalf("%s %s %s: %d %v, want %d", method, path, body, a.status, a.body, want)
	}
	return a
}

func filter(text string) string { return "?filter=" + url.QueryEscape(text) }

func (c *client) patch(want int, path string, operations string, headers ...string) answer {
	c.t.Helper()
	return c.do(want, "PATCH", path, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[`+operations+`]}`, headers...)
}

func (c *client) user(name string) string {
	c.t.Helper()
	return c.do(201, "POST", "/Users", fmt.Sprintf(`{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":%q,"externalId":"ext-%s","active":true}`, name, name)).text("id")
}

func (c *client) groupOf(name string, members ...string) string {
	c.t.Helper()
	list := []any{}
	for _, m := range members {
		list = append(list, map[string]any{"value": m})
	}
	raw, _ := json.Marshal(map[string]any{"displayName": name, "members": list})
	return c.do(201, "POST", "/Groups", string(raw)).text("id")
}

func (c *client) total(path string) int {
	c.t.Helper()
	n, _ := c.do(200, "GET", path, "").body["totalResults"].(float64)
	return int(n)
}

// roles are those that a user has in the tenant now; nil: is no member.
func (c *client) roles(userID string) (out []string) {
	c.t.Helper()
	c.Service(c.t, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.GetMembership(ctx, c.tenant.ID, userID); err != nil {
			return nil
		}
		may, err := rights.Of(ctx, tx, c.tenant.ID, userID)
		out = append([]string{}, may.Roles...)
		return err
	})
	return out
}

// bind gives a role to a group, as people do.
func (c *client) bind(groupID, role string) {
	c.t.Helper()
	c.Service(c.t, func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertBinding(ctx, store.Binding{TenantID: c.tenant.ID, ID: c.IDs.New(ids.Binding, c.Now()), PrincipalID: groupID, RoleID: rights.FixedID(role), CreatedAt: c.Now()})
	})
}

// The requests of Okta's SCIM 2.0 tests and of its life cycle of a user.
func TestOkta_RequestsEndAsItExpects(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		c := newClient(t, w, newService(w), "acme")
		c.do(200, "GET", "/Users?startIndex=1&count=2", "")
		c.do(404, "GET", "/Users/010101001010101011001010101011", "")
		name := "okta.user@acme.test"
		if n := c.total("/Users" + filter(`userName eq "`+name+`"`)); n != 0 {
			t.Errorf("%d users", n)
		}
		create := `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"` + name + `","name":{"givenName":"Ok","familyName":"Ta"},
			"emails":[{"primary":true,"value":"okta.user@acme.test","type":"work"}],"displayName":"Ok Ta","locale":"en-US","externalId":"00u1","groups":[],"password":"1mz050nq","active":true}`
		made := c.do(201, "POST", "/Users", create)
		id := made.text("id")
		if made.body["password"] != nil || !ids.Is(ids.User, id) || made.body["active"] != true || c.roles(id) == nil {
			t.Errorf("made %v, roles %v", made.body, c.roles(id))
		}
		if a := c.do(409, "POST", "/Users", create); a.text("scimType") != "uniqueness" {
			t.Errorf("a second one: %v", a.body)
		}
		c.do(409, "POST", "/Users", strings.Replace(create, name, "OKTA.User@acme.test", 1))
		if n := c.total("/Users" + filter(`userName eq "`+strings.ToUpper(name)+`"`)); n != 1 {
			t.Errorf("%d users", n)
		}
		group := c.groupOf("Engineering")
		c.bind(group, permission.RoleDeveloper)
		c.patch(204, "/Groups/"+group, `{"op":"add","path":"members","value":[{"value":"`+id+`","display":"`+name+`"}]}`)
		if got := fmt.Sprint(c.roles(id)); got != "[developer viewer]" {
			t.Errorf("roles %s", got)
		}
		c.do(200, "PUT", "/Users/"+id, strings.Replace(create, `"Ok Ta"`, `"Renamed"`, 1))
		a := c.patch(200, "/Users/"+id, `{"op":"replace","value":{"active":false}}`)
		if a.body["active"] != false || c.roles(id) != nil {
			t.Errorf("deactivated: %v, roles %v", a.body, c.roles(id))
		}
		if got := c.do(200, "GET", "/Groups/"+group, ""); len(got.body["members"].([]any)) != 1 {
			t.Errorf("the directory's group: %v", got.body)
		}
		c.patch(200, "/Users/"+id, `{"op":"replace","value":{"active":true}}`)
		if got := fmt.Sprint(c.roles(id)); got != "[developer viewer]" {
			t.Errorf("back with roles %s", got)
		}
		c.patch(204, "/Groups/"+group, `{"op":"replace","value":{"id":"`+group+`","displayName":"Builders"}}`)
		c.patch(204, "/Groups/"+group, `{"op":"remove","path":"members[value eq \"`+id+`\"]"}`)
		if got := fmt.Sprint(c.roles(id)); got != "[viewer]" {
			t.Errorf("out of the group: %s", got)
		}
		c.do(204, "DELETE", "/Groups/"+group, "")
		c.do(404, "GET", "/Groups/"+group, "")
	})
}

// The requests of Microsoft's SCIM validator.
func TestEntra_RequestsEndAsItExpects(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		c := newClient(t, w, newService(w), "acme")
		if n := c.total("/Users" + filter(`externalId eq "non-existent"`)); n != 0 {
			t.Errorf("%d users", n)
		}
		made := c.do(201, "POST", "/Users", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User","urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"],
			"externalId":"0a21f0f2","userName":"Test_User_ab6490ee","active":true,"emails":[{"primary":true,"type":"work","value":"Test_User_fd0ea19b@testuser.com"}],
			"meta":{"resourceType":"User"},"name":{"formatted":"givenName familyName","familyName":"familyName","givenName":"givenName"},"roles":[]}`)
		id := made.text("id")
		if a := c.patch(200, "/Users/"+id, `{"op":"Replace","path":"emails[type eq \"work\"].value","value":"updatedEmail@microsoft.com"},{"op":"Replace","path":"name.familyName","value":"updatedFamilyName"}`); !strings.Contains(fmt.Sprint(a.body), "updatedEmail@microsoft.com") {
			t.Errorf("%v", a.body)
		}
		if a := c.patch(200, "/Users/"+id, `{"op":"Replace","path":"userName","value":"5b50642d"}`); a.text("userName") != "5b50642d" {
			t.Errorf("%v", a.body)
		}
		c.patch(200, "/Users/"+id, `{"op":"Add","path":"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department","value":"Engines"}`)
		if a := c.patch(200, "/Users/"+id, `{"op":"Replace","path":"active","value":"False"}`); a.body["active"] != false || c.roles(id) != nil {
			t.Errorf("%v", a.body)
		}
		group := c.do(201, "POST", "/Groups", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:Group","http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],"externalId":"8aa1a0c0","displayName":"G","meta":{"resourceType":"Group"}}`).text("id")
		if a := c.do(200, "GET", "/Groups/"+group+"?excludedAttributes=members", ""); a.body["members"] != nil {
			t.Errorf("%v", a.body)
		}
		if n := c.total("/Groups" + filter(`displayName eq "G"`) + "&excludedAttributes=members"); n != 1 {
			t.Errorf("%d groups", n)
		}
		// Into the group while not active: the role comes with the activation.
		c.bind(group, permission.RoleDeveloper)
		c.patch(204, "/Groups/"+group, `{"op":"Add","path":"members","value":[{"$ref":null,"value":"`+id+`"}]}`)
		if c.roles(id) != nil {
			t.Error("a group brings back who is not active")
		}
		c.patch(200, "/Users/"+id, `{"op":"Replace","path":"active","value":"True"}`)
		if got := fmt.Sprint(c.roles(id)); got != "[developer viewer]" {
			t.Errorf("roles %s", got)
		}
		asked := filter(`id eq "` + group + `" and members eq "` + id + `"`)
		if n := c.total("/Groups" + asked); n != 1 {
			t.Errorf("%d groups", n)
		}
		c.patch(204, "/Groups/"+group, `{"op":"Remove","path":"members","value":[{"$ref":null,"value":"`+id+`"}]}`)
		c.patch(204, "/Groups/"+group, `{"op":"Remove","path":"members","value":[{"$ref":null,"value":"`+id+`"}]}`) // Sent again.
		if n := c.total("/Groups" + asked); n != 0 {
			t.Errorf("%d groups", n)
		}
		c.do(204, "DELETE", "/Users/"+id, "")
		c.do(404, "GET", "/Users/"+id, "")
		c.do(404, "DELETE", "/Users/"+id, "")
	})
}

func TestDirectory_WhoIsDeactivatedLosesSessionsAndKeys(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		c := newClient(t, w, newService(w), "acme")
		id := c.user("ada@acme.test")
		var signedIn session.Opened
		const key = "key_000000000001"
		w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
			if signedIn, err = session.Open(ctx, tx, w.IDs, w.Now(), id, c.tenant.ID, ""); err != nil {
				return err
			}
			return tx.InsertKey(ctx, store.Key{
				TenantID: c.tenant.ID, ID: key, Name: "mine", Kind: cloudv1.KeyKind_KEY_KIND_PERSONAL, OwnerID: id, CreatedBy: id,
				CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1, Generation: 1,
			})
		})
		w.Outbox(t)
		c.patch(200, "/Users/"+id, `{"op":"replace","value":{"active":false}}`)
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			if _, err := session.Find(ctx, tx, signedIn.Token, w.Now()); err == nil {
				t.Error("the session lives on")
			}
			k, err := tx.GetKey(ctx, c.tenant.ID, key)
			if k.RevokedAt.IsZero() {
				t.Error("the personal key lives on")
			}
			return err
		})
		told := map[store.OutboxKind]bool{}
		for _, row := range w.Outbox(t) {
			told[row.Kind] = true
		}
		if !told[store.OutboxKey] || !told[store.OutboxUser] || !told[store.OutboxAccess] {
			t.Errorf("the cell is told %v", told)
		}
		c.patch(200, "/Users/"+id, `{"op":"replace","value":{"active":true}}`)
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			k, err := tx.GetKey(ctx, c.tenant.ID, key)
			if k.RevokedAt.IsZero() {
				t.Error("the key comes back")
			}
			events, listErr := tx.ListAudit(ctx, c.tenant.ID, store.AuditFilter{ActionPrefix: "directory_user.activate"}, store.Page{Limit: 1})
			if listErr != nil || len(events) != 1 || events[0].ActorType != "directory" || events[0].Actor != "directory of Okta" {
				t.Errorf("audit %+v %v", events, listErr)
			}
			return err
		})
	})
}

func TestDirectory_LastOwnerStaysAndTheLogSaysSo(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		c := newClient(t, w, newService(w), "acme")
		id := c.user("ada@acme.test")
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { // Ada becomes the only owner.
			if err := tx.DeleteMembership(ctx, c.tenant.ID, c.owner.ID); err != nil {
				return err
			}
			return tx.InsertBinding(ctx, store.Binding{TenantID: c.tenant.ID, ID: "bnd_1", PrincipalID: id, RoleID: store.RoleOwner, CreatedAt: w.Now()})
		})
		for _, a := range []answer{c.patch(409, "/Users/"+id, `{"op":"replace","value":{"active":false}}`), c.do(409, "DELETE", "/Users/"+id, "")} {
			if !strings.Contains(a.text("detail"), "only owner") {
				t.Errorf("%v", a.body)
			}
		}
		if c.roles(id) == nil || c.do(200, "GET", "/Users/"+id, "").body["active"] != true {
			t.Error("the last owner is gone")
		}
		if got := strings.Join(w.Audit(t, c.tenant.ID), " "); strings.Count(got, "directory_user.keep") != 2 {
			t.Errorf("audit %s", got)
		}
	})
}

func TestDirectory_WhomPeopleRemovedStaysOutUntilInvited(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		c := newClient(t, w, newService(w), "acme")
		id := c.user("ada@acme.test")
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { // As RemoveMember does.
			if err := tx.PutRemoval(ctx, store.Removal{TenantID: c.tenant.ID, UserID: id, Email: "ada@acme.test", RemovedBy: "owner", RemovedAt: w.Now()}); err != nil {
				return err
			}
			return tx.DeleteMembership(ctx, c.tenant.ID, id)
		})
		if c.do(200, "GET", "/Users/"+id, "").body["active"] != false {
			t.Error("who was removed is active")
		}
		if a := c.patch(409, "/Users/"+id, `{"op":"replace","value":{"active":true}}`); !strings.Contains(a.text("detail"), "invite") {
			t.Errorf("%v", a.body)
		}
		c.do(204, "DELETE", "/Users/"+id, "")
		c.do(409, "POST", "/Users", `{"userName":"ada@acme.test"}`)
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return tx.PutInvitation(ctx, store.Invitation{TenantID: c.tenant.ID, ID: w.IDs.New(ids.Invitation, w.Now()), Email: "ada@acme.test", Digest: "d", CreatedAt: w.Now(), ExpiresAt: w.Now().Add(time.Hour)})
		})
		again := c.user("ada@acme.test")
		// Whom the directory removed itself, it may bring back; a sign-in may not.
		c.do(204, "DELETE", "/Users/"+again, "")
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			gone, err := tx.IsRemoved(ctx, c.tenant.ID, again, "")
			if !gone {
				t.Error("a sign-in would bring back whom the directory deleted")
			}
			return err
		})
		c.user("ada@acme.test")
	})
}

func TestDirectory_ForeignIsLikeNowhere(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		a, b := newClient(t, w, s, "a"), newClient(t, w, s, "b")
		user, group := b.user("eve@b.test"), b.groupOf("G", b.user("mallory@b.test"))
		own := a.groupOf("mine")
		for _, path := range []string{"/Users/" + user, "/Groups/" + group, "/Users/" + a.owner.ID, "/Users/usr_01JD0000000000000000000000"} {
			want := a.do(404, "GET", path, "").text("detail")
			for _, method := range []string{"PUT", "PATCH", "DELETE"} {
				body := `{"userName":"x","displayName":"x"}`
				if method == "PATCH" {
					body = `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"replace","value":{"displayName":"x"}}]}`
				}
				if got := a.do(404, method, path, body).text("detail"); got != want {
					t.Errorf("%s %s: %q and %q", method, path, got, want)
				}
			}
		}
		a.patch(400, "/Groups/"+own, `{"op":"add","path":"members","value":[{"value":"`+user+`"}]}`)
		a.patch(204, "/Groups/"+own, `{"op":"remove","path":"members[value eq \"`+user+`\"]"}`)
		if n := a.total("/Users") + a.total("/Users"+filter(`userName eq "eve@b.test"`)) + a.total("/Groups"+filter(`members eq "`+user+`"`)); n != 0 {
			t.Errorf("%d of another tenant", n)
		}
		// People's own groups are not the directory's.
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertGroup(ctx, store.Group{TenantID: a.tenant.ID, ID: "grp_people", Name: "People", CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1})
		})
		a.do(404, "GET", "/Groups/grp_people", "")
		if got := a.do(409, "POST", "/Groups", `{"displayName":"People"}`); got.text("scimType") != "uniqueness" {
			t.Errorf("%v", got.body)
		}
		for _, token := range []string{"", "corvo_scim_x", strings.Replace(a.token, "corvo_scim_", "corvo_mg_", 1), a.token[:len(a.token)-4] + b.token[len(b.token)-4:], madeElsewhere(t)} {
			bad := *a
			bad.token = token
			bad.do(401, "GET", "/Users", "")
		}
	})
}

// madeElsewhere is a token of the right form that nobody has.
func madeElsewhere(t *testing.T) string {
	t.Helper()
	k, err := apikey.Generate(apikey.SCIM)
	if err != nil {
		t.Fatal(err)
	}
	return k.Reveal()
}

func TestTokens_TwoAtOnceRevokedAndExpired(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		c := newClient(t, w, newService(w), "acme")
		second := c.newToken()
		_, err := c.s.CreateScimToken(c.asOwner(), &cloudv1.CreateScimTokenRequest{ConnectionId: c.conn.ID})
		cloudtest.Refused(t, err, "LIMIT")
		c.do(200, "GET", "/Users", "")
		list, err := c.s.ListScimTokens(c.asOwner(), &cloudv1.ListScimTokensRequest{ConnectionId: c.conn.ID})
		if err != nil || len(list.GetTokens()) != 2 || list.GetTokens()[0].GetLastUsedAt() == nil && list.GetTokens()[1].GetLastUsedAt() == nil {
			t.Fatalf("%v %v", list, err)
		}
		if _, err := c.s.RevokeScimToken(c.asOwner(), &cloudv1.RevokeScimTokenRequest{TokenId: second.GetToken().GetId()}); err != nil {
			t.Fatal(err)
		}
		revoked := *c
		revoked.token = second.GetSecret()
		revoked.do(401, "GET", "/Users", "")
		c.do(400, "GET", "/Users"+filter("nonsense"), "")
		got, err := c.s.GetDirectorySync(c.asOwner(), &cloudv1.GetDirectorySyncRequest{ConnectionId: c.conn.ID})
		if err != nil || got.GetSync().GetLastCallAt() == nil || !strings.Contains(got.GetSync().GetLastError(), "400") || !strings.HasSuffix(got.GetSync().GetEndpointUrl(), "/scim/v2") {
			t.Errorf("%v %v", got, err)
		}
		w.Advance(tokenLifeDefault)
		c.do(401, "GET", "/Users", "")
	})
}

// An id alone opens nothing: ids are shown to people.
func TestTokens_AWrongSecretOfAKnownIDIsRefused(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	c := newClient(t, w, newService(w), "acme")
	guess, err := apikey.Generate(apikey.SCIM)
	if err != nil {
		t.Fatal(err)
	}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertScimToken(ctx, store.ScimToken{
			TenantID: c.tenant.ID, ID: guess.ID(), ConnectionID: c.conn.ID, Digest: strings.Repeat("0", 64), CreatedAt: w.Now(), ExpiresAt: w.Now().Add(time.Hour),
		})
	})
	c.do(200, "GET", "/Users", "")
	wrong := *c
	wrong.token = guess.Reveal()
	wrong.do(401, "GET", "/Users", "")
}

// Two directories of one tenant don't see each other's people.
func TestTokens_AnotherDirectorysPeopleAreNobody(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	c := newClient(t, w, newService(w), "acme")
	id := c.user("ada@acme.test")
	other := *c
	other.conn.ID, other.conn.Name = w.IDs.New(ids.Connection, w.Now()), "Entra"
	w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertConnection(ctx, other.conn) })
	other.token = other.newToken().GetSecret()
	other.do(404, "GET", "/Users/"+id, "")
	other.do(404, "DELETE", "/Users/"+id, "")
	c.do(200, "GET", "/Users/"+id, "")
}

// Whoever has a token decides who is in the groups that roles are bound to.
func TestTokens_NobodyGetsMoreThanTheyHold(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	c := newClient(t, w, newService(w), "acme")
	c.bind(c.groupOf("Owners"), permission.RoleOwner)
	admin := w.Member(t, c.tenant.ID, "admin@acme.test", permission.RoleAdmin)
	ctx, _ := w.As(t, c.tenant, admin, permission.RoleAdmin)
	_, err := c.s.CreateScimToken(ctx, &cloudv1.CreateScimTokenRequest{ConnectionId: c.conn.ID})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
}

// Whoever has a token says whose first sign-in somebody's is.
func TestTokens_NobodyGetsOneOverWhoeverHoldsMore(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	c := newClient(t, w, newService(w), "acme")
	c.bind(c.user("ada@acme.test"), permission.RoleOwner)
	admin := w.Member(t, c.tenant.ID, "admin@acme.test", permission.RoleAdmin)
	ctx, _ := w.As(t, c.tenant, admin, permission.RoleAdmin)
	_, err := c.s.CreateScimToken(ctx, &cloudv1.CreateScimTokenRequest{ConnectionId: c.conn.ID})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
}

func TestDirectory_ETagsAndConcurrentPatches(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		c := newClient(t, w, newService(w), "acme")
		group := c.groupOf("G")
		tag := c.do(200, "GET", "/Groups/"+group, "").etag
		const many = 8
		var users []string
		for i := range many {
			users = append(users, c.user(fmt.Sprintf("u%d@acme.test", i)))
		}
		var wg sync.WaitGroup
		for _, id := range users {
			wg.Go(func() {
				a, err := c.try("PATCH", "/Groups/"+group, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"add","path":"members","value":[{"value":"`+id+`"}]}]}`)
				if err != nil || a.status != 204 {
					t.Errorf("%v %v", a, err)
				}
			})
		}
		wg.Wait()
		if got := c.do(200, "GET", "/Groups/"+group, ""); len(got.body["members"].([]any)) != many {
			t.Errorf("%v", got.body["members"])
		}
		c.patch(412, "/Groups/"+group, `{"op":"replace","value":{"displayName":"H"}}`, "If-Match", tag)
		now := c.do(200, "GET", "/Groups/"+group, "").etag
		after := c.patch(204, "/Groups/"+group, `{"op":"replace","value":{"displayName":"H"}}`, "If-Match", now)
		if again := c.patch(204, "/Groups/"+group, `{"op":"replace","value":{"displayName":"H"}}`); again.etag != after.etag {
			t.Errorf("a repeated PATCH makes version %s of %s", again.etag, after.etag)
		}
		c.do(304, "GET", "/Groups/"+group, "", "If-None-Match", after.etag)
	})
}

func TestDirectory_LargeListsStayPaged(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("makes 10,000 users")
	}
	w := cloudtest.New(t)
	c := newClient(t, w, newService(w), "acme")
	const users, groups = 10_000, 500
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		for i := range users {
			id, name := w.IDs.New(ids.User, w.Now()), fmt.Sprintf("u%d@acme.test", i)
			if err := tx.InsertUser(ctx, store.User{ID: id, Email: name, HomeTenant: c.tenant.ID, CreatedAt: w.Now()}); err != nil {
				return err
			}
			err := tx.InsertDirectoryUser(ctx, store.DirectoryUser{TenantID: c.tenant.ID, ConnectionID: c.conn.ID, UserID: id, UserName: name, NameKey: name, ExternalID: fmt.Sprint(i),
				Attributes: map[string]any{"userName": name, "externalId": fmt.Sprint(i)}, CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1})
			if err != nil {
				return err
			}
		}
		for i := range groups {
			g := store.Group{TenantID: c.tenant.ID, ID: w.IDs.New(ids.Group, w.Now()), Name: fmt.Sprintf("g%d", i), ConnectionID: c.conn.ID, CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1}
			if err := tx.InsertGroup(ctx, g); err != nil {
				return err
			}
		}
		return nil
	})
	for path, want := range map[string]int{"/Users": users, "/Groups": groups} {
		seen, start := map[string]bool{}, 1
		for len(seen) < want {
			page := c.do(200, "GET", fmt.Sprintf("%s?startIndex=%d&count=1000", path, start), "").body
			list, _ := page["Resources"].([]any)
			if page["totalResults"] != float64(want) || len(list) == 0 || len(list) > 200 {
				t.Fatalf("%s from %d: %v of %v", path, start, len(list), page["totalResults"])
			}
			for _, r := range list {
				seen[r.(map[string]any)["id"].(string)] = true
			}
			start += len(list)
		}
	}
	began := time.Now()
	if n := c.total("/Users" + filter(`userName eq "u9999@acme.test"`)); n != 1 {
		t.Errorf("%d users", n)
	}
	t.Logf("one of %d users by name: %v", users, time.Since(began))
	if n := c.total("/Users" + filter(`userName sw "u99"`)); n != 111 {
		t.Errorf("%d users", n)
	}
}

// The secret of a token that its caller made never comes here: id and digest do.
func TestTokens_OneThatTheCallerMadeWorksAndIsNeverShown(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		c := newClient(t, w, newService(w), "acme")
		made, err := apikey.Generate(apikey.SCIM)
		if err != nil {
			t.Fatal(err)
		}
		digest := made.Digest()
		r := &cloudv1.CreateScimTokenRequest{ConnectionId: c.conn.ID, TokenId: made.ID(), Digest: digest[:], RequestId: "6f9a0d0e-5d0c-4d8e-9a55-0f3f7f6d8b52"}
		for range 2 { // A repeated call finds its own token.
			res, err := c.s.CreateScimToken(c.asOwner(), r)
			if err != nil || res.GetToken().GetId() != made.ID() || res.GetSecret() != "" {
				t.Fatalf("%v %v", res, err)
			}
		}
		own := *c
		own.token = made.Reveal()
		own.do(200, "GET", "/Users", "")
		if _, err = c.s.RevokeScimToken(c.asOwner(), &cloudv1.RevokeScimTokenRequest{TokenId: made.ID()}); err != nil {
			t.Fatal(err)
		}
		r.RequestId = ""
		_, err = c.s.CreateScimToken(c.asOwner(), r)
		cloudtest.Refused(t, err, "TOKEN_EXISTS") // A revoked token stays revoked.
		own.do(401, "GET", "/Users", "")
	})
}

func TestTokens_ACallersTokenNeedsIDAndDigest(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	c := newClient(t, w, newService(w), "acme")
	made, err := apikey.Generate(apikey.SCIM)
	if err != nil {
		t.Fatal(err)
	}
	digest := made.Digest()
	for name, tc := range map[string]struct {
		id     string
		digest []byte
		field  string
	}{
		"id alone": {made.ID(), nil, "digest"}, "digest alone": {"", digest[:], "token_id"}, "short digest": {made.ID(), digest[:31], "digest"},
		"a digest of zero": {made.ID(), make([]byte, 32), "digest"}, "a wrong id": {"key_../../etc", digest[:], "token_id"},
	} {
		_, err := c.s.CreateScimToken(c.asOwner(), &cloudv1.CreateScimTokenRequest{ConnectionId: c.conn.ID, TokenId: tc.id, Digest: tc.digest})
		f, ok := fault.As(err)
		if !ok || len(f.Fields) != 1 || f.Fields[0].Name != tc.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokens_TheEndMovesWhileATokenWorks(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		c := newClient(t, w, newService(w), "acme")
		id := c.newToken().GetToken().GetId()
		update := func(in time.Duration) error {
			_, err := c.s.UpdateScimToken(c.asOwner(), &cloudv1.UpdateScimTokenRequest{TokenId: id, ExpiresAt: timestamppb.New(w.Now().Add(in))})
			return err
		}
		for _, in := range []time.Duration{tokenLifeMax, time.Hour} {
			if err := update(in); err != nil {
				t.Fatal(err)
			}
		}
		list, err := c.s.ListScimTokens(c.asOwner(), &cloudv1.ListScimTokensRequest{ConnectionId: c.conn.ID})
		if err != nil || !slices.ContainsFunc(list.GetTokens(), func(v *cloudv1.ScimToken) bool {
			return v.GetId() == id && v.GetExpiresAt().AsTime().Equal(w.Now().Add(time.Hour))
		}) {
			t.Fatalf("%v %v", list, err)
		}
		for _, in := range []time.Duration{tokenLifeMax + time.Second, 0, -time.Hour} {
			cloudtest.Refused(t, update(in), "INVALID_ARGUMENT")
		}
		w.Advance(2 * time.Hour)
		cloudtest.Refused(t, update(time.Hour), "TOKEN_ENDED")
	})
}

// A later end is as good as a new token, an earlier one is as harmless as revoking it.
func TestTokens_OnlyWhoMayMakeOneMayMoveItsEndLater(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	c := newClient(t, w, newService(w), "acme")
	c.bind(c.groupOf("Owners"), permission.RoleOwner)
	id := c.newToken().GetToken().GetId()
	admin := w.Member(t, c.tenant.ID, "admin@acme.test", permission.RoleAdmin)
	ctx, _ := w.As(t, c.tenant, admin, permission.RoleAdmin)
	_, err := c.s.UpdateScimToken(ctx, &cloudv1.UpdateScimTokenRequest{TokenId: id, ExpiresAt: timestamppb.New(w.Now().Add(tokenLifeMax))})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	if _, err := c.s.UpdateScimToken(ctx, &cloudv1.UpdateScimTokenRequest{TokenId: id, ExpiresAt: timestamppb.New(w.Now().Add(time.Hour))}); err != nil {
		t.Error(err)
	}
}

// A token from a key is as good as another key: it works no longer than the key, and nowhere
// that the key does not.
func TestTokens_OneThatAKeyMakesStaysWithinTheKey(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	c := newClient(t, w, newService(w), "acme")
	byKey := func(k store.Key) context.Context {
		t.Helper()
		k.TenantID, k.Name, k.Kind, k.OwnerID, k.CreatedBy = c.tenant.ID, k.ID, cloudv1.KeyKind_KEY_KIND_MANAGEMENT, "sa_1", c.owner.ID
		k.CreatedAt, k.UpdatedAt, k.Version, k.Generation = w.Now(), w.Now(), 1, 1
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertKey(ctx, k) })
		caller := access.From(c.asOwner())
		caller.UserID, caller.SessionID, caller.KeyID, caller.Name = "", "", k.ID, k.Name
		return access.With(t.Context(), caller)
	}
	create := func(ctx context.Context, life time.Duration) (string, error) {
		res, err := c.s.CreateScimToken(ctx, &cloudv1.CreateScimTokenRequest{ConnectionId: c.conn.ID, ExpiresAt: timestamppb.New(w.Now().Add(life))})
		return res.GetToken().GetId(), err
	}
	move := func(ctx context.Context, id string, life time.Duration) error {
		_, err := c.s.UpdateScimToken(ctx, &cloudv1.UpdateScimTokenRequest{TokenId: id, ExpiresAt: timestamppb.New(w.Now().Add(life))})
		return err
	}
	const year = 365 * 24 * time.Hour
	ends := byKey(store.Key{ID: "key_000000000001", ExpiresAt: w.Now().Add(time.Hour)})
	bound := byKey(store.Key{ID: "key_000000000002", CIDRs: []string{"10.0.0.0/8"}})
	lasts := byKey(store.Key{ID: "key_000000000003"})
	_, err := create(ends, year)
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
	_, err = create(bound, time.Minute)
	cloudtest.Refused(t, err, "KEY_NETWORKS")
	id, err := create(ends, time.Hour)
	if err != nil {
		t.Fatalf("until the key ends: %v", err)
	}
	cloudtest.Refused(t, move(ends, id, year), "INVALID_ARGUMENT")
	cloudtest.Refused(t, move(bound, id, year), "KEY_NETWORKS")
	for name, ctx := range map[string]context.Context{"a key that ends": ends, "a key with networks": bound} {
		if err := move(ctx, id, time.Minute); err != nil {
			t.Errorf("an earlier end by %s: %v", name, err)
		}
	}
	if err := move(lasts, id, year); err != nil {
		t.Errorf("by a key that lasts: %v", err)
	}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.RevokeScimToken(ctx, c.tenant.ID, id, w.Now())
	})
	if _, err := create(lasts, year); err != nil {
		t.Errorf("by a key that lasts: %v", err)
	}
}

func TestDirectory_AUserBeyondThePlanIsRefusedWithTheLimit(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	c := newClient(t, w, newService(w), "acme")
	c.user("one@acme.test")
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.PutOverride(ctx, store.Override{TenantID: c.tenant.ID, Name: "members_max", Value: 2, CreatedAt: w.Now()})
	})
	refused := c.do(409, "POST", "/Users", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"two@acme.test","externalId":"2","active":true}`)
	if detail := refused.text("detail"); !strings.Contains(detail, "allows 2 members (members_max)") {
		t.Error(detail)
	}
}
