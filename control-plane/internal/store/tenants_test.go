package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// fullTenants gives both tenants one record of every kind; ids end in a or b.
func fullTenants(t *testing.T, s store.Store) {
	t.Helper()
	service(t, s, func(ctx context.Context, tx *store.Tx) error {
		for _, x := range []string{"a", "b"} {
			tn := "tn_" + x
			err := errors.Join(
				tx.InsertTenant(ctx, tenant(tn, "tenant-"+x)), tx.InsertUser(ctx, user("usr_"+x, x+"@example.com")),
				tx.InsertMembership(ctx, membership(tn, "usr_"+x)), tx.InsertBinding(ctx, owning(tn, "usr_"+x)),
				tx.InsertNamespace(ctx, namespace(tn, "ns_"+x, "default")), tx.InsertKey(ctx, key(tn, "key_"+x)), tx.TouchKey(ctx, tn, "key_"+x, []byte{3}, at(2)),
				tx.PutInvitation(ctx, store.Invitation{TenantID: tn, ID: "inv_" + x, Email: "i@example.com", Digest: "d" + x, CreatedAt: at(1), ExpiresAt: at(2)}),
				tx.PutRemoval(ctx, store.Removal{TenantID: tn, UserID: "usr_" + x, Email: "r@example.com", RemovedBy: "x", RemovedAt: at(1)}),
				tx.InsertRole(ctx, store.Role{TenantID: tn, ID: "role_" + x, Name: "r", CreatedAt: at(1), Version: 1}),
				tx.InsertServiceAccount(ctx, store.ServiceAccount{TenantID: tn, ID: "sa_" + x, Name: "s", CreatedAt: at(1), Version: 1}),
				tx.InsertGroup(ctx, store.Group{TenantID: tn, ID: "grp_" + x, Name: "g", CreatedAt: at(1), Version: 1}),
				tx.InsertGroupMember(ctx, store.GroupMember{TenantID: tn, GroupID: "grp_" + x, UserID: "usr_" + x, CreatedAt: at(1)}),
				tx.InsertConnection(ctx, connection(tn, "sso_"+x)),
				tx.InsertIdentity(ctx, store.Identity{TenantID: tn, ConnectionID: "sso_" + x, Issuer: "i", Subject: "s", UserID: "usr_" + x, CreatedAt: at(1)}),
				tx.InsertScimToken(ctx, store.ScimToken{TenantID: tn, ID: "key_scim_" + x, ConnectionID: "sso_" + x, CreatedAt: at(1), ExpiresAt: at(2)}),
				tx.InsertDirectoryUser(ctx, store.DirectoryUser{TenantID: tn, ConnectionID: "sso_" + x, UserID: "usr_" + x, UserName: x, NameKey: x, Active: true, CreatedAt: at(1), Version: 1}),
				inDirectoryGroup(ctx, tx, tn, "grp_"+x, "usr_"+x), tx.PutDirectoryState(ctx, store.DirectoryState{TenantID: tn, ConnectionID: "sso_" + x, LastCallAt: at(1)}),
				tx.InsertAudit(ctx, store.AuditEvent{TenantID: tn, ID: "aud_" + x, At: at(1)}), raised(ctx, tx, tn),
				tx.InsertSignInPolicy(ctx, store.SignInPolicy{TenantID: tn, SessionIdle: 5, Version: 1}), tx.PutBreakGlassCodes(ctx, tn, []string{"code_" + x}, at(1)),
				tx.PutBreakGlassEntry(ctx, store.BreakGlassEntry{TenantID: tn, SessionID: "s" + x, UserID: "usr_" + x, CreatedAt: at(1), ExpiresAt: at(2)}),
				tx.InsertAuditSink(ctx, auditSink(tn, "snk_"+x)), tx.InsertDomain(ctx, domain(tn, "dom_"+x)),
				tx.InsertTrust(ctx, trust(tn, "trust_"+x, "sa_"+x)), tx.UseTrustToken(ctx, tn, "trust_"+x, "d", at(9)),
				tx.PutOverride(ctx, store.Override{TenantID: tn, Name: "keys_max", Value: 7, CreatedAt: at(1)}),
				tx.PutHold(ctx, store.Hold{TenantID: tn, Limit: "spend", Dispatch: true, CreatedAt: at(1)}),
				tx.InsertBillingContacts(ctx, store.BillingContacts{TenantID: tn, Emails: []string{x}, CreatedAt: at(1), Version: 1}),
				tx.InsertStripeCustomer(ctx, store.StripeCustomer{TenantID: tn, CustomerID: "cus_" + x, AskedAt: at(1), CreatedAt: at(1), Version: 1}),
				tx.InsertBillingPush(ctx, push(tn, "push_"+x)), tx.PutStripeInvoice(ctx, store.StripeInvoice{TenantID: tn, ID: "in_" + x, PeriodStart: at(1), PeriodEnd: at(2)}),
				tx.PutBillingDifference(ctx, store.BillingDifference{TenantID: tn, Meter: "executions", Day: at(1)}),
				tx.PutStripeEnding(ctx, store.StripeEnding{TenantID: tn, SubscriptionID: "sub_" + x, PushFrom: at(1), PushTo: at(2), DueAt: at(3), CreatedAt: at(2)}),
				tx.InsertAuditHead(ctx, store.AuditHead{TenantID: tn, Seq: 1, FirstSeq: 1, At: at(1)}),
				tx.InsertAnswer(ctx, store.Answer{TenantID: tn, Principal: "usr_" + x, Method: "m", RequestID: "r", CreatedAt: at(1)}),
				tx.InsertOutbox(ctx, outbox(tn, "out_"+x, at(1))), usageOf(ctx, tx, tn, "ns_"+x),
				tx.InsertSpendLimit(ctx, store.SpendLimit{TenantID: tn, Amount: 5, Version: 1}), tx.NoteLimitNotice(ctx, tn, at(1), "n", at(2)),
				tx.PutTenantFigures(ctx, store.TenantFigures{TenantID: tn, At: at(1), Revenue: 3}),
				tx.InsertSession(ctx, store.Session{TenantID: tn, Digest: "s" + x, ID: "ses_" + x, UserID: "usr_" + x, CreatedAt: at(1), SeenAt: at(1), ExpiresAt: at(2)}),
			)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func push(tenantID, identifier string) store.BillingPush {
	return store.BillingPush{TenantID: tenantID, Meter: "executions", Hour: at(1), Revision: 2, Identifier: identifier, Kind: "event", Value: 3, State: "open",
		FirstSentAt: at(4), DueAt: at(5), Attempts: 1, LastError: "lost", CreatedAt: at(1)}
}

func inDirectoryGroup(ctx context.Context, tx *store.Tx, tenantID, groupID, userID string) error {
	_, err := tx.AddDirectoryMember(ctx, tenantID, groupID, userID)
	return err
}

func trust(tenantID, id, accountID string) store.Trust {
	return store.Trust{TenantID: tenantID, ID: id, Name: "web", AccountID: accountID, Provider: 1, Issuer: "https://issuer.example", Audience: "a", JWKS: "{}",
		Conditions: []store.TrustCondition{{Claim: "repository", Values: []string{"acme/*"}}}, Permissions: []string{"job.fetch"}, NamespaceIDs: []string{"ns_1"},
		Queues: []string{"a*"}, CIDRs: []string{"10.0.0.0/8"}, KeyLife: time.Minute, AllowReuse: true, CreatedBy: "usr_1", CreatedAt: at(1), UpdatedAt: at(1), LastUsedAt: at(2), Version: 1}
}

func auditSink(tenantID, id string) store.AuditSink {
	return store.AuditSink{TenantID: tenantID, ID: id, Name: "siem", Format: 1, Target: "{}", Secret: "sealed", Enabled: true, Sent: 1, SentAt: at(1), DueAt: at(2), Attempts: 3,
		FailingSince: at(3), LastError: "refused", CreatedAt: at(1), UpdatedAt: at(1), Version: 1}
}

func domain(tenantID, id string) store.Domain {
	return store.Domain{TenantID: tenantID, ID: id, Name: "example.com", Token: "t" + id, ConnectionID: "sso_x", MissingSince: at(4), CheckedAt: at(5), Problem: "gone",
		DueAt: at(2), Attempts: 3, CreatedAt: at(1), UpdatedAt: at(1), Version: 1}
}

func raised(ctx context.Context, tx *store.Tx, tenantID string) error {
	_, _, err := tx.RaiseAuditChain(ctx, tenantID, at(1))
	return err
}

// Every call with another tenant's id, and with an own tenant id and another's record id.
func TestIsolation_AForeignRecordIsNotThere(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		fullTenants(t, s)
		for _, as := range []string{"tn_a", "tn_b"} {
			err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
				tn, ns, k, c := tenant("tn_b", "x"), namespace(as, "ns_b", "x"), key(as, "key_b"), connection(as, "sso_b")
				m := membership(as, "usr_b")
				_, getTenant := tx.GetTenant(ctx, "tn_b")
				_, findTenant := tx.FindTenant(ctx, "tn_b")
				_, getNamespace := tx.GetNamespace(ctx, as, "ns_b")
				_, getMembership := tx.GetMembership(ctx, as, "usr_b")
				_, getInvitation := tx.GetInvitation(ctx, as, "inv_b")
				_, getKey := tx.GetKey(ctx, as, "key_b")
				_, getConnection := tx.GetConnection(ctx, as, "sso_b")
				_, getIdentity := tx.GetIdentity(ctx, as, "sso_b", "i", "s")
				_, getAnswer := tx.GetAnswer(ctx, as, "usr_b", "m", "r")
				sink := auditSink(as, "snk_b")
				_, getToken := tx.GetScimToken(ctx, as, "key_scim_b")
				_, getDirectoryUser := tx.GetDirectoryUser(ctx, as, "usr_b")
				_, getDirectoryState := tx.GetDirectoryState(ctx, as, "sso_b")
				_, getSink := tx.GetAuditSink(ctx, as, "snk_b")
				_, getChain := tx.GetAuditChain(ctx, "tn_b")
				d := domain(as, "dom_b")
				_, getDomain := tx.GetDomain(ctx, as, "dom_b")
				_, getDomainByName := tx.GetDomainByName(ctx, "tn_b", "example.com")
				tr := trust(as, "trust_b", "sa_b")
				_, getTrust := tx.GetTrust(ctx, as, "trust_b")
				_, getEntry := tx.GetBreakGlassEntry(ctx, as, "sb")
				_, getSubscription := tx.GetSubscription(ctx, "tn_b")
				_, getOverride := tx.GetOverride(ctx, "tn_b", "keys_max")
				_, getHold := tx.GetHold(ctx, "tn_b", "spend")
				_, entitlements := tx.Entitlements(ctx, "tn_b", at(1))
				signIn := store.SignInPolicy{TenantID: as, Version: 1, RequireSSO: true}
				if as == "tn_a" {
					signIn.TenantID = "tn_b"
				}
				contacts := store.BillingContacts{TenantID: "tn_b", Version: 1}
				customer := store.StripeCustomer{TenantID: "tn_b", Version: 1}
				_, getCustomer := tx.GetStripeCustomer(ctx, "tn_b")
				for what, err := range map[string]error{
					"UpdateBillingContacts": tx.UpdateBillingContacts(ctx, &contacts), "GetStripeCustomer": getCustomer, "UpdateStripeCustomer": tx.UpdateStripeCustomer(ctx, &customer),
					"NoteBillingPush": tx.NoteBillingPush(ctx, push("tn_b", "push_b"), 1),
					"GetSubscription": getSubscription, "GetOverride": getOverride, "GetHold": getHold, "Entitlements": entitlements,
					"UpdateSubscription": tx.UpdateSubscription(ctx, &store.Subscription{TenantID: "tn_b", Version: 1}),
					"DeleteOverride":     tx.DeleteOverride(ctx, "tn_b", "keys_max"), "DeleteHold": tx.DeleteHold(ctx, "tn_b", "spend"),
					"GetBreakGlassEntry": getEntry, "UseBreakGlassCode": tx.UseBreakGlassCode(ctx, as, "code_b", at(9)), "UpdateSignInPolicy": tx.UpdateSignInPolicy(ctx, &signIn),
					"GetDomain": getDomain, "GetDomainByName": getDomainByName, "UpdateDomain": tx.UpdateDomain(ctx, &d), "DeleteDomain": tx.DeleteDomain(ctx, as, "dom_b"), "NoteDomain": tx.NoteDomain(ctx, d),
					"NoteKeyNotice": tx.NoteKeyNotice(ctx, k, time.Hour),
					"GetTenant":     getTenant, "FindTenant": findTenant, "GetNamespace": getNamespace, "GetMembership": getMembership, "GetInvitation": getInvitation,
					"GetKey": getKey, "GetConnection": getConnection, "GetIdentity": getIdentity, "GetAnswer": getAnswer, "GetAuditChain": getChain, "GetAuditSink": getSink, "GetScimToken": getToken, "GetDirectoryUser": getDirectoryUser, "GetDirectoryState": getDirectoryState,
					"GetTrust": getTrust, "UpdateTrust": tx.UpdateTrust(ctx, &tr), "DeleteTrust": tx.DeleteTrust(ctx, as, "trust_b"), "TouchTrust": tx.TouchTrust(ctx, as, "trust_b", at(9)),
					"UpdateScimToken": tx.UpdateScimToken(ctx, store.ScimToken{TenantID: as, ID: "key_scim_b", ExpiresAt: at(9)}), "RevokeScimToken": tx.RevokeScimToken(ctx, as, "key_scim_b", at(9)), "UpdateAuditSink": tx.UpdateAuditSink(ctx, &sink),
					"DeleteAuditSink": tx.DeleteAuditSink(ctx, as, "snk_b"), "NoteAuditSink": tx.NoteAuditSink(ctx, sink, 1),
					"UpdateTenant": tx.UpdateTenant(ctx, &tn), "UpdateNamespace": tx.UpdateNamespace(ctx, &ns), "UpdateKey": tx.UpdateKey(ctx, &k),
					"UpdateIdentity":   tx.UpdateIdentity(ctx, store.Identity{TenantID: as, ConnectionID: "sso_b", Issuer: "i", Subject: "s", VouchedEmail: "x@example.com"}),
					"UpdateConnection": tx.UpdateConnection(ctx, &c), "UpdateMembership": tx.UpdateMembership(ctx, &m),
					"DeleteMembership": tx.DeleteMembership(ctx, as, "usr_b"), "DeleteInvitation": tx.DeleteInvitation(ctx, as, "inv_b"),
					"DeleteConnection": tx.DeleteConnection(ctx, as, "sso_b"),
				} {
					wantErr(t, what+" as "+as, err, store.ErrNotFound)
				}
				return nil
			})
			wantErr(t, "as "+as, err, nil)
		}
		unchanged(t, s)
	})
}

