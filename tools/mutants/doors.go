package main

const (
	gateFile     = "internal/server/gate.go"
	authenticate = "internal/server/authenticate.go"
	accessFile   = "internal/access/access.go"
	rightsFile   = "internal/rights/rights.go"
	give         = "internal/principals/give.go"
	bindingsFile = "internal/principals/bindings.go"
	keyrules     = "internal/tenancy/keyrules.go"
	samlShape    = "internal/saml/shape.go"
	samlRead     = "internal/saml/assertion.go"
	scimHandler  = "internal/scim/handler.go"
	dirDoor      = "internal/directory/door.go"
	dirUsers     = "internal/directory/users.go"
	grantsFile   = "permission/grants.go"
	networksFile = "clientnet/networks.go"
)

// doorMutations break who gets into the control plane, and what they may there.
var doorMutations = []mutation{
	// The gate.
	{"a call about a tenant needs no permission", gateFile, "if !c.Enters(g.rule.permission) {", "if !c.Enters(g.rule.permission) && c.TenantID == \"\" {"},
	{"a half-open session is a whole one", gateFile, "if c.HalfOpen && !g.rule.halfOpen {", "if c.HalfOpen && !g.rule.halfOpen && g.rule.safe {"},
	{"a key works in the tenant that is named", gateFile, "if named != \"\" && named != c.TenantID && named != c.Tenant {", "if named != \"\" && named == c.KeyID {"},
	{"a browser on another site calls", gateFile, "if byCookie && !sameOrigin(r.Header, g.URLs.Public) {", "if byCookie && len(r.Header) == 0 {"},
	{"a program without an origin is a browser of ours", gateFile, "return h.Get(\"Origin\") == public", "return h.Get(\"Origin\") == public || h.Get(\"Origin\") == \"\""},
	{"another site signs a browser in", gateFile, "if site == \"cross-site\" || site == \"same-site\" ||", "if site == \"same-site\" ||"},
	{"a wrong secret is a right one", authenticate, "found |= same\n", "found |= 1 | same\n"},
	{"a secret that ended counts", authenticate, "if len(v.Digest) == len(digest) && !ended(v.ExpiresAt, now) {", "if len(v.Digest) == len(digest) {"},
	{"a revoked key opens", authenticate, "|| !k.RevokedAt.IsZero() || ended(k.ExpiresAt, now) {", "|| ended(k.ExpiresAt, now) {"},
	{"a key that expired opens", authenticate, "|| !k.RevokedAt.IsZero() || ended(k.ExpiresAt, now) {", "|| !k.RevokedAt.IsZero() {"},
	{"a key's networks are not asked", authenticate, "if !clientnet.NetworksOf(k.CIDRs).Has(bare.Peer) {", "if !clientnet.NetworksOf(nil).Has(bare.Peer) {"},
	{"two credentials are one", authenticate, "if len(values) > 1 || ", "if "},
	{"a session is of no tenant alone", authenticate, "bare.OnlyTenantID, bare.BySSO, bare.ByCLI = s.TenantID,", "bare.OnlyTenantID, bare.BySSO, bare.ByCLI = \"\","},
	{"whoever shows no factor is whole", authenticate, "bare.HalfOpen, bare.ProvedAt = s.Pending != \"\",", "bare.HalfOpen, bare.ProvedAt = false,"},
	{"what is of the tenant is held somewhere", accessFile, "if asked.Level() == permission.OfTenant {", "if asked.Level() > permission.OfTenant {"},

	// What somebody has.
	{"a disabled account may", rightsFile, "|| err == nil && sa.Disabled {", "|| err == nil && sa.Disabled && sa.ID == \"\" {"},
	{"a key is not narrowed", rightsFile, "Grants: owner.Grants.Narrow(Limit(k)),", "Grants: owner.Grants,"},
	{"a key's permissions are all", rightsFile, "if len(k.Permissions) > 0 {", "if len(k.Permissions) > 1000 {"},
	{"a role in a namespace gives what is of the tenant", rightsFile, "[]string{namespaceID}, r.Permissions.At(permission.OfNamespace)", "[]string{namespaceID}, r.Permissions"},
	{"a role in a queue gives what is of the namespace", rightsFile, "[]string{queues}, r.Permissions.At(permission.OfQueue)", "[]string{queues}, r.Permissions"},
	{"anybody gives anything", give, "if len(beyond) == 0 {", "if len(beyond) < 1000 {"},
	{"the last owner goes", give, "if err != nil || n > 1 {", "if err != nil || n > 0 {"},
	{"a role is given without having it", bindingsFile, "permission.Grants{role.Grant(b.NamespaceID, b.Queues)}, \"the role \"+role.Name); err != nil {\n\t\t\treturn err", "permission.Grants{}, \"the role \"+role.Name); err != nil {\n\t\t\treturn err"},
	{"somebody else's key is rotated", keyrules, "k.OwnerID != c.UserID {", "k.OwnerID == c.KeyID {"},
	{"a key makes one that lives longer", keyrules, "if !by.ExpiresAt.IsZero() && (", "if by.ExpiresAt.IsZero() && ("},
	{"a key makes one for more networks", keyrules, "if !clientnet.NetworksOf(by.CIDRs).Covers(clientnet.NetworksOf(k.CIDRs)) {", "if !clientnet.NetworksOf(nil).Covers(clientnet.NetworksOf(k.CIDRs)) {"},

	// SAML.
	{"an unknown element stays", samlShape, "if found[nameOf(c)] > 0 {", "if found[nameOf(c)] > 1000 {"},
	{"two assertions are one", samlShape, "case n > p.max:", "case n > p.max+1000:"},
	{"text hides between elements", samlShape, "case strings.TrimSpace(textOf(el)) != \"\":", "case strings.TrimSpace(textOf(el)) == \"...\":"},
	{"a name holds elements", samlShape, "case s.text && len(el.ChildElements()) > 0:", "case s.text && len(el.ChildElements()) > 1000:"},
	{"what is not read hides assertions", samlShape, "case n.space == protocol, n.space == assertion, isPart,", "case isPart && n.tag == \"\","},
	{"two elements have one ID", samlShape, "if a.Value == \"\" || seen[a.Value] {", "if a.Value == \"\" {"},
	{"nothing needs to be signed", samlRead, "\tif !whole {\n", "\tif !whole && el == nil {\n"},
	{"a plain assertion will do", samlRead, "if c.WantEncrypted {", "if c.WantEncrypted && root == nil {"},
	{"another door's response opens", samlRead, "destination != \"\" && destination != c.ACS:", "destination != \"\" && destination == \"...\":"},
	{"the answer to another request counts", samlRead, "case attribute(root, \"InResponseTo\") != want.RequestID:", "case attribute(root, \"InResponseTo\") == \"...\":"},
	{"another issuer's assertion counts", samlRead, "case out.Issuer != c.Issuer:", "case out.Issuer == \"\":"},
	{"another audience is ours", samlRead, "if !fits {", "if !fits && r == nil {"},
	{"it is valid before its time", samlRead, "case !from.IsZero() && now.Add(SkewMax).Before(from):", "case !from.IsZero() && now.IsZero():"},
	{"it is valid after its time", samlRead, "case !until.IsZero() && !now.Before(until.Add(SkewMax)):", "case !until.IsZero() && now.IsZero():"},
	{"another recipient is us", samlRead, "case attribute(data, \"Recipient\") != c.ACS:", "case attribute(data, \"Recipient\") == \"...\":"},
	{"a key's holder is a bearer", samlRead, "if attribute(s, \"Method\") != bearer {", "if attribute(s, \"Method\") == \"\" {"},
	{"a passing name is a person", samlRead, "case out.SubjectFormat == transient:", "case out.SubjectFormat == \"...\":"},

	// SCIM.
	{"a revoked token opens the directory", dirDoor, "|| !t.RevokedAt.IsZero() || ", "|| "},
	{"a token that expired opens the directory", dirDoor, "|| !now.Before(t.ExpiresAt) ||", "||"},
	{"a wrong token opens the directory", dirDoor, "if err != nil || !good || ", "if err != nil || !good && key.ID() == \"\" || "},
	{"another directory's people are one's own", dirUsers, "|| err == nil && v.ConnectionID != d.conn.ID {", "{"},
	{"who was removed comes back by the directory", dirUsers, "if err != nil || !gone {", "if err != nil || gone || !gone {"},
	{"an inactive person keeps their place", dirUsers, "if was && !wanted(o) {", "if was && !wanted(o) && v.UserID == \"\" {"},
	{"who is deleted may return", dirUsers, "if !byPeople {", "if !byPeople && v.UserID == \"\" {"},
	{"an older copy overwrites a newer", scimHandler, "tags != \"\" && !among(tags, r) {", "tags != \"\" && len(tags) > 1000 {"},
}

