package directory

import (
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
)

// Whoever was deactivated comes back by a request that says so, never by one that leaves it open.
func TestDirectory_UnsettingActiveLeavesItAsItIs(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	c := newClient(t, w, newService(w), "acme")
	gone, here := c.user("gone@acme.test"), c.user("here@acme.test")
	c.patch(200, "/Users/"+gone, `{"op":"replace","path":"active","value":false}`)
	const schemas = `"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"]`
	for _, operation := range []string{
		`{"op":"remove","path":"active"}`,
		`{"op":"replace","path":"active","value":null}`,
		`{"op":"add","path":"active","value":null}`,
		`{"op":"replace","value":{"active":null,"displayName":"Somebody"}}`,
		`{"op":"remove","path":"active"},{"op":"replace","path":"displayName","value":"Else"}`,
	} {
		for id, want := range map[string]bool{gone: false, here: true} {
			if a := c.patch(200, "/Users/"+id, operation); a.body["active"] != want || (c.roles(id) != nil) != want {
				t.Errorf("%s: active is %v with roles %v, want %t", operation, a.body["active"], c.roles(id), want)
			}
		}
	}
	for id, want := range map[string]bool{gone: false, here: true} {
		a := c.do(200, "PUT", "/Users/"+id, `{`+schemas+`,"userName":"`+id+`@acme.test","active":null}`)
		if a.body["active"] != want || (c.roles(id) != nil) != want {
			t.Errorf("PUT: active is %v with roles %v, want %t", a.body["active"], c.roles(id), want)
		}
	}
	c.patch(200, "/Users/"+gone, `{"op":"replace","path":"active","value":true}`)
	if c.roles(gone) == nil {
		t.Error("active says so, and the user isn't back")
	}
}