func TestIsolation_ForeignListsAreEmptyAndWritesAreRefused(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		fullTenants(t, s)
		err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			namespaces, _ := tx.ListNamespaces(ctx, "tn_b", store.Page{})
			members, _ := tx.ListMembers(ctx, "tn_b", store.Page{})
			invitations, _ := tx.ListInvitations(ctx, "tn_b", store.Page{})
			keys, _ := tx.ListKeys(ctx, "tn_b", true, store.Page{})
			mine, _ := tx.KeysMadeBy(ctx, "tn_b", "usr_1", store.Page{})
			trustsMade, _ := tx.TrustsMadeBy(ctx, "tn_b", "usr_1", store.Page{})
			tokensMade, _ := tx.ScimTokensMadeBy(ctx, "tn_b", "usr_1", store.Page{})
			wantEqual(t, "what users of another tenant made", len(mine)+len(trustsMade)+len(tokensMade), 0)
			connections, _ := tx.ListConnections(ctx, "tn_b")
			audit, _ := tx.ListAudit(ctx, "tn_b", store.AuditFilter{}, store.Page{})
			chained, _ := tx.AuditFrom(ctx, "tn_b", 0, 10)
			heads, _ := tx.AuditHeads(ctx, "tn_b", 0, 9, 10)
			sinks, _ := tx.ListAuditSinks(ctx, "tn_b")
			domains, _ := tx.ListDomains(ctx, "tn_b")
			owners, _ := tx.ReachableOwners(ctx, "tn_b", 9)
			ledger, _ := tx.ListUsageHours(ctx, "tn_b", store.UsageAfter{}, 99, 9)
			byHour, _ := tx.UsageByHour(ctx, "tn_b", 0, 99, true)
			byDay, _ := tx.UsageByDay(ctx, "tn_b", 0, 99, false)
			counted, _ := tx.OpenUsage(ctx, "tn_b", 0)
			levels, _ := tx.ListUsageLevels(ctx, "tn_b")
			wantEqual(t, "usage of another tenant", len(ledger)+len(byHour)+len(byDay)+len(counted)+len(levels), 0)
			wantEqual(t, "sinks, domains and owners of another tenant", len(sinks)+len(domains)+len(owners), 0)
			ofTrust, _ := tx.KeysOfTrust(ctx, "tn_b", "usr_1", store.Page{})
			theirTrusts, _ := tx.ListTrusts(ctx, "tn_b", "", store.Page{})
			lasting, _ := tx.ListLastingKeys(ctx, "tn_b", "", true, store.Page{})
			uses, _ := tx.KeyUses(ctx, "tn_b", "key_", "key_z")
			used, _ := tx.KeysLastUsed(ctx, "tn_b", "sa_1")
			wantEqual(t, "trusts, their keys and uses of keys of another tenant", len(ofTrust)+len(theirTrusts)+len(lasting)+len(uses)+len(used), 0)
			changes, _ := tx.SubscriptionChanges(ctx, "tn_b", at(0), at(9))
			theirOverrides, _ := tx.ListOverrides(ctx, "tn_b")
			holds, _ := tx.ListHolds(ctx, "tn_b")
			people, _ := tx.CountMembers(ctx, "tn_b")
			asked, _ := tx.CountInvitations(ctx, "tn_b", at(0))
			wantEqual(t, "plan changes, overrides, holds and people of another tenant", len(changes)+len(theirOverrides)+len(holds)+people+asked, 0)
			has, _ := tx.HasAudit(ctx, "tn_b", "aud_b")
			wantEqual(t, "an entry of another tenant", has, false)
			a, _ := tx.CountNamespaces(ctx, "tn_b")
			b, _ := tx.CountKeys(ctx, "tn_b")
			c, _ := tx.CountOwners(ctx, "tn_b")
			wantEqual(t, "records of another tenant", len(namespaces)+len(members)+len(invitations)+len(keys)+len(mine)+len(connections)+len(audit)+len(chained)+len(heads)+a+b+c, 0)
			for what, err := range map[string]error{
				"PutOverride": tx.PutOverride(ctx, store.Override{TenantID: "tn_b", Name: "x"}), "PutHold": tx.PutHold(ctx, store.Hold{TenantID: "tn_b", Limit: "x"}),
				"PutSubscriptionChange": tx.PutSubscriptionChange(ctx, store.SubscriptionChange{TenantID: "tn_b", At: at(5)}),
				"InsertPlanVersion":     tx.InsertPlanVersion(ctx, store.PlanVersion{Plan: "free", Version: 2}),
				"InsertSignInPolicy":    tx.InsertSignInPolicy(ctx, store.SignInPolicy{TenantID: "tn_b"}), "PutBreakGlassCodes": tx.PutBreakGlassCodes(ctx, "tn_b", []string{"x"}, at(1)),
				"PutBreakGlassEntry": tx.PutBreakGlassEntry(ctx, store.BreakGlassEntry{TenantID: "tn_b", SessionID: "x", UserID: "usr_a"}),
				"InsertDomain":       tx.InsertDomain(ctx, domain("tn_b", "dom_9")),
				"InsertSpendLimit":   tx.InsertSpendLimit(ctx, store.SpendLimit{TenantID: "tn_b"}), "NoteLimitNotice": tx.NoteLimitNotice(ctx, "tn_b", at(1), "x", at(1)),
				"PutUsageReadings": tx.PutUsageReadings(ctx, []store.UsageReading{{UsageKey: store.UsageKey{TenantID: "tn_b"}}}), "TouchUsageOf": tx.TouchUsageOf(ctx, "tn_b", at(1)),
				"InsertRole": tx.InsertRole(ctx, store.Role{TenantID: "tn_b", ID: "role_9", Name: "x"}), "DeleteRole": tx.DeleteRole(ctx, "tn_b", "role_b"),
				"UpdateRole":           tx.UpdateRole(ctx, &store.Role{TenantID: "tn_b", ID: "role_b", Name: "x", Version: 1}),
				"InsertServiceAccount": tx.InsertServiceAccount(ctx, store.ServiceAccount{TenantID: "tn_b", ID: "sa_9", Name: "x"}),
				"UpdateServiceAccount": tx.UpdateServiceAccount(ctx, &store.ServiceAccount{TenantID: "tn_b", ID: "sa_b", Name: "x", Version: 1}),
				"DeleteServiceAccount": tx.DeleteServiceAccount(ctx, "tn_b", "sa_b"), "InsertGroup": tx.InsertGroup(ctx, store.Group{TenantID: "tn_b", ID: "grp_9", Name: "x"}),
				"UpdateGroup": tx.UpdateGroup(ctx, &store.Group{TenantID: "tn_b", ID: "grp_b", Name: "x", Version: 1}), "DeleteGroup": tx.DeleteGroup(ctx, "tn_b", "grp_b"),
				"InsertGroupMember": tx.InsertGroupMember(ctx, store.GroupMember{TenantID: "tn_b", GroupID: "grp_b", UserID: "usr_a"}),
				"DeleteGroupMember": tx.DeleteGroupMember(ctx, "tn_b", "grp_b", "usr_b"), "InsertBinding": tx.InsertBinding(ctx, owning("tn_b", "usr_a")),
				"DeleteBinding": tx.DeleteBinding(ctx, "tn_b", "bnd_usr_b"), "ToldKeyRights": tx.ToldKeyRights(ctx, "tn_b", "key_b", "x"),
				"InsertTrust": tx.InsertTrust(ctx, trust("tn_b", "trust_9", "sa_b")), "UseTrustToken": tx.UseTrustToken(ctx, "tn_b", "trust_b", "x", at(9)),
				"TouchKey":     tx.TouchKey(ctx, "tn_b", "key_b", []byte{3}, at(9)),
				"InsertTenant": tx.InsertTenant(ctx, tenant("tn_c", "c")), "InsertNamespace": tx.InsertNamespace(ctx, namespace("tn_b", "ns_9", "x")),
				"InsertMembership": tx.InsertMembership(ctx, membership("tn_b", "usr_a")), "InsertKey": tx.InsertKey(ctx, key("tn_b", "key_9")),
				"PutInvitation":    tx.PutInvitation(ctx, store.Invitation{TenantID: "tn_b", ID: "inv_9", Email: "i@example.com", Digest: "9"}),
				"InsertConnection": tx.InsertConnection(ctx, connection("tn_b", "sso_9")), "InsertIdentity": tx.InsertIdentity(ctx, store.Identity{TenantID: "tn_b", ConnectionID: "sso_b", UserID: "usr_a"}),
				"InsertAudit": tx.InsertAudit(ctx, store.AuditEvent{TenantID: "tn_b", ID: "aud_9"}), "InsertAnswer": tx.InsertAnswer(ctx, store.Answer{TenantID: "tn_b"}),
				"RaiseAuditChain": raised(ctx, tx, "tn_b"), "InsertAuditSink": tx.InsertAuditSink(ctx, auditSink("tn_b", "snk_9")), "EndAuditChain": tx.EndAuditChain(ctx, "tn_b", 1, "x"),
				"ChainAudit":        tx.ChainAudit(ctx, store.AuditEvent{TenantID: "tn_b", ID: "aud_b", Seq: 9}),
				"InsertAuditHead":   tx.InsertAuditHead(ctx, store.AuditHead{TenantID: "tn_b", Seq: 9, FirstSeq: 1}),
				"DeleteAuditBefore": tx.DeleteAuditBefore(ctx, store.AuditChain{TenantID: "tn_b", FirstSeq: 9}),
				"InsertOutbox":      tx.InsertOutbox(ctx, outbox("tn_b", "out_9", at(1))), "InsertSession": tx.InsertSession(ctx, store.Session{TenantID: "tn_b", Digest: "9", UserID: "usr_a"}),
				"PutTenantFigures": tx.PutTenantFigures(ctx, store.TenantFigures{TenantID: "tn_b"}),
				"ObserveTenant":    tx.ObserveTenant(ctx, "tn_b", 9), "ObserveNamespace": tx.ObserveNamespace(ctx, "tn_b", "ns_b", 9), "ObserveKey": tx.ObserveKey(ctx, "tn_b", "key_b", 9),
				"FinishOutbox": tx.FinishOutbox(ctx, outbox("tn_b", "out_b", at(1))), "DeferOutbox": tx.DeferOutbox(ctx, outbox("tn_b", "out_b", at(1)), at(2), ""),
				"ExtendOutbox": tx.ExtendOutbox(ctx, outbox("tn_b", "out_b", at(1)), at(2)),
			} {
				if err == nil {
					t.Errorf("%s wrote for another tenant", what)
				}
			}
			return nil
		})
		wantErr(t, "transaction", err, nil)
		unchanged(t, s)
	})
}

