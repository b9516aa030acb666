package proxy

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/usertoken"
)

// mint is a control plane that signs user tokens.
type mint struct {
	t       *testing.T
	private ed25519.PrivateKey
	record  *cellv1.TokenKey
}

func newMint(t *testing.T) mint {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return mint{t, private, &cellv1.TokenKey{Id: usertoken.KeyID(public), PublicKey: public}}
}

func (m mint) change() *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_TokenKey{TokenKey: m.record}}
}

const testUser = "usr_01J00000000000000000000007"

// token is one for a namespace of a tenant, good for five minutes; edit may change it.
func (m mint) token(r tenantRig, namespace string, edit func(*usertoken.Claims)) string {
	m.t.Helper()
	now := time.Now().Truncate(time.Second)
	c := usertoken.Claims{
		TenantID: r.id, NamespaceID: r.namespace(namespace).GetId(), UserID: testUser,
		Grants: permission.Here{All: celladmin.RoleSet([]string{"operator"})}, IssuedAt: now, ExpiresAt: now.Add(usertoken.Life),
	}
	if edit != nil {
		edit(&c)
	}
	text, err := usertoken.Sign(m.private, m.record.GetId(), c)
	if err != nil {
		m.t.Fatal(err)
	}
	return text
}

func withToken(text string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+text) }
}

func cutoffChange(tenantID, userID string, notBefore time.Time) *cellv1.Change {
	return &cellv1.Change{Change: &cellv1.Change_UserCutoff{UserCutoff: &cellv1.UserCutoff{
		TenantId: tenantID, UserId: userID, NotBeforeNs: notBefore.UnixNano(),
	}}}
}

func TestUserToken_NamesTenantNamespaceRolesAndPerson(t *testing.T) {
	t.Parallel()
	r, m := startRig(t, rigOptions{}), newMint(t)
	r.apply(m.change())
	got := r.ask(r.http1, "GET", "/t/acme/api/v1/queues", "", withToken(m.token(r.acme, "other", nil)))
	if got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	id := got.seen.Identity
	if id.TenantID != r.acme.id || id.TenantName != "acme" || id.Namespace != "other" || id.NamespaceID != r.acme.namespace("other").GetId() ||
		id.Principal != "user:"+testUser || id.Grants.All != celladmin.RoleSet([]string{"operator"}) || id.PayloadBytesMax != 1000 {
		t.Errorf("the node saw %+v", id)
	}
	if got.seen.Header.Get("Authorization") != "" {
		t.Error("the token reached the node")
	}
}

