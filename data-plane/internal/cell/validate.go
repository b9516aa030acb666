package cell

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// problems collects what is wrong with the form of a change set. Whether it fits
// the stored state is edit's business.
type problems struct {
	path   string
	fields []fault.Field
	// asked: before it is proposed. What apply doesn't check, because an older program of
	// the same cell does not know these fields and has to decide alike.
	asked bool
}

// problemsMax bounds a refusal, not the check.
const problemsMax = 100

func (p *problems) add(field, format string, args ...any) {
	if len(p.fields) < problemsMax {
		p.fields = append(p.fields, fault.Field{Path: p.path + field, Message: fmt.Sprintf(format, args...)})
	}
}

func (p *problems) require(ok bool, field, format string, args ...any) {
	if !ok {
		p.add(field, format, args...)
	}
}

// validate checks the form of a change set as apply does, all problems at once.
func validate(req *cellv1.ApplyRequest) error { return (&problems{}).of(req) }

// validateAsked checks a change set that is to be proposed.
func validateAsked(req *cellv1.ApplyRequest) error { return (&problems{asked: true}).of(req) }

func (p *problems) of(req *cellv1.ApplyRequest) error {
	p.require(len(req.GetChanges()) <= changesMax, "changes", "can't have more than %d changes", changesMax)
	p.require(len(req.GetChanges()) > 0 || req.GetSource() != "", "changes", "is empty")
	p.require(len(req.GetSource()) <= sourceBytesMax && isPrintable(req.GetSource()), "source", "can only have up to %d printable characters", sourceBytesMax)
	for field, id := range map[string]string{"incarnation": req.GetIncarnation(), "replaces_incarnation": req.GetReplacesIncarnation()} {
		p.require(len(id) <= sourceBytesMax && isPrintable(id), field, "can only have up to %d printable characters", sourceBytesMax)
	}
	for i, c := range req.GetChanges() {
		p.path = fmt.Sprintf("changes[%d].", i)
		p.change(c)
	}
	if len(p.fields) > 0 {
		return fault.InvalidFields(p.fields)
	}
	return nil
}

func (p *problems) change(c *cellv1.Change) {
	switch c := c.GetChange().(type) {
	case *cellv1.Change_Tenant:
		p.tenant(c.Tenant)
	case *cellv1.Change_Namespace:
		p.namespace(c.Namespace)
	case *cellv1.Change_Key:
		p.key(c.Key)
	case *cellv1.Change_Node:
		p.node(c.Node)
	case *cellv1.Change_RemoveNodeId:
		p.require(isNodeID(c.RemoveNodeId), "remove_node_id", "isn't a node id")
	case *cellv1.Change_Shards:
		p.shards(c.Shards)
	case *cellv1.Change_TokenKey:
		p.tokenKey(c.TokenKey)
	case *cellv1.Change_UserCutoff:
		p.userCutoff(c.UserCutoff)
	case *cellv1.Change_SweptNamespaceId:
		_, err := job.ParseNamespace(c.SweptNamespaceId)
		p.require(err == nil, "swept_namespace_id", "must be ns_ followed by 26 characters")
	case *cellv1.Change_Version:
		p.require(c.Version > 0, "version", "must be more than 0")
	case *cellv1.Change_Forget:
		p.forget(c.Forget)
	}
}

func (p *problems) tenant(t *cellv1.Tenant) {
	p.require(isTenantID(t.GetId()), "tenant.id", "must be tn_ followed by 26 characters")
	p.name("tenant.name", t.GetName())
	p.require(!isReservedName(t.GetName()), "tenant.name", "%q is reserved", t.GetName())
	l := t.GetLimits()
	p.require(l.GetPayloadBytesMax() >= 0 && l.GetPayloadBytesMax() <= math.MaxInt32, "tenant.limits.payload_bytes_max", "is out of range")
	p.require(l.GetEnqueuePerSecond() >= 0, "tenant.limits.enqueue_per_second", "can't be negative")
	p.require(l.GetStreamsMax() >= 0, "tenant.limits.streams_max", "can't be negative")
	if p.asked {
		p.planLimits(l)
	}
	p.require(l.GetWeight() >= 0 && l.GetWeight() <= weightMax, "tenant.limits.weight", "must be 0 to %d", weightMax)
	p.retention("tenant.limits.retention", l.GetRetention())
	p.retention("tenant.limits.retention_max", l.GetRetentionMax())
}