func TestIsolation_OnlyTheServiceReadsAcrossTenants(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		fullTenants(t, s)
		err := inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error {
			_, byName := tx.GetTenantByName(ctx, "tenant-b")
			_, tenants := tx.ListTenants(ctx, store.Page{})
			_, unTenants := tx.UnobservedTenants(ctx, store.Page{})
			_, unNamespaces := tx.UnobservedNamespaces(ctx, store.Page{})
			_, unKeys := tx.UnobservedKeys(ctx, store.Page{})
			_, byLink := tx.GetInvitationByDigest(ctx, "db")
			_, findKey := tx.FindKey(ctx, "key_b")
			_, access := tx.ListAccess(ctx, "usr_b")
			_, session := tx.GetSession(ctx, "sb")
			_, sessions := tx.DeleteSessionsOfUser(ctx, "usr_b", "")
			_, sso := tx.DeleteSessionsOfUser(ctx, "usr_b", "tn_b")
			_, old := tx.DeleteSessionsBefore(ctx, at(9))
			_, answers := tx.DeleteAnswersBefore(ctx, at(9))
			_, claim := tx.ClaimOutbox(ctx, "x", at(5), at(6), 1)
			_, _, count := tx.CountOutbox(ctx, at(9))
			_, parked := tx.CountParked(ctx, at(9))
			_, unchained := tx.UnchainedAudit(ctx, 9)
			_, unsigned := tx.UnsignedAuditChains(ctx, at(9), 9)
			_, dueSinks := tx.DueAuditSinks(ctx, at(9), 9)
			_, aged := tx.AgedAuditChains(ctx, at(9), time.Hour, 9)
			_, _, limits := tx.SessionLimits(ctx, "usr_b", "tn_b")
			_, _, allLimits := tx.SessionLimits(ctx, "usr_b", "")
			_, holder := tx.HolderOfDomain(ctx, "example.com")
			_, dueDomains := tx.DueDomains(ctx, at(9), 9)
			_, signIn := tx.FindDomainSignIn(ctx, "example.com")
			_, notices := tx.DueKeyNotices(ctx, at(1), at(9), time.Hour, 0, 9)
			_, tokens := tx.DeleteTrustTokensBefore(ctx, at(9))
			_, ended := tx.EndTemporaryKeys(ctx, at(9))
			_, oldKeys := tx.DeleteTemporaryKeysBefore(ctx, at(9))
			_, dueChanges := tx.DueSubscriptions(ctx, at(9), 9)
			_, endedOverrides := tx.EndedOverrides(ctx, at(9), 9)
			_, use := tx.ListTenantUse(ctx, store.TenantQuery{})
			_, operator := tx.GetOperator(ctx, "usr_b")
			_, operators := tx.ListOperators(ctx)
			_, entries := tx.ListOperatorEntries(ctx, 9)
			_, stale := tx.StaleFigures(ctx, store.FiguresAge{}, "", 9)
			_, names := tx.TenantNames(ctx, []string{"tn_b"})
			_, byPlan := tx.CountTenantsByPlan(ctx)
			_, cells := tx.ListUsageCells(ctx)
			_, pushes := tx.CountBillingPushes(ctx)
			_, undone := tx.ListUndoneBillingPushes(ctx, 9)
			hours := []store.TenantHour{{TenantID: "tn_b", Hour: 1}}
			_, customers := tx.StripeCustomersOf(ctx, []string{"tn_b"})
			_, elsewhere := tx.ListStripeCustomersElsewhere(ctx, store.Page{Limit: 9})
			_, changedHours := tx.ChangedHours(ctx, store.ChangedHour{}, 9)
			_, usage := tx.UsageOf(ctx, hours)
			_, pushesOf := tx.BillingPushesOf(ctx, hours)
			_, changesOf := tx.SubscriptionChangesOf(ctx, []string{"tn_b"}, at(1))
			_, tenantsOf := tx.TenantsOf(ctx, []string{"tn_b"})
			_, endings := tx.DueStripeEndings(ctx, at(1), 9)
			for what, err := range map[string]error{
				"DueStripeEndings": endings, "StripeCustomersOf": customers, "ChangedHours": changedHours, "UsageOf": usage, "BillingPushesOf": pushesOf, "SubscriptionChangesOf": changesOf,
				"TenantsOf": tenantsOf, "ListStripeCustomersElsewhere": elsewhere,
				"GetOperator": operator, "ListOperators": operators, "ListOperatorEntries": entries, "StaleFigures": stale, "TenantNames": names,
				"CountTenantsByPlan": byPlan, "ListUsageCells": cells, "CountBillingPushes": pushes, "ListUndoneBillingPushes": undone,
				"PutOperator":         tx.PutOperator(ctx, store.Operator{UserID: "usr_a", Role: "admin"}),
				"DeleteOperator":      tx.DeleteOperator(ctx, "usr_a"),
				"InsertOperatorEntry": tx.InsertOperatorEntry(ctx, store.OperatorEntry{ID: "aud_9"}),
				"DueSubscriptions":    dueChanges, "EndedOverrides": endedOverrides, "ListTenantUse": use,
				"GetTenantByName": byName, "ListTenants": tenants, "UnobservedTenants": unTenants, "UnobservedNamespaces": unNamespaces, "UnobservedKeys": unKeys,
				"GetInvitationByDigest": byLink, "FindKey": findKey, "ListAccess": access, "GetSession": session, "DeleteSessionsOfUser": sessions, "DeleteSessionsOfUser of tn_b": sso,
				"DeleteSessionsBefore": old, "DeleteAnswersBefore": answers, "ClaimOutbox": claim, "CountOutbox": count, "CountParked": parked,
				"UnchainedAudit": unchained, "UnsignedAuditChains": unsigned, "AgedAuditChains": aged, "DueAuditSinks": dueSinks,
				"SessionLimits": limits, "SessionLimits of all": allLimits,
				"HolderOfDomain": holder, "DueDomains": dueDomains, "FindDomainSignIn": signIn, "DueKeyNotices": notices,
				"DeleteTrustTokensBefore": tokens, "EndTemporaryKeys": ended, "DeleteTemporaryKeysBefore": oldKeys,
				"TouchSession": tx.TouchSession(ctx, "sb", at(9), at(9)), "DeleteSession": tx.DeleteSession(ctx, "sb"),
			} {
				if err == nil || errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s in a tenant's transaction: %v, want a refusal", what, err)
				}
			}
			return nil
		})
		wantErr(t, "transaction", err, nil)
		unchanged(t, s)
	})
}

