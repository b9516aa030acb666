package isolation

import (
	"cmp"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// endsWithin is how long an ended credential, and what is open by it, may still work.
const endsWithin = time.Second

// expiresIn is long enough to see a key work before it expires.
const expiresIn = 4 * time.Second

// endedKeys were valid until a moment ago.
func (m *matrix) endedKeys(t *testing.T) {
	t.Helper()
	for _, c := range []struct {
		name, is string
		kind     kind
	}{{"jobs", "KEY_KIND_JOBS", jobs}, {"management", "KEY_KIND_MANAGEMENT", management}} {
		make := func(with o) (id string, _ credential) {
			maps.Copy(with, o{"roles": []string{"admin"}})
			id, text := m.key(t, m.own, m.own.admin(), c.is, with)
			return id, credential{kind: c.kind, headers: bearer(text)}
		}
		soon := time.Now().Add(expiresIn)
		_, expired := make(o{"expiresAt": soon.Format(time.RFC3339Nano)})
		m.endedBy(t, map[string]credential{"expired-" + c.name: expired}, func() { m.wait(t, time.Until(soon)) })
		id, revoked := make(o{})
		m.endedBy(t, map[string]credential{"revoked-" + c.name: revoked}, func() {
			m.must(t, "ApiKeyService/RevokeApiKey", o{"tenant": ownName, "keyId": id}, m.own.admin(), nil)
		})
		id, rotated := make(o{})
		m.endedBy(t, map[string]credential{"rotated-out-" + c.name: rotated}, func() {
			m.must(t, "ApiKeyService/RotateApiKey", o{"tenant": ownName, "keyId": id}, m.own.admin(), nil)
		})
	}
}

// endedMachines: a key that was given for a token ends by itself, with its trust, and with its
// service account.
func (m *matrix) endedMachines(t *testing.T) {
	t.Helper()
	with := func(name string, c *machine, end func(keyID string)) {
		k := c.exchanged(t)
		m.endedBy(t, map[string]credential{name: {kind: management, headers: bearer(k.Key)}}, func() { end(k.KeyID) })
	}
	c := m.machine(t, m.own, "admin")
	with("revoked-exchanged", c, func(id string) {
		m.must(t, "ApiKeyService/RevokeApiKey", o{"tenant": ownName, "keyId": id}, m.own.admin(), nil)
	})
	with("distrusted-exchanged", c, func(string) {
		m.must(t, "TrustService/DeleteTrust", o{"tenant": ownName, "trustId": c.trust}, m.own.admin(), nil)
	})
	c = m.machine(t, m.own, "admin")
	with("disabled-exchanged", c, func(string) {
		m.must(t, "ServiceAccountService/UpdateServiceAccount", o{"tenant": ownName, "serviceAccountId": c.account, "disabled": true, "updateMask": "disabled"}, m.own.admin(), nil)
	})
}

// endedPeople are a removed member with all their credentials, one who is no longer an
// admin, and one who signed out everywhere.
func (m *matrix) endedPeople(t *testing.T) {
	t.Helper()
	whole, invited := m.member(t, m.own, "removed", "admin")
	m.endedBy(t, map[string]credential{
		"removed-session": {kind: session, headers: whole, account: true}, "removed-session-invited": {kind: session, headers: invited},
		"removed-terminal": {kind: session, headers: m.terminal(t, whole), account: true}, "removed-token": {kind: token, headers: bearer(m.mint(t, m.own, whole))},
		"removed-personal": {kind: management, headers: m.personal(t, m.own, whole)},
	}, func() {
		m.must(t, "MemberService/RemoveMember", o{"tenant": ownName, "userId": m.userID(t, "removed")}, m.own.admin(), nil)
	})

	demoted, _ := m.member(t, m.own, "demoted", "admin")
	m.endedBy(t, map[string]credential{"demoted-token": {kind: token, headers: bearer(m.mint(t, m.own, demoted))}}, func() {
		m.become(t, "demoted", "viewer")
	})

	left, _ := m.member(t, m.own, "left", "admin")
	m.endedBy(t, map[string]credential{
		"signed-out-session": {kind: session, headers: left}, "signed-out-terminal": {kind: session, headers: m.terminal(t, left)},
		"signed-out-token": {kind: token, headers: bearer(m.mint(t, m.own, left))},
	}, func() { m.must(t, "AuthService/Logout", o{"everywhere": true}, left, nil) })
}

// become gives a member another role.
func (m *matrix) become(t *testing.T, name, role string) {
	t.Helper()
	m.must(t, "MemberService/UpdateMember", o{"tenant": ownName, "userId": m.userID(t, name), "roles": []string{role}}, m.own.admin(), nil)
}

func (m *matrix) userID(t *testing.T, name string) string {
	t.Helper()
	var list struct {
		Members []struct{ UserID, Email string }
	}
	m.must(t, "MemberService/ListMembers", o{"tenant": ownName, "pageSize": 100}, m.own.admin(), &list)
	for _, one := range list.Members {
		if one.Email == name+"@example.com" {
			return one.UserID
		}
	}
	t.Fatalf("no member %s", name)
	return ""
}

// endedTenant had every kind of credential when it was deleted. They are asked about what it
// had, and for a stranger's new token there is no key any more.
func (m *matrix) endedTenant(t *testing.T) {
	t.Helper()
	of := m.signUp(t, goneName)
	_, invited := m.member(t, of, "orphan", "admin")
	pod := m.machine(t, of, "admin")
	_, directory := m.scimToken(t, goneName, m.directory(t, goneName, of.admin()), of.admin())
	all := map[string]credential{
		"deleted-jobs": {kind: jobs, headers: bearer(of.jobs)}, "deleted-management": {kind: management, headers: of.admin()},
		"deleted-personal": {kind: management, headers: m.personal(t, of, of.owner)}, "deleted-exchanged": {kind: management, headers: bearer(pod.exchange(t))},
		"deleted-session": {kind: session, headers: of.owner, account: true}, "deleted-terminal": {kind: session, headers: m.terminal(t, of.owner), account: true},
		"deleted-session-invited": {kind: session, headers: invited}, "deleted-token": {kind: token, headers: bearer(m.mint(t, of, of.owner))},
		"deleted-scim": {kind: scim, headers: bearer(directory)},
	}
	for name, c := range all {
		c.tenant = goneName
		all[name] = c
	}
	m.endedBy(t, all, func() { m.deleteTenant(t, goneName) })
	for _, tenant := range []string{goneName, nowhere} {
		a := m.call(t, "TrustService/ExchangeToken", o{"tenant": tenant, "token": m.issuer.Token(t, pod.subject)}, nil)
		if a.status != http.StatusUnauthorized {
			t.Errorf("a token is exchanged in tenant %s: %d %s", tenant, a.status, a.body)
		}
	}
}

// endedBy ends working credentials together, and measures how long they still work, and how
// long what is open by them stays open.
func (m *matrix) endedBy(t *testing.T, all map[string]credential, end func()) {
	t.Helper()
	var open errgroup.Group
	closed := make(chan string, len(all)*replicas)
	for name, c := range all {
		m.waitOpen(t, c)
		for _, front := range m.fronts {
			if stream := m.watch(t, c, front); stream != nil {
				open.Go(func() error {
					defer func() { closed <- name }()
					defer stream.Body.Close()
					_, _ = io.Copy(io.Discard, stream.Body) // However it ends.
					return nil
				})
			}
		}
	}
	end()
	began := time.Now()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := all[name]
		for m.opens(t, c) > 0 {
			if late := time.Since(began); late > endsWithin {
				t.Errorf("%s still works after %s", name, late)
				break
			}
			m.pause(t)
		}
		c.name, c.ended = name, true
		m.cast = append(m.cast, c)
	}
	ended := make(chan struct{})
	go func() { _ = open.Wait(); close(ended) }() // Ends with the streams, the test's at the latest.
	select {
	case <-ended:
	case <-time.After(time.Until(began.Add(endsWithin + endsWithin))):
		t.Errorf("of the streams of %v, %d have ended", slices.Sorted(maps.Keys(all)), len(closed))
	}
	t.Logf("%d ended within %s", len(all), time.Since(began).Round(time.Millisecond))
}