func (p *problems) planLimits(l *cellv1.Limits) {
	p.require(l.GetEnqueueBurst() >= 0 && l.GetEnqueueBurst() <= math.MaxInt32, "tenant.limits.enqueue_burst", "is out of range")
	p.require(l.GetOpenJobsMax() >= 0, "tenant.limits.open_jobs_max", "can't be negative")
	p.require(l.GetStoredBytesMax() >= 0, "tenant.limits.stored_bytes_max", "can't be negative")
	p.hold(l.GetHold())
}

func (p *problems) hold(h *cellv1.Hold) {
	if h == nil {
		return
	}
	p.require(h.GetDispatch() || h.GetEnqueue(), "tenant.limits.hold", "must hold dispatch or enqueue")
	name := h.GetLimit()
	p.require(name != "" && len(name) <= limitNameBytesMax && isPrintable(name), "tenant.limits.hold.limit", "must be 1 to %d printable ASCII characters", limitNameBytesMax)
	p.require(h.GetValue() >= 0, "tenant.limits.hold.value", "can't be negative")
	p.require(h.GetUntilNs() >= 0, "tenant.limits.hold.until_ns", "can't be negative")
}

// weightMax is how much more than another one a tenant may have.
const weightMax = 1000

func (p *problems) retention(field string, r *cellv1.Retention) {
	for _, age := range []struct {
		name string
		ns   int64
	}{
		{"completed_ns", r.GetCompletedNs()}, {"dead_ns", r.GetDeadNs()}, {"cancelled_ns", r.GetCancelledNs()},
		{"events_ns", r.GetEventsNs()}, {"usage_ns", r.GetUsageNs()},
	} {
		p.require(age.ns == 0 || age.ns >= int64(retention.AgeMin) && age.ns <= int64(retention.AgeMax), field+"."+age.name, "must be 0, or from %d (a minute) to %d (ten years) nanoseconds", int64(retention.AgeMin), int64(retention.AgeMax))
	}
	p.require(r.GetFinishedMax() >= 0, field+".finished_max", "can't be negative")
	p.require(r.GetEventsBytes() >= 0, field+".events_bytes", "can't be negative")
}

func (p *problems) name(field, name string) {
	p.require(isName(name), field, "must be 3 to 40 characters a-z, 0-9 and -, start with a letter and not end with -")
}

func (p *problems) namespace(n *cellv1.Namespace) {
	_, err := job.ParseNamespace(n.GetId())
	p.require(err == nil, "namespace.id", "must be ns_ followed by 26 characters")
	p.require(isTenantID(n.GetTenantId()), "namespace.tenant_id", "must be tn_ followed by 26 characters")
	p.name("namespace.name", n.GetName())
	p.retention("namespace.retention", n.GetRetention())
}

func (p *problems) key(k *cellv1.Key) {
	p.require(isKeyID(k.GetId()), "key.id", "must be key_ followed by %d letters and digits", keyIDChars)
	p.require(isTenantID(k.GetTenantId()), "key.tenant_id", "must be tn_ followed by 26 characters")
	p.require(len(k.GetName()) <= keyNameBytesMax, "key.name", "can't have more than %d bytes", keyNameBytesMax)
	p.require(k.GetNotAfterNs() >= 0, "key.not_after_ns", "can't be negative")
	p.require(k.GetPrincipalId() == "" || isPrincipalID(k.GetPrincipalId()), "key.principal_id", "must be sa_ or usr_ followed by 26 characters")
	p.digests(k)
	p.roles(k)
	p.grants(k.GetGrants())
	p.namespaceIDs("key.namespace_ids", k.GetNamespaceIds())
	if id := k.GetDefaultNamespaceId(); id != "" {
		p.namespaceIDs("key.default_namespace_id", []string{id})
	}
	p.cidrs(k.GetCidrs())
}