// unchanged checks that the second tenant has its records and nothing else.
func unchanged(t *testing.T, s store.Store) {
	t.Helper()
	err := inTenant(t, s, "tn_b", func(ctx context.Context, tx *store.Tx) error {
		tn, tnErr := tx.GetTenant(ctx, "tn_b")
		wantEqual(t, "tenant", tn, tenant("tn_b", "tenant-b"))
		ns, nsErr := tx.ListNamespaces(ctx, "tn_b", store.Page{})
		wantEqual(t, "namespaces", ns, []store.Namespace{namespace("tn_b", "ns_b", "default")})
		keys, keyErr := tx.ListKeys(ctx, "tn_b", true, store.Page{})
		wantEqual(t, "keys", keys, []store.Key{key("tn_b", "key_b")})
		uses, useErr := tx.KeyUses(ctx, "tn_b", "key_", "key_z")
		wantEqual(t, "uses of keys", uses, map[store.KeyUse]time.Time{{KeyID: "key_b", Digest: "03"}: at(2)})
		bindings, bndErr := tx.ListBindings(ctx, "tn_b", store.BindingFilter{}, store.Page{})
		wantEqual(t, "role bindings", bindings, []store.Binding{owning("tn_b", "usr_b")})
		ours, grpErr := tx.GroupsOf(ctx, "tn_b", "usr_b")
		wantEqual(t, "groups", len(ours["usr_b"]), 1)
		accounts, saErr := tx.ListServiceAccounts(ctx, "tn_b", store.Page{})
		wantEqual(t, "service accounts", len(accounts), 1)
		theirs, trustErr := tx.ListTrusts(ctx, "tn_b", "", store.Page{})
		wantEqual(t, "trusts", theirs, []store.Trust{trust("tn_b", "trust_b", "sa_b")})
		own, roleErr := tx.ListRoles(ctx, "tn_b", store.Page{})
		wantEqual(t, "roles", len(own), 1)
		members, memberErr := tx.ListMembers(ctx, "tn_b", store.Page{})
		wantEqual(t, "members", len(members), 1)
		connections, ssoErr := tx.ListConnections(ctx, "tn_b")
		wantEqual(t, "connections", connections, []store.Connection{connection("tn_b", "sso_b")})
		invitations, invErr := tx.ListInvitations(ctx, "tn_b", store.Page{})
		wantEqual(t, "invitations", len(invitations), 1)
		events, audErr := tx.ListAudit(ctx, "tn_b", store.AuditFilter{}, store.Page{})
		wantEqual(t, "audit", len(events), 1)
		figures, figErr := tx.GetTenantFigures(ctx, "tn_b")
		wantEqual(t, "figures", figures, store.TenantFigures{TenantID: "tn_b", At: at(1), Revenue: 3})
		return errors.Join(figErr, tnErr, nsErr, keyErr, useErr, bndErr, grpErr, saErr, roleErr, trustErr, memberErr, ssoErr, invErr, audErr)
	})
	wantErr(t, "look at tn_b", err, nil)
}