// grantMutations break the arithmetic of rights.
var grantMutations = []mutation{
	{"what is in a namespace is in the tenant", grantsFile, "if len(g[i].Namespaces) == 0 && len(g[i].Queues) == 0 {", "if len(g[i].Queues) == 0 {"},
	{"what is in queues is in the namespace", grantsFile, "if g[i].Permissions.Has(p) && len(g[i].Queues) == 0 && g[i].in(namespaceID) {", "if g[i].Permissions.Has(p) && g[i].in(namespaceID) {"},
	{"every namespace is meant", grantsFile, "return len(g.Namespaces) == 0 || slices.Contains(g.Namespaces, namespaceID)", "return true"},
	{"a name is a prefix", grantsFile, "\treturn pattern == queue\n", "\treturn strings.HasPrefix(queue, pattern)\n"},
	{"a name covers its prefix", grantsFile, "return pattern == other || wild && strings.HasPrefix(otherPrefix, prefix)", "return pattern == other || (wild || !wild) && strings.HasPrefix(otherPrefix, prefix)"},
	{"a namespace covers the tenant", grantsFile, "if p.Namespace == \"\" && len(o.Namespaces) > 0 || p.Namespace != \"\" && !o.in(p.Namespace) {", "if p.Namespace != \"\" && !o.in(p.Namespace) {"},
	{"queues cover the namespace", grantsFile, "if len(o.Queues) > 0 && (p.Queues == \"\" || !slices", "if len(o.Queues) > 0 && (p.Queues != \"\" && !slices"},
	{"narrowing widens", grantsFile, "n := Grant{Permissions: o.Permissions.And(limit.Permissions)}", "n := Grant{Permissions: o.Permissions.Or(limit.Permissions)}"},
	{"two places that don't meet are all", grantsFile, "if namespaces && queues && !n.Permissions.Empty() {", "if (namespaces || queues || true) && !n.Permissions.Empty() {"},
	{"what is of the tenant stays in a queue", grantsFile, "n.Permissions = n.Permissions.And(OfLevel(OfQueue))", "n.Permissions = n.Permissions.And(OfLevel(OfNamespace))"},
	{"an unreadable limit is none", networksFile, "n := Networks{limited: len(texts) > 0}", "n := Networks{limited: false}"},
	{"an address that can't be told is inside", networksFile, "return ok && slices.ContainsFunc(n.list,", "return !ok || slices.ContainsFunc(n.list,"},
	{"a wider network is inside", networksFile, "p.Bits() <= in.Bits() && p.Contains(in.Addr())", "p.Contains(in.Addr())"},
}
