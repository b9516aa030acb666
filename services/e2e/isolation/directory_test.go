package isolation

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

const scimPath = "/scim/v2"

// directories gives both tenants a connection with a directory's token, and ends one. The
// foreigner's comes first: what it asks about is still there then.
func (m *matrix) directories(t *testing.T) {
	t.Helper()
	theirs := m.directory(t, victimName, m.other.admin())
	_, text := m.scimToken(t, victimName, theirs, m.other.admin())
	m.add("foreign-scim", scim, bearer(text)).foreign = true

	own := m.directory(t, ownName, m.own.admin())
	id, text := m.scimToken(t, ownName, own, m.own.admin())
	m.endedBy(t, map[string]credential{"revoked-scim": {kind: scim, headers: bearer(text)}}, func() {
		m.must(t, "DirectoryService/RevokeScimToken", o{"tenant": ownName, "tokenId": id}, m.own.admin(), nil)
	})
	_, text = m.scimToken(t, ownName, own, m.own.admin())
	m.add("scim", scim, bearer(text))
}

// directory makes a connection, which needs no provider to have a directory.
func (m *matrix) directory(t *testing.T, tenant string, as map[string]string) string {
	t.Helper()
	var made struct{ Connection struct{ ID string } }
	m.must(t, "SsoService/CreateSsoConnection", o{"tenant": tenant, "name": "company", "type": "SSO_TYPE_SAML", "defaultRole": "viewer"}, as, &made)
	return made.Connection.ID
}

func (m *matrix) scimToken(t *testing.T, tenant, connection string, as map[string]string) (id, text string) {
	t.Helper()
	var made struct {
		Token  struct{ ID string }
		Secret string
	}
	m.must(t, "DirectoryService/CreateScimToken", o{"tenant": tenant, "connectionId": connection}, as, &made)
	return made.Token.ID, made.Secret
}

var scimKinds = map[string]o{
	"Users":  {"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "active": true},
	"Groups": {"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:Group"}},
}

// named is a new resource.
func named(kind string) o {
	in := o{}
	for name, value := range scimKinds[kind] {
		in[name] = value
	}
	if name := "m-" + strings.ToLower(crockford(12)); kind == "Users" {
		in["userName"] = name + "@example.com"
	} else {
		in["displayName"] = name
	}
	return in
}

// directoryEntries are those of the SCIM door. Its token says which tenant is meant, so
// those that name a resource of the own tenant stand for those that name the tenant. What
// changes a directory comes last: it changes what others may do.
func (m *matrix) directoryEntries(t *testing.T) (all []entry) {
	t.Helper()
	for _, path := range []string{"/ServiceProviderConfig", "/ResourceTypes", "/Schemas", "/Users", "/Groups"} {
		all = append(all, fixed("directory GET "+path, directory, "", request{method: http.MethodGet, path: scimPath + path}))
	}
	for kind := range scimKinds {
		all = append(all, entry{name: "directory POST /" + kind, side: directory, changes: true, last: true, ask: func(string) request {
			return request{method: http.MethodPost, path: scimPath + "/" + kind, body: named(kind)}
		}})
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			own, missing := m.resource(t, kind)
			all = append(all, entry{name: "directory " + method + " /" + kind + "/{id}", side: directory, ofTenant: true, changes: method != http.MethodGet, last: method != http.MethodGet, ask: func(tenant string) request {
				q := request{method: method, path: scimPath + "/" + kind + "/" + own}
				if tenant == nowhere {
					q.path = scimPath + "/" + kind + "/" + missing
				}
				switch method {
				case http.MethodPut:
					q.body = named(kind)
				case http.MethodPatch:
					q.body = o{"schemas": []string{"urn:ietf:params:scim:api:messages:2.0:PatchOp"}, "Operations": []o{{"op": "replace", "path": "externalId", "value": crockford(12)}}}
				}
				return q
			}})
		}
	}
	return all
}

// resource makes one of the own tenant, and gives its id and one that nothing has.
func (m *matrix) resource(t *testing.T, kind string) (own, missing string) {
	t.Helper()
	a, err := elsewhere(request{method: http.MethodPost, base: m.front(), path: scimPath + "/" + kind, body: named(kind), headers: m.find("scim").headers}).send(m.ctx)
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != http.StatusCreated {
		t.Fatalf("make one of %s: %d %s", kind, a.status, a.body)
	}
	prefix, _, _ := strings.Cut(made.ID, "_")
	return made.ID, prefix + "_" + crockford(26)
}