// waitOpen waits until a credential opens everything that it is for, at every front.
func (m *matrix) waitOpen(t *testing.T, c credential) {
	t.Helper()
	for m.opens(t, c) < len(m.doors(c)) {
		m.pause(t)
	}
}

// opens counts the doors that a credential opens.
func (m *matrix) opens(t *testing.T, c credential) (n int) {
	t.Helper()
	for _, door := range m.doors(c) {
		if m.sent(t, door).status < http.StatusBadRequest {
			n++
		}
	}
	return n
}

// doors are a request to each side that a credential is for, at every front.
func (m *matrix) doors(c credential) (all []request) {
	tenant := cmp.Or(c.tenant, ownName)
	for _, front := range m.fronts {
		if c.kind == session || c.kind == management {
			all = append(all, request{method: "POST", base: front, path: "/corvo.cloud.v1.TenantService/GetTenant", body: o{"tenant": tenant}, headers: c.headers})
		}
		if c.kind == jobs || c.kind == token || c.kind == management {
			all = append(all, request{method: "GET", base: front, path: "/t/" + tenant + "/api/v1/queues", headers: c.headers})
		}
		if c.kind == scim {
			all = append(all, request{method: "GET", base: front, path: scimPath + "/Users", headers: c.headers})
		}
	}
	return all
}

// watch opens a stream of events by a credential that can; nil otherwise.
func (m *matrix) watch(t *testing.T, c credential, front string) *http.Response {
	t.Helper()
	if c.kind == session || c.kind == scim {
		return nil
	}
	r, err := http.NewRequestWithContext(m.ctx, http.MethodGet, front+"/t/"+cmp.Or(c.tenant, ownName)+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range elsewhere(request{headers: c.headers}).headers {
		r.Header.Set(name, value)
	}
	res, err := streams.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		t.Fatalf("a stream of events: %s", res.Status)
	}
	return res
}

// streams have no timeout.
var streams = &http.Client{Transport: &http.Transport{DisableCompression: true}}