// Whatever a handler does, the database itself refuses a row that refers across tenants.
func TestIsolation_TheDatabaseRefusesReferencesAcrossTenants(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		fullTenants(t, s)
		for what, f := range map[string]func(ctx context.Context, tx *store.Tx) error{
			"identity of another tenant's connection": func(ctx context.Context, tx *store.Tx) error {
				return tx.InsertIdentity(ctx, store.Identity{TenantID: "tn_a", ConnectionID: "sso_b", Issuer: "i", Subject: "s", UserID: "usr_a"})
			},
			"namespace of no tenant": func(ctx context.Context, tx *store.Tx) error {
				return tx.InsertNamespace(ctx, namespace("tn_x", "ns_x", "x"))
			},
			"key of no tenant": func(ctx context.Context, tx *store.Tx) error { return tx.InsertKey(ctx, key("tn_x", "key_x")) },
			"connection of no tenant": func(ctx context.Context, tx *store.Tx) error {
				return tx.InsertConnection(ctx, connection("tn_x", "sso_x"))
			},
			"group member of another tenant's group": func(ctx context.Context, tx *store.Tx) error {
				return tx.InsertGroupMember(ctx, store.GroupMember{TenantID: "tn_a", GroupID: "grp_b", UserID: "usr_a"})
			},
			"group member who is no member": func(ctx context.Context, tx *store.Tx) error {
				return tx.InsertGroupMember(ctx, store.GroupMember{TenantID: "tn_a", GroupID: "grp_a", UserID: "usr_b"})
			},
			"role of no tenant": func(ctx context.Context, tx *store.Tx) error {
				return tx.InsertRole(ctx, store.Role{TenantID: "tn_x", ID: "role_x", Name: "x"})
			},
			"membership of nobody": func(ctx context.Context, tx *store.Tx) error {
				return tx.InsertMembership(ctx, membership("tn_a", "usr_x"))
			},
			"session of nobody": func(ctx context.Context, tx *store.Tx) error {
				return tx.InsertSession(ctx, store.Session{Digest: "x", ID: "ses_x", UserID: "usr_x"})
			},
		} {
			err := s.Service(t.Context(), func(tx *store.Tx) error { return f(t.Context(), tx) })
			wantErr(t, what, err, store.ErrReference)
		}
	})
}

