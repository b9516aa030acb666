package directory

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
)

// What no index answers reads every user; some of those at once would leave the database to
// nobody else.
func TestDirectory_FewFiltersAtOnceReadItAll(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	c, other := newClient(t, w, s, "acme"), newClient(t, w, s, "globex")
	id := c.user("ada@acme.test")
	all := "/Users" + filter(`title eq "Boss"`)
	var ends []func()
	for range scansMax {
		end, refusal := s.door.scans.begin(c.tenant.ID)
		if refusal != nil {
			t.Fatal(refusal)
		}
		ends = append(ends, end)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+all, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "1" {
		t.Errorf("one more: %d, Retry-After %q, %v", res.StatusCode, res.Header.Get("Retry-After"), err)
	}
	// Whatever needs no scan goes on, and so does another tenant.
	for _, path := range []string{
		"/Users", "/Users/" + id, "/Users" + filter(`userName eq "ada@acme.test" and title eq "Boss"`), "/Users" + filter(`externalId eq "x"`),
		"/Users" + filter(fmt.Sprintf(`id eq %q`, id)), "/Groups" + filter(`displayName eq "x"`),
	} {
		c.do(http.StatusOK, "GET", path, "")
	}
	other.do(http.StatusOK, "GET", all, "")
	for _, end := range ends {
		end()
	}
	for range scansMax + 1 { // One after another.
		c.do(http.StatusOK, "GET", all, "")
	}
	if n := len(s.door.scans.running); n != 0 {
		t.Errorf("%d tenants are remembered without a scan", n)
	}
}