func (p *problems) digests(k *cellv1.Key) {
	// A revoked key needs no digest any more.
	enough := len(k.GetDigests()) >= 1 || k.GetRevoked()
	p.require(enough && len(k.GetDigests()) <= digestsMax, "key.digests", "must have 1 to %d", digestsMax)
	p.require(len(k.GetDigestEndsNs()) <= len(k.GetDigests()), "key.digest_ends_ns", "can't have more than one for each digest")
	for i, at := range k.GetDigestEndsNs() {
		p.require(at >= 0, fmt.Sprintf("key.digest_ends_ns[%d]", i), "can't be negative")
	}
	p.require(len(k.GetRetiredDigests()) <= retiredMax, "key.retired_digests", "can't have more than %d", retiredMax)
	for i, d := range k.GetDigests() {
		p.require(len(d) == digestBytes, fmt.Sprintf("key.digests[%d]", i), "must have %d bytes", digestBytes)
	}
}

// roles goes with the record's roles and namespace_ids.
func (p *problems) roles(k *cellv1.Key) {
	p.require(len(k.GetGrants()) == 0 || len(k.GetRoles())+len(k.GetNamespaceIds()) == 0, "key.roles", "can't be with grants")
	for i, name := range k.GetRoles() {
		_, known := permission.FixedRole(name)
		p.require(known, fmt.Sprintf("key.roles[%d]", i), "isn't a role")
		p.require(!slices.Contains(k.GetRoles()[:i], name), fmt.Sprintf("key.roles[%d]", i), "is listed twice")
		if i == keyNamespacesMax {
			return // Certainly refused: there are fewer roles than that.
		}
	}
}

func (p *problems) grants(list []*cellv1.Grant) {
	namespaces, queues, size := 0, 0, 0
	for _, g := range list {
		namespaces, queues = namespaces+len(g.GetNamespaceIds()), queues+len(g.GetQueues())
		for _, q := range g.GetQueues() {
			size += len(q)
		}
	}
	if len(list) > keyGrantsMax || namespaces > keyNamespacesMax || queues > keyQueuesMax || size > keyQueueBytesMax {
		p.add("key.grants", "can't have more than %d, with %d namespaces and %d patterns of queues of %d bytes altogether", keyGrantsMax, keyNamespacesMax, keyQueuesMax, keyQueueBytesMax)
		return
	}
	for i, g := range list {
		at := fmt.Sprintf("key.grants[%d].", i)
		set, err := permission.SetFrom(g.GetPermissions())
		p.require(err == nil && !set.Empty(), at+"permissions", "must have %d bytes, and a permission", permission.SetBytes)
		p.namespaceIDs(at+"namespace_ids", g.GetNamespaceIds())
		p.patterns(at+"queues", g.GetQueues())
	}
}

func (p *problems) patterns(field string, list []string) {
	for i, pattern := range list {
		if err := permission.CheckPattern(pattern); err != nil {
			p.add(fmt.Sprintf("%s[%d]", field, i), "%s", err.Error())
		}
		p.require(!slices.Contains(list[:i], pattern), fmt.Sprintf("%s[%d]", field, i), "is listed twice")
	}
}

func (p *problems) cidrs(list []string) {
	if len(list) > keyCIDRsMax {
		p.add("key.cidrs", "can't have more than %d", keyCIDRsMax)
		return
	}
	for i, text := range list {
		form, ok := clientnet.Network(text)
		p.require(ok && form == text, fmt.Sprintf("key.cidrs[%d]", i),
			"must be a canonical prefix such as 10.1.0.0/16, 10.0.0.7/32 or 2001:db8::/48")
		p.require(!slices.Contains(list[:i], text), fmt.Sprintf("key.cidrs[%d]", i), "is listed twice")
	}
}