func TestUserToken_RefusalsTellAStrangerNothing(t *testing.T) {
	t.Parallel()
	r, m, forger := startRig(t, rigOptions{}), newMint(t), newMint(t)
	ended := newMint(t)
	ended.record.NotAfterNs = time.Now().Add(-time.Second).UnixNano()
	r.apply(m.change(), ended.change(), cutoffChange(r.beta.id, testUser, time.Now().Add(time.Second)))
	good := m.token(r.acme, "default", nil)
	forger.record.Id = m.record.GetId() // Its own key under a known name.
	long := func(c *usertoken.Claims) { c.IssuedAt, c.ExpiresAt = c.IssuedAt.Add(-time.Minute), c.IssuedAt }
	early := func(c *usertoken.Claims) {
		c.IssuedAt, c.ExpiresAt = c.IssuedAt.Add(time.Hour), c.ExpiresAt.Add(time.Hour)
	}
	cookie := func(q *http.Request) { q.AddCookie(&http.Cookie{Name: "corvo_api_key", Value: good}) }
	for name, c := range map[string]struct {
		path string
		edit func(*http.Request)
		want int
		code string
	}{
		"good":                    {"/t/acme/api/v1/queues", withToken(good), 200, ""},
		"good by token alone":     {"/api/v1/queues", withToken(good), 200, ""},
		"good, namespace named":   {"/api/v1/queues", both(withToken(good), header("X-Corvo-Namespace", "default")), 200, ""},
		"another's namespace":     {"/api/v1/queues", both(withToken(good), header("X-Corvo-Namespace", "other")), 404, "NOT_FOUND"},
		"another tenant's path":   {"/t/beta/api/v1/queues", withToken(good), 403, "FORBIDDEN"},
		"no such tenant's path":   {"/t/nobody/api/v1/queues", withToken(good), 403, "FORBIDDEN"},
		"another tenant's host":   {"/api/v1/queues", both(withToken(good), func(q *http.Request) { q.Host = "beta." + testDomain }), 403, "FORBIDDEN"},
		"expired":                 {"/t/acme/api/v1/queues", withToken(m.token(r.acme, "default", long)), 401, "TOKEN_EXPIRED"},
		"of the future":           {"/t/acme/api/v1/queues", withToken(m.token(r.acme, "default", early)), 503, "CLOCK_SKEW"},
		"forged, of the future":   {"/t/acme/api/v1/queues", withToken(forger.token(r.acme, "default", early)), 401, "UNAUTHORIZED"},
		"forged":                  {"/t/acme/api/v1/queues", withToken(forger.token(r.acme, "default", nil)), 401, "UNAUTHORIZED"},
		"unknown signer":          {"/t/acme/api/v1/queues", withToken(newMint(t).token(r.acme, "default", nil)), 401, "UNAUTHORIZED"},
		"signer ended":            {"/t/acme/api/v1/queues", withToken(ended.token(r.acme, "default", nil)), 401, "UNAUTHORIZED"},
		"cut off":                 {"/t/beta/api/v1/queues", withToken(m.token(r.beta, "default", nil)), 401, "TOKEN_WITHDRAWN"},
		"in a cookie":             {"/t/acme/api/v1/queues", cookie, 401, "UNAUTHORIZED"},
		"as an API key":           {"/t/acme/api/v1/queues", header("X-API-Key", good), 401, "UNAUTHORIZED"},
		"namespace of another":    {"/t/acme/api/v1/queues", withToken(m.token(r.acme, "default", func(c *usertoken.Claims) { c.NamespaceID = r.beta.namespace("default").GetId() })), 404, "NOT_FOUND"},
		"tenant that is not ours": {"/api/v1/queues", withToken(m.token(r.acme, "default", func(c *usertoken.Claims) { c.TenantID = "tn_" + strings.Repeat("X", 26) })), 401, "TOKEN_WITHDRAWN"},
	} {
		got := r.ask(r.http1, "GET", c.path, "", c.edit)
		if got.status != c.want || c.code != "" && !strings.Contains(got.body, `"code":"`+c.code+`"`) {
			t.Errorf("%s: %d %s; want %d %s", name, got.status, got.body, c.want, c.code)
		}
		if strings.Contains(got.body, "eyJ") {
			t.Errorf("%s: the answer quotes the token", name)
		}
	}
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func both(a, b func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) { a(r); b(r) }
}

// events opens an event stream that says one event and then stays open.
func (r *rig) events(edit func(*http.Request)) (*bufio.Reader, func()) {
	r.t.Helper()
	req, err := http.NewRequest("GET", r.base+"/t/acme/api/v1/events", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	edit(req)
	resp, err := r.h2c.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if resp.StatusCode != 200 {
		r.t.Fatal(readAnswer(r.t, resp).body)
	}
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "data: first\n" {
		r.t.Fatalf("first line %q, %v", line, err)
	}
	return lines, func() { _ = resp.Body.Close() }
}

// sayThenWait is a node's event stream: text, then nothing until the end.
func (r *rig) sayThenWait(text string) {
	for _, u := range r.up {
		u.does(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
			<-q.Context().Done()
		})
	}
}

func TestEventStream_SaysWhyTheProxyEndsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(r *rig, m mint)
		want string
	}{
		"expired":           {func(*rig, mint) {}, "TOKEN_EXPIRED"},
		"everybody cut off": {func(r *rig, _ mint) { r.apply(cutoffChange(r.acme.id, "", time.Now().Add(time.Second))) }, "TOKEN_WITHDRAWN"},
		"cut off":           {func(r *rig, _ mint) { r.apply(cutoffChange(r.acme.id, testUser, time.Now().Add(time.Second))) }, "TOKEN_WITHDRAWN"},
		"signing key gone":  {func(r *rig, m mint) { m.record.Deleted = true; r.apply(m.change()) }, "TOKEN_WITHDRAWN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, m := startRig(t, rigOptions{}), newMint(t)
			r.apply(m.change())
			r.sayThenWait("data: first\n\n")
			token := m.token(r.acme, "default", func(claims *usertoken.Claims) {
				if name == "expired" {
					claims.ExpiresAt = claims.IssuedAt.Add(3 * time.Second)
				}
			})
			lines, done := r.events(withToken(token))
			defer done()
			c.end(r, m)
			rest, err := io.ReadAll(lines)
			if err != nil {
				t.Fatalf("the stream broke off after %q: %v", rest, err)
			}
			want := regexp.MustCompile(`^\nevent: end\ndata: \{"seq":0,"type":"end","at_ns":\d+,"data":\{"code":"` + c.want + `","reason":"[^"]+"\}\}\n\n$`)
			if !want.Match(rest) {
				t.Errorf("the stream ended with %q, want %q", rest, want)
			}
		})
	}
}