func TestTransaction_WithoutATenantIsRefused(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		for _, id := range []string{"", "*"} {
			never := func(*store.Tx) error { t.Error("it ran"); return nil }
			if s.Tenant(t.Context(), id, never) == nil || s.ReadTenant(t.Context(), id, never) == nil {
				t.Errorf("a transaction for tenant %q was opened", id)
			}
		}
	})
}

// A directory's user may be in a group of another directory.
func TestDeleteConnection_TakesItsUsersOutOfTheGroupsOfOtherDirectories(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.InsertConnection(ctx, connection("tn_a", "sso_1")), tx.InsertConnection(ctx, connection("tn_a", "sso_2")),
				tx.InsertDirectoryUser(ctx, store.DirectoryUser{TenantID: "tn_a", ConnectionID: "sso_1", UserID: "usr_1", UserName: "one", NameKey: "one", Active: true, CreatedAt: at(1), Version: 1}),
				tx.InsertGroup(ctx, store.Group{TenantID: "tn_a", ID: "grp_2", Name: "theirs", ConnectionID: "sso_2", CreatedAt: at(1), Version: 1}),
				inDirectoryGroup(ctx, tx, "tn_a", "grp_2", "usr_1"))
		})
		wantErr(t, "delete", inTenant(t, s, "tn_a", func(ctx context.Context, tx *store.Tx) error { return tx.DeleteConnection(ctx, "tn_a", "sso_1") }), nil)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.GetDirectoryUser(ctx, "tn_a", "usr_1")
			wantErr(t, "the directory's user", err, store.ErrNotFound)
			_, err = tx.GetGroup(ctx, "tn_a", "grp_2")
			return err
		})
	})
}