func (p *problems) namespaceIDs(field string, ids []string) {
	if len(ids) > keyNamespacesMax {
		p.add(field, "can't have more than %d", keyNamespacesMax)
		return
	}
	for i, id := range ids {
		_, err := job.ParseNamespace(id)
		p.require(err == nil, fmt.Sprintf("%s[%d]", field, i), "must be ns_ followed by 26 characters")
		p.require(!slices.Contains(ids[:i], id), fmt.Sprintf("%s[%d]", field, i), "is listed twice")
	}
}

func (p *problems) tokenKey(k *cellv1.TokenKey) {
	p.require(isTokenKeyID(k.GetId()), "token_key.id", "must be tk_ followed by %d hexadecimal digits", tokenKeyHex)
	p.require(k.GetDeleted() || len(k.GetPublicKey()) == publicKeyBytes, "token_key.public_key", "must have %d bytes", publicKeyBytes)
	p.require(len(k.GetPublicKey()) <= publicKeyBytes, "token_key.public_key", "must have %d bytes", publicKeyBytes)
	p.require(k.GetNotAfterNs() >= 0, "token_key.not_after_ns", "can't be negative")
}

func (p *problems) userCutoff(c *cellv1.UserCutoff) {
	p.require(isTenantID(c.GetTenantId()), "user_cutoff.tenant_id", "must be tn_ followed by 26 characters")
	p.require(c.GetUserId() == "" || isUserID(c.GetUserId()), "user_cutoff.user_id", "must be usr_ followed by 26 characters, or empty for all users")
	p.require(c.GetNotBeforeNs() > 0, "user_cutoff.not_before_ns", "must be more than 0")
}

func (p *problems) forget(f *cellv1.Forget) {
	p.require(len(f.GetGone()) > 0 && len(f.GetGone()) <= forgetMax, "forget.gone", "must have 1 to %d", forgetMax)
	for i, g := range f.GetGone() {
		_, err := job.ParseNamespace(g.GetId())
		p.require(err == nil || isTenantID(g.GetId()) || isKeyID(g.GetId()), fmt.Sprintf("forget.gone[%d].id", i), "must be the id of a tenant, namespace or key")
		p.require(g.GetAtNs() >= 0, fmt.Sprintf("forget.gone[%d].at_ns", i), "can't be negative")
	}
}

func (p *problems) node(n *cellv1.Node) {
	p.require(isNodeID(n.GetId()), "node.id", "must be 1 to %d characters A-Z a-z 0-9 - _ . /", nodeIDBytesMax)
	p.require(isAddress(n.GetRaftAddress()), "node.raft_address", "must be host:port")
	p.require(n.GetFolderId() == "" || isNodeID(n.GetFolderId()), "node.folder_id", "must be 1 to %d characters A-Z a-z 0-9 - _ . /", nodeIDBytesMax)
	p.require(n.GetLowestVersion() <= n.GetHighestVersion() && (n.GetLowestVersion() == 0) == (n.GetHighestVersion() == 0),
		"node.lowest_version", "must be 1 to node.highest_version, or both 0")
	p.require(isBaseURL(n.GetApiUrl()), "node.api_url", "must be http://host:port or https://host:port, without a path")
}

// isAddress and isBaseURL are our own, because apply must give the same result
// under every version of the standard library.
func isAddress(s string) bool {
	i := strings.LastIndexByte(s, ':')
	if i <= 0 || len(s) > addressBytesMax || !isPrintable(s) || strings.ContainsAny(s, " /@?#") {
		return false
	}
	port := s[i+1:]
	return port != "" && len(port) <= 5 && all(port, isDigit)
}

func isBaseURL(s string) bool {
	host, ok := strings.CutPrefix(s, "http://")
	if !ok {
		host, ok = strings.CutPrefix(s, "https://")
	}
	return ok && isAddress(host)
}

func (p *problems) shards(s *cellv1.Shards) {
	ids := s.GetIds()
	p.require(len(ids) > 0 && len(ids) <= shardsMax, "shards.ids", "must have 1 to %d", shardsMax)
	for i, id := range ids {
		if id <= GroupID || i > 0 && id <= ids[i-1] {
			p.add("shards.ids", "must be ascending group numbers above %d", GroupID)
			return
		}
	}
}