func TestEventStream_InTheMiddleOfAnEventItBreaksOff(t *testing.T) {
	t.Parallel()
	r, m := startRig(t, rigOptions{}), newMint(t)
	r.apply(m.change())
	r.sayThenWait("data: first\ndata: sec")
	lines, done := r.events(withToken(m.token(r.acme, "default", nil)))
	defer done()
	r.apply(cutoffChange(r.acme.id, testUser, time.Now().Add(time.Second)))
	if rest, err := io.ReadAll(lines); err == nil {
		t.Errorf("half an event was ended in order: %q", rest)
	}
}

func TestUserCutoff_OfAnotherUserOrTenantEndsNothing(t *testing.T) {
	t.Parallel()
	r, m := startRig(t, rigOptions{}), newMint(t)
	r.apply(m.change())
	r.sayThenWait("data: first\n\n")
	lines, done := r.events(withToken(m.token(r.acme, "default", nil)))
	defer done()
	later := time.Now().Add(time.Second)
	r.apply(cutoffChange(r.acme.id, "usr_01J00000000000000000000008", later), cutoffChange(r.beta.id, testUser, later), cutoffChange(r.beta.id, "", later))
	ended := make(chan error, 1)
	go func() { _, err := io.ReadAll(lines); ended <- err }()
	select {
	case err := <-ended:
		t.Errorf("the stream ended: %v", err)
	case <-time.After(700 * time.Millisecond): // A sweep and some.
	}
	done()
	<-ended
}

func TestSnapshot_ForgetsOldCutoffs(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := (&snapshot{}).with([]*cellv1.Change{cutoffChange("tn_1", "usr_1", now), cutoffChange("tn_1", "usr_2", now.Add(cutoffKept/2))}, 1)
	if got := s.state().GetUserCutoffs(); len(got) != 2 {
		t.Fatalf("kept %v", got)
	}
	s = s.with([]*cellv1.Change{cutoffChange("tn_1", "usr_3", now.Add(cutoffKept+time.Second))}, 2)
	got := s.state().GetUserCutoffs()
	if len(got) != 2 || got[0].GetUserId() != "usr_2" || got[1].GetUserId() != "usr_3" {
		t.Errorf("kept %v", got)
	}
}

func TestKinds_OnlyDirectoryTokensDoNotOpenTheDataPlane(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	for kind, want := range map[string]int{"dp": 200, "mg": 200, "pat": 200, "scim": 401, "tmp": 200} {
		key := generateKind(t, kind)
		digest := key.Digest()
		r.apply(keyChange(&cellv1.Key{Id: key.ID(), TenantId: r.acme.id, Digests: [][]byte{digest[:]}, Grants: granted("operator")}))
		got := r.ask(r.http1, "GET", "/t/acme/api/v1/queues", "", withKey(key))
		if got.status != want {
			t.Errorf("%s: %d %s, want %d", kind, got.status, got.body, want)
		}
	}
}

func TestManagementKey_WorksInTheNamespaceItNamesWithItsOwnRoles(t *testing.T) {
	t.Parallel()
	r := startRig(t, rigOptions{})
	key := generateKind(t, "mg")
	digest := key.Digest()
	r.apply(keyChange(&cellv1.Key{Id: key.ID(), TenantId: r.acme.id, Digests: [][]byte{digest[:]}, Grants: granted("operator")}))
	for asked, want := range map[string]string{"": "default", "other": "other"} {
		got := r.ask(r.http1, "PUT", "/t/acme/api/v1/queues/emails", "{}", both(withKey(key), header("X-Corvo-Namespace", asked)))
		if got.status != 200 || got.seen.Identity.Namespace != want || got.seen.Identity.Grants.All != celladmin.RoleSet([]string{"operator"}) {
			t.Errorf("asked %q: %d %+v", asked, got.status, got.seen.Identity)
		}
	}
	if got := r.ask(r.http1, "GET", "/t/acme/api/v1/queues", "", both(withKey(key), header("X-Corvo-Namespace", "nothing"))); got.status != 404 {
		t.Errorf("a namespace that is not there: %d", got.status)
	}
	if got := r.ask(r.http1, "GET", "/t/beta/api/v1/queues", "", withKey(key)); got.status != 403 {
		t.Errorf("another tenant: %d", got.status)
	}
}
