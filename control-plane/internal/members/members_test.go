package members

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/rights"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

const (
	owner     = permission.RoleOwner
	admin     = permission.RoleAdmin
	developer = permission.RoleDeveloper
	viewer    = permission.RoleViewer
)

func newService(w *cloudtest.World) *Service {
	return New(Needs{
		Kit:                w.Kit,
		InvitationsPerHour: InvitationsPerHourDefault,
	})
}

func TestMembers_NobodyGrantsMoreThanTheyHold(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	tn, boss := w.Tenant(t, "acme", "boss@example.com")
	adm := w.Member(t, tn.ID, "admin@example.com", admin)
	dev := w.Member(t, tn.ID, "dev@example.com", developer)
	ctx, _ := w.As(t, tn, adm, admin)
	_, err := s.UpdateMember(ctx, &cloudv1.UpdateMemberRequest{UserId: dev.ID, Roles: []string{owner}})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	_, err = s.UpdateMember(ctx, &cloudv1.UpdateMemberRequest{UserId: boss.ID, Roles: []string{viewer}})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	_, err = s.RemoveMember(ctx, &cloudv1.RemoveMemberRequest{UserId: boss.ID})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	_, err = s.CreateInvitation(ctx, &cloudv1.CreateInvitationRequest{Email: "x@example.com", Roles: []string{owner}})
	cloudtest.Refused(t, err, "ABOVE_CALLER")
	_, err = s.UpdateMember(ctx, &cloudv1.UpdateMemberRequest{UserId: dev.ID, Roles: []string{"king"}})
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
	if _, err = s.UpdateMember(ctx, &cloudv1.UpdateMemberRequest{UserId: dev.ID, Roles: []string{admin}}); err != nil {
		t.Errorf("what the caller holds: %v", err)
	}
}

// Two owners who take the role from each other at once must not leave none.
func TestMembers_LastOwnerStays(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		tn, ada := w.Tenant(t, "acme", "ada@example.com")
		ctx, _ := w.As(t, tn, ada, owner)
		_, err := s.RemoveMember(ctx, &cloudv1.RemoveMemberRequest{UserId: ada.ID})
		cloudtest.Refused(t, err, "LAST_OWNER")
		_, err = s.UpdateMember(ctx, &cloudv1.UpdateMemberRequest{UserId: ada.ID, Roles: []string{viewer}})
		cloudtest.Refused(t, err, "LAST_OWNER")
		bob := w.Member(t, tn.ID, "bob@example.com", owner)
		errs := make([]error, 2)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, errs[0] = s.RemoveMember(ctx, &cloudv1.RemoveMemberRequest{UserId: bob.ID})
		})
		wg.Go(func() {
			_, errs[1] = s.UpdateMember(ctx, &cloudv1.UpdateMemberRequest{UserId: ada.ID, Roles: []string{viewer}})
		})
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("both ended alike: %v, %v", errs[0], errs[1])
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.CountOwners(ctx, tn.ID)
			if n != 1 {
				t.Errorf("%d owners", n)
			}
			return err
		})
	})
}

func TestRemoveMember_EndsEverythingOfTheMembership(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		tn, ada := w.Tenant(t, "acme", "ada@example.com")
		dev := w.Member(t, tn.ID, "dev@example.com", developer)
		var bySSO, byMail session.Opened
		w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
			if bySSO, err = session.Open(ctx, tx, w.IDs, w.Now(), dev.ID, tn.ID, ""); err != nil {
				return err
			}
			if byMail, err = session.Open(ctx, tx, w.IDs, w.Now(), dev.ID, "", ""); err != nil {
				return err
			}
			return tx.InsertKey(ctx, store.Key{
				TenantID: tn.ID, ID: "key_000000000001", Name: "CI", Kind: cloudv1.KeyKind_KEY_KIND_PERSONAL, OwnerID: dev.ID, CreatedBy: dev.ID,
				CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1, Generation: 1,
			})
		})
		ctx, _ := w.As(t, tn, ada, owner)
		if _, err := s.RemoveMember(ctx, &cloudv1.RemoveMemberRequest{UserId: dev.ID}); err != nil {
			t.Fatal(err)
		}
		rows := w.Outbox(t)
		if len(rows) != 3 || rows[0].Kind != store.OutboxKey || rows[1].Kind != store.OutboxAccess || rows[2].Kind != store.OutboxUser || rows[2].Subject != dev.ID {
			t.Errorf("the cell is told %+v", rows)
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			if _, err := session.Find(ctx, tx, bySSO.Token, w.Now()); err == nil {
				t.Error("the session of the tenant's provider lives on")
			}
			if _, err := session.Find(ctx, tx, byMail.Token, w.Now()); err != nil {
				t.Errorf("the user's own session, good for other tenants, ended: %v", err)
			}
			events, err := tx.ListAudit(ctx, tn.ID, store.AuditFilter{}, store.Page{})
			if err != nil {
				return err
			}
			if left := fmt.Sprint(events[0].Changes["keys_revoked"].After); events[0].Action != "member.delete" || !strings.Contains(left, "key_000000000001 CI") {
				t.Errorf("audit %+v", events[0])
			}
			return nil
		})
		_, err := s.RemoveMember(ctx, &cloudv1.RemoveMemberRequest{UserId: dev.ID})
		cloudtest.Refused(t, err, "NOT_FOUND")
	})
}

func TestMembers_ForeignMemberLooksLikeNone(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		tn, ada := w.Tenant(t, "acme", "ada@example.com")
		other, eve := w.Tenant(t, "other", "eve@example.com")
		foreign := w.Member(t, other.ID, "mallory@example.com", viewer)
		ctx, _ := w.As(t, tn, ada, owner)
		var texts []string
		for _, id := range []string{foreign.ID, eve.ID, "usr_01JD0000000000000000000000", "nonsense"} {
			_, err := s.UpdateMember(ctx, &cloudv1.UpdateMemberRequest{UserId: id, Roles: []string{viewer}})
			texts = append(texts, cloudtest.Refused(t, err, "NOT_FOUND").Error())
			_, err = s.RemoveMember(ctx, &cloudv1.RemoveMemberRequest{UserId: id})
			cloudtest.Refused(t, err, "NOT_FOUND")
		}
		for _, text := range texts {
			if text != texts[0] {
				t.Errorf("%q and %q", text, texts[0])
			}
		}
	})
}

func TestUpdateMember_ChangesOnceAndTellsTheCell(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	tn, ada := w.Tenant(t, "acme", "ada@example.com")
	dev := w.Member(t, tn.ID, "dev@example.com", developer)
	ctx, _ := w.As(t, tn, ada, owner)
	list, err := s.ListMembers(ctx, &cloudv1.ListMembersRequest{})
	if err != nil || len(list.GetMembers()) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	stale := list.GetMembers()[1].GetEtag()
	res, err := s.UpdateMember(ctx, &cloudv1.UpdateMemberRequest{UserId: dev.ID, Roles: []string{viewer}, Etag: stale})
	if err != nil || strings.Join(res.GetMember().GetRoles(), " ") != viewer || res.GetMember().GetEtag() == stale {
		t.Fatalf("%v, %v", res, err)
	}
	if rows := w.Outbox(t); len(rows) != 2 || rows[1].Kind != store.OutboxUser {
		t.Errorf("tokens with the old role live on: %+v", rows)
	}
	_, err = s.UpdateMember(ctx, &cloudv1.UpdateMemberRequest{UserId: dev.ID, Roles: []string{admin}, Etag: stale})
	cloudtest.Refused(t, err, "ETAG_MISMATCH")
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		m, err := tx.GetMembership(ctx, tn.ID, dev.ID)
		if err != nil {
			return err
		}
		m.ConnectionID = "sso_1"
		return tx.UpdateMembership(ctx, &m)
	})
	_, err = s.UpdateMember(ctx, &cloudv1.UpdateMemberRequest{UserId: dev.ID, Roles: []string{admin}})
	cloudtest.Refused(t, err, "ROLE_FROM_SSO")
	if _, err := s.RemoveMember(ctx, &cloudv1.RemoveMemberRequest{UserId: dev.ID}); err != nil {
		t.Errorf("a member whom a provider vouches for cannot be removed: %v", err)
	}
}

// A provider lets in whom it likes; the tenant's own domains tell who is one of its people.
func TestListMembers_ExternalIsWhomTheProviderLetInFromElsewhere(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		tn, ada := w.Tenant(t, "acme", "ada@elsewhere.test")
		inside, outside := w.Member(t, tn.ID, "Dev@EXAMPLE.com", developer), w.Member(t, tn.ID, "guest@sub.example.com", developer)
		ctx, _ := w.As(t, tn, ada, owner)
		for _, u := range []store.User{inside, outside} {
			w.Service(t, func(ctx context.Context, tx *store.Tx) error {
				m, err := tx.GetMembership(ctx, tn.ID, u.ID)
				if err != nil {
					return err
				}
				m.ConnectionID = "sso_1"
				return tx.UpdateMembership(ctx, &m)
			})
		}
		external := func() (out []string) {
			list, err := s.ListMembers(ctx, &cloudv1.ListMembersRequest{})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range list.GetMembers() {
				if m.GetExternal() {
					out = append(out, m.GetEmail())
				}
			}
			return out
		}
		d := store.Domain{TenantID: tn.ID, ID: w.IDs.New(ids.Domain, w.Now()), Name: "example.com", Token: "t", CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertDomain(ctx, d) })
		if got := external(); got != nil {
			t.Errorf("without a verified domain: %v", got)
		}
		d.VerifiedAt = w.Now()
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.UpdateDomain(ctx, &d) })
		// A name means itself alone, and whoever came by email was invited under their address.
		if got := external(); len(got) != 1 || got[0] != outside.Email {
			t.Errorf("external are %v, want %s", got, outside.Email)
		}
	})
}

func TestListMembers_PageTokenIsValidForItsCallerOnly(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	tn, ada := w.Tenant(t, "acme", "ada@example.com")
	for i := range 4 {
		w.Member(t, tn.ID, fmt.Sprintf("u%d@example.com", i), viewer)
	}
	ctx, _ := w.As(t, tn, ada, owner)
	seen := map[string]bool{}
	token := ""
	for range 3 {
		res, err := s.ListMembers(ctx, &cloudv1.ListMembersRequest{PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range res.GetMembers() {
			seen[m.GetUserId()] = true
		}
		if token = res.GetNextPageToken(); token == "" {
			break
		}
		other, eve := w.Tenant(t, "t"+strings.ToLower(token[:5]), "eve"+token[:5]+"@example.com")
		foreign, _ := w.As(t, other, eve, owner)
		_, err = s.ListMembers(foreign, &cloudv1.ListMembersRequest{PageSize: 2, PageToken: token})
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		_, err = s.ListInvitations(ctx, &cloudv1.ListInvitationsRequest{PageToken: token})
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
	}
	if len(seen) != 5 || token != "" {
		t.Errorf("saw %d members, then token %q", len(seen), token)
	}
}

func invite(t *testing.T, w *cloudtest.World, s *Service, ctx context.Context, email string, role string) (*cloudv1.Invitation, string) {
	t.Helper()
	res, err := s.CreateInvitation(ctx, &cloudv1.CreateInvitationRequest{Email: email, Roles: []string{role}})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetInvitation(), cloudtest.Token(t, w.Email(t))
}

func accept(t *testing.T, s *Service, token, name string) (*cloudv1.AcceptInvitationResponse, string, error) {
	t.Helper()
	return acceptIn(t, s, token, name, "")
}

// acceptIn accepts in a browser with a session.
func acceptIn(t *testing.T, s *Service, token, name, came string) (*cloudv1.AcceptInvitationResponse, string, error) {
	t.Helper()
	ctx, jar := cloudtest.Public(t, "198.51.100.4", came)
	res, err := s.AcceptInvitation(ctx, &cloudv1.AcceptInvitationRequest{Token: token, Name: name})
	return res, cloudtest.SessionOf(jar), err
}

func TestAcceptInvitation_NewAndOldUsersJoin(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		tn, ada := w.Tenant(t, "acme", "ada@example.com")
		_, bob := w.Tenant(t, "bobs", "bob@example.com")
		ctx, _ := w.As(t, tn, ada, owner)
		var own session.Opened
		w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
			own, err = session.Open(ctx, tx, w.IDs, w.Now(), bob.ID, "", "")
			return err
		})
		for _, tc := range []struct{ email, user, came string }{{"new@example.com", "", ""}, {"Bob@example.com", bob.ID, own.Token}} {
			_, token := invite(t, w, s, ctx, tc.email, developer)
			const callers = 3
			cookies, errs := make([]string, callers), make([]error, callers)
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() { _, cookies[i], errs[i] = acceptIn(t, s, token, "Name", tc.came) })
			}
			wg.Wait()
			won := 0
			for i, err := range errs {
				if err != nil {
					// The slower ones find the link used, or the account just made.
					if f, ok := fault.As(err); !ok || f.Reason != "LINK_UNKNOWN" && f.Reason != "TRY_AGAIN" && f.Reason != "SIGN_IN_FIRST" {
						t.Errorf("refused with %v", err)
					}
					continue
				}
				won++
				if tc.came == "" {
					checkJoined(t, w, tn, tc.user, cookies[i], tn.ID)
				} else if cookies[i] != "" {
					t.Error("accepting in a session opened another")
				} else {
					checkJoined(t, w, tn, tc.user, tc.came, "")
				}
			}
			if won != 1 {
				t.Errorf("%s: %d joined by one link", tc.email, won)
			}
		}
		if got := strings.Join(w.Audit(t, tn.ID), " "); got != "invitation.create member.create invitation.create member.create" {
			t.Errorf("audit has %s", got)
		}
	})
}

func checkJoined(t *testing.T, w *cloudtest.World, tn store.Tenant, userID, cookie, only string) {
	t.Helper()
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		found, err := session.Find(ctx, tx, cookie, w.Now())
		if err != nil {
			return err
		}
		if userID != "" && found.UserID != userID {
			t.Errorf("signed in as %s, want the user there was, %s", found.UserID, userID)
		}
		if found.TenantID != only {
			t.Errorf("the session is limited to %q, want %q", found.TenantID, only)
		}
		may, err := rights.Of(ctx, tx, tn.ID, found.UserID)
		if strings.Join(may.Roles, " ") != developer {
			t.Errorf("roles %s", may.Roles)
		}
		return err
	})
}

// waysToLoseAdmin make an admin of a member, each in its own way, and give what takes that away.
func waysToLoseAdmin(t *testing.T, w *cloudtest.World, s *Service, tn store.Tenant, byOwner context.Context) map[string]func(store.User) (ends func() error) {
	t.Helper()
	p := &principals.Service{Kit: w.Kit}
	p.Await = func(context.Context, string, func(*store.Tx) (bool, error)) (bool, error) { return true, nil }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	bind := func(principal, role string) string {
		t.Helper()
		res, err := p.CreateRoleBinding(byOwner, &cloudv1.CreateRoleBindingRequest{PrincipalId: principal, Role: role})
		must(err)
		return res.GetRoleBinding().GetId()
	}
	group := func(u store.User) string {
		t.Helper()
		res, err := p.CreateGroup(byOwner, &cloudv1.CreateGroupRequest{Name: u.Email})
		must(err)
		id := res.GetGroup().GetId()
		bind(id, admin)
		_, err = p.AddGroupMembers(byOwner, &cloudv1.AddGroupMembersRequest{GroupId: id, UserIds: []string{u.ID}})
		must(err)
		return id
	}
	return map[string]func(store.User) func() error{
		"removed": func(u store.User) func() error {
			bind(u.ID, admin)
			return func() error {
				_, err := s.RemoveMember(byOwner, &cloudv1.RemoveMemberRequest{UserId: u.ID})
				return err
			}
		},
		"demoted": func(u store.User) func() error {
			bind(u.ID, admin)
			return func() error {
				_, err := s.UpdateMember(byOwner, &cloudv1.UpdateMemberRequest{UserId: u.ID, Roles: []string{developer}})
				return err
			}
		},
		"unbound": func(u store.User) func() error {
			id := bind(u.ID, admin)
			return func() error {
				_, err := p.DeleteRoleBinding(byOwner, &cloudv1.DeleteRoleBindingRequest{RoleBindingId: id})
				return err
			}
		},
		"ungrouped": func(u store.User) func() error {
			id := group(u)
			return func() error {
				_, err := p.RemoveGroupMembers(byOwner, &cloudv1.RemoveGroupMembersRequest{GroupId: id, UserIds: []string{u.ID}})
				return err
			}
		},
		"without-group": func(u store.User) func() error {
			id := group(u)
			return func() error {
				_, err := p.DeleteGroup(byOwner, &cloudv1.DeleteGroupRequest{GroupId: id})
				return err
			}
		},
		"narrowed": func(u store.User) func() error {
			all, _ := permission.FixedRole(admin)
			res, err := p.CreateRole(byOwner, &cloudv1.CreateRoleRequest{Name: "as an admin", Permissions: all.Permissions.Names()})
			must(err)
			bind(u.ID, res.GetRole().GetId())
			return func() error { // They may still invite, but not with what they lack.
				_, err := p.UpdateRole(byOwner, &cloudv1.UpdateRoleRequest{
					RoleId: res.GetRole().GetId(), Permissions: []string{permission.MemberInvite.String()}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"permissions"}},
				})
				return err
			}
		},
	}
}

// Somebody who is about to lose a role could invite an address of their own before.
func TestInvitations_EndWithTheRightToMakeThem(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		tn, ada := w.Tenant(t, "acme", "ada@example.com")
		byOwner, _ := w.As(t, tn, ada, owner)
		_, kept := invite(t, w, s, byOwner, "new@example.com", admin)
		for name, admitted := range waysToLoseAdmin(t, w, s, tn, byOwner) {
			bob := w.Member(t, tn.ID, name+"@example.com", viewer)
			ends := admitted(bob)
			byBob, _ := w.As(t, tn, bob, admin)
			_, token := invite(t, w, s, byBob, name+"-again@example.com", admin)
			tokens := []string{token}
			for kind, k := range map[string]store.Key{
				"personal": {Kind: cloudv1.KeyKind_KEY_KIND_PERSONAL, OwnerID: bob.ID}, "machine's": {Kind: cloudv1.KeyKind_KEY_KIND_MANAGEMENT, OwnerID: "sa_1"},
			} {
				id := fmt.Sprintf("key_%s%05d", name[:7], len(kind))
				keyBy(t, w, tn, id, bob.ID, k)
				c := access.From(byBob)
				c.SessionID, c.KeyID, c.Name = "", id, id
				_, byKey := invite(t, w, s, access.With(byBob, c), fmt.Sprintf("%s-by-%d@example.com", name, len(kind)), admin)
				tokens = append(tokens, byKey)
			}
			// What is shown of somebody who comes through a provider may change any time.
			w.Service(t, func(ctx context.Context, tx *store.Tx) error {
				bob.Email = "now-" + bob.Email
				return tx.UpdateUser(ctx, bob)
			})
			if err := ends(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for i, token := range tokens {
				if _, _, err := accept(t, s, token, ""); err == nil {
					t.Errorf("%s: invitation %d lets somebody in", name, i)
				} else {
					cloudtest.Refused(t, err, "LINK_UNKNOWN")
				}
			}
		}
		if _, _, err := accept(t, s, kept, ""); err != nil {
			t.Errorf("somebody else's invitation: %v", err)
		}
	})
}

func TestAcceptInvitation_DeadLinksSayWhy(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	tn, ada := w.Tenant(t, "acme", "ada@example.com")
	ctx, _ := w.As(t, tn, ada, owner)
	_, first := invite(t, w, s, ctx, "bob@example.com", viewer)
	second, token := invite(t, w, s, ctx, "bob@example.com", viewer)
	_, _, err := accept(t, s, first, "")
	cloudtest.Refused(t, err, "LINK_UNKNOWN")
	if _, err := s.RevokeInvitation(ctx, &cloudv1.RevokeInvitationRequest{InvitationId: second.GetId()}); err != nil {
		t.Fatal(err)
	}
	_, _, err = accept(t, s, token, "")
	cloudtest.Refused(t, err, "LINK_UNKNOWN")
	_, err = s.RevokeInvitation(ctx, &cloudv1.RevokeInvitationRequest{InvitationId: second.GetId()})
	cloudtest.Refused(t, err, "NOT_FOUND")
	_, token = invite(t, w, s, ctx, "bob@example.com", viewer)
	w.Advance(invitationLife)
	_, cookie, err := accept(t, s, token, "")
	f := cloudtest.Refused(t, err, "LINK_EXPIRED")
	if !strings.Contains(f.Message, "ada@example.com") || cookie != "" {
		t.Errorf("%s; cookie %q", f.Message, cookie)
	}
	_, _, err = accept(t, s, "", "")
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
	_, _, err = accept(t, s, token, "a\x00b")
	cloudtest.Refused(t, err, "INVALID_ARGUMENT")
}

func TestInvitations_OfAnotherTenantLookLikeNone(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		tn, ada := w.Tenant(t, "acme", "ada@example.com")
		other, eve := w.Tenant(t, "other", "eve@example.com")
		ctx, _ := w.As(t, tn, ada, owner)
		i, _ := invite(t, w, s, ctx, "bob@example.com", viewer)
		foreign, _ := w.As(t, other, eve, owner)
		_, err := s.RevokeInvitation(foreign, &cloudv1.RevokeInvitationRequest{InvitationId: i.GetId()})
		cloudtest.Refused(t, err, "NOT_FOUND")
		if res, err := s.ListInvitations(foreign, &cloudv1.ListInvitationsRequest{}); err != nil || len(res.GetInvitations()) != 0 {
			t.Errorf("%v, %v", res, err)
		}
		if res, err := s.ListInvitations(ctx, &cloudv1.ListInvitationsRequest{}); err != nil || len(res.GetInvitations()) != 1 || res.GetInvitations()[0].GetInvitedBy() != "ada@example.com" {
			t.Errorf("%v, %v", res, err)
		}
	})
}

func TestCreateInvitation_RefusesMembersFloodsAndNonsense(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	s.InvitationsPerHour = 2
	tn, ada := w.Tenant(t, "acme", "ada@example.com")
	ctx, _ := w.As(t, tn, ada, owner)
	_, err := s.CreateInvitation(ctx, &cloudv1.CreateInvitationRequest{Email: "nobody"})
	if f := cloudtest.Refused(t, err, "INVALID_ARGUMENT"); len(f.Fields) != 2 {
		t.Errorf("%+v", f.Fields)
	}
	_, err = s.CreateInvitation(ctx, &cloudv1.CreateInvitationRequest{Email: "ADA@example.com", Roles: []string{viewer}})
	cloudtest.Refused(t, err, "ALREADY_MEMBER")
	for i := range 3 {
		_, err = s.CreateInvitation(ctx, &cloudv1.CreateInvitationRequest{Email: fmt.Sprintf("u%d@example.com", i), Roles: []string{viewer}})
	}
	if f := cloudtest.Refused(t, err, "TOO_MANY_REQUESTS"); f.RetryAfter <= 0 {
		t.Error("no time to wait")
	}
}

// The name of a key is text chosen by somebody in the tenant; an email to a stranger
// must not contain it.
func TestCreateInvitation_EmailContainsNoChosenText(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	tn, ada := w.Tenant(t, "acme", "ada@example.com")
	ctx, _ := w.As(t, tn, ada, owner)
	c := access.From(ctx)
	c.UserID, c.KeyID, c.Name = "", "key_000000000001", "You have won! http://evil.example"
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertKey(ctx, store.Key{TenantID: tn.ID, ID: c.KeyID, Name: c.Name, CreatedBy: ada.ID, CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1, Generation: 1})
	})
	if _, err := s.CreateInvitation(access.With(ctx, c), &cloudv1.CreateInvitationRequest{Email: "x@example.com", Roles: []string{viewer}}); err != nil {
		t.Fatal(err)
	}
	if l := w.Email(t); strings.Contains(l.Text+l.HTML+l.Subject, "evil.example") {
		t.Errorf("the email:\n%s", l.Text)
	}
}

// keyBy makes a key as if somebody had made it.
func keyBy(t *testing.T, w *cloudtest.World, tn store.Tenant, id, by string, k store.Key) {
	t.Helper()
	k.TenantID, k.ID, k.Name, k.CreatedBy, k.CreatedAt, k.UpdatedAt, k.Version, k.Generation = tn.ID, id, id, by, w.Now(), w.Now(), 1, 1
	w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertKey(ctx, k) })
}

// alive are the last digits of the keys, trusts and tokens that still let somebody in.
func alive(t *testing.T, w *cloudtest.World, tn store.Tenant) (ids string) {
	t.Helper()
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		for n := range 10 {
			k, keyErr := tx.GetKey(ctx, tn.ID, fmt.Sprintf("key_%012d", n))
			_, trustErr := tx.GetTrust(ctx, tn.ID, fmt.Sprintf("trust_%d", n))
			token, tokenErr := tx.GetScimToken(ctx, tn.ID, fmt.Sprintf("key_%012d", n))
			if keyErr == nil && k.RevokedAt.IsZero() || trustErr == nil || tokenErr == nil && token.RevokedAt.IsZero() {
				ids += fmt.Sprint(n)
			}
		}
		if k, err := tx.GetKey(ctx, tn.ID, "key_given_by_6"); err == nil && k.RevokedAt.IsZero() {
			ids += " and a temporary key"
		}
		return nil
	})
	return ids
}

// What a member leaves behind: their own keys end in the same step; those of service
// accounts, trusts and tokens of directories are listed, and end if asked for.
func TestRemoveMember_PersonalKeysEndAndOthersAreShown(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		tn, ada := w.Tenant(t, "acme", "ada@example.com")
		bob := w.Member(t, tn.ID, "bob@example.com", admin)
		machine := store.ServiceAccount{TenantID: tn.ID, ID: "sa_1", Name: "ci", CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertServiceAccount(ctx, machine) })
		management := store.Key{Kind: cloudv1.KeyKind_KEY_KIND_MANAGEMENT, OwnerID: machine.ID}
		keyBy(t, w, tn, "key_000000000001", bob.ID, management)
		keyBy(t, w, tn, "key_000000000002", "key_000000000001", management)
		keyBy(t, w, tn, "key_000000000003", bob.ID, store.Key{Kind: cloudv1.KeyKind_KEY_KIND_PERSONAL, OwnerID: bob.ID})
		keyBy(t, w, tn, "key_000000000004", ada.ID, management)
		trustBy(t, w, tn, "trust_5", bob.ID, machine)
		trustBy(t, w, tn, "trust_6", "key_000000000002", machine)
		trustBy(t, w, tn, "trust_7", ada.ID, machine)
		keyBy(t, w, tn, "key_given_by_6", "trust_6", store.Key{Kind: cloudv1.KeyKind_KEY_KIND_TEMPORARY, OwnerID: machine.ID, ExpiresAt: w.Now().Add(time.Hour)})
		okta := store.Connection{
			TenantID: tn.ID, ID: "sso_1", Name: "Okta", DefaultRole: rights.FixedID(viewer), Enabled: true, Settings: 1, Tested: 1, CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1,
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertConnection(ctx, okta) })
		tokenBy(t, w, okta, "key_000000000008", "key_given_by_6")
		tokenBy(t, w, okta, "key_000000000009", ada.ID)
		ctx, _ := w.As(t, tn, ada, owner)
		list, err := s.ListMemberKeys(ctx, &cloudv1.ListMemberKeysRequest{UserId: bob.ID})
		var shown []string
		for _, k := range list.GetKeys() {
			shown = append(shown, k.GetId()[len(k.GetId())-1:]+" of "+k.GetOwner())
		}
		if got := strings.Join(shown, ", "); err != nil || got != "1 of ci, 2 of ci, 3 of bob@example.com, 5 of ci, 6 of ci, 8 of Okta" {
			t.Errorf("%s, %v", got, err)
		}
		for _, others := range []string{"key_000000000004", "trust_7", "key_000000000009"} {
			_, err = s.RemoveMember(ctx, &cloudv1.RemoveMemberRequest{UserId: bob.ID, RevokeKeys: []string{others}})
			cloudtest.Refused(t, err, "INVALID_ARGUMENT")
		}
		removed, err := s.RemoveMember(ctx, &cloudv1.RemoveMemberRequest{UserId: bob.ID, RevokeKeys: []string{"key_000000000002", "trust_6", "key_000000000008"}})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(removed.GetRevokedKeys(), " ") != "key_000000000002 key_000000000003 trust_6 key_000000000008" || alive(t, w, tn) != "14579" {
			t.Errorf("%v; alive are %s", removed, alive(t, w, tn))
		}
		// The last of the keys is the one that the trust gave.
		if got := strings.Join(w.Audit(t, tn.ID), " "); got != "key.revoke key.revoke key.revoke trust.delete directory_token.revoke member.delete" {
			t.Errorf("audit has %s", got)
		}
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			events, err := tx.ListAudit(ctx, tn.ID, store.AuditFilter{}, store.Page{Limit: 1})
			if left := fmt.Sprint(events[0].Changes["keys_left"].After); err == nil && left != "[key_000000000001 key_000000000001 trust_5 trust trust_5]" {
				t.Errorf("left are %s", left)
			}
			return err
		})
	})
}

// Whoever ends a trust or a token stops what goes through it, as with a key.
func TestRemoveMember_NothingEndsThatCanDoMoreThanTheCaller(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	tn, _ := w.Tenant(t, "acme", "ada@example.com")
	adm, dev := w.Member(t, tn.ID, "admin@example.com", admin), w.Member(t, tn.ID, "dev@example.com", developer)
	machine := store.ServiceAccount{TenantID: tn.ID, ID: "sa_1", Name: "ci", CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1}
	okta := store.Connection{
		TenantID: tn.ID, ID: "sso_1", Name: "Okta", DefaultRole: rights.FixedID(owner), Enabled: true, Settings: 1, Tested: 1, CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1,
	}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.InsertServiceAccount(ctx, machine); err != nil {
			return err
		}
		if err := tx.InsertConnection(ctx, okta); err != nil {
			return err
		}
		return tx.InsertBinding(ctx, store.Binding{TenantID: tn.ID, ID: w.IDs.New(ids.Binding, w.Now()), PrincipalID: machine.ID, RoleID: rights.FixedID(owner), CreatedAt: w.Now()})
	})
	keyBy(t, w, tn, "key_000000000001", dev.ID, store.Key{Kind: cloudv1.KeyKind_KEY_KIND_MANAGEMENT, OwnerID: machine.ID})
	trustBy(t, w, tn, "trust_2", dev.ID, machine)
	tokenBy(t, w, okta, "key_000000000003", dev.ID)
	ctx, _ := w.As(t, tn, adm, admin)
	for _, id := range []string{"key_000000000001", "trust_2", "key_000000000003"} {
		_, err := s.RemoveMember(ctx, &cloudv1.RemoveMemberRequest{UserId: dev.ID, RevokeKeys: []string{id}})
		cloudtest.Refused(t, err, "ABOVE_CALLER")
	}
	if _, err := s.RemoveMember(ctx, &cloudv1.RemoveMemberRequest{UserId: dev.ID}); err != nil || alive(t, w, tn) != "123" {
		t.Errorf("%v; alive are %s", err, alive(t, w, tn))
	}
}

// trustBy makes a trust for a service account as if somebody had made it.
func trustBy(t *testing.T, w *cloudtest.World, tn store.Tenant, id, by string, a store.ServiceAccount) {
	t.Helper()
	v := store.Trust{
		TenantID: tn.ID, ID: id, Name: id, AccountID: a.ID, Issuer: "https://issuer.test", Audience: "corvo", KeyLife: time.Hour, CreatedBy: by, CreatedAt: w.Now(), UpdatedAt: w.Now(), Version: 1,
	}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertTrust(ctx, v) })
}

// tokenBy makes a token of a connection's directory as if somebody had made it.
func tokenBy(t *testing.T, w *cloudtest.World, c store.Connection, id, by string) {
	t.Helper()
	v := store.ScimToken{TenantID: c.TenantID, ID: id, ConnectionID: c.ID, Digest: id, CreatedBy: by, CreatedAt: w.Now(), ExpiresAt: w.Now().Add(time.Hour)}
	w.Service(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertScimToken(ctx, v) })
}

func TestInvitations_AKeyDoesNotBringItsMakerBack(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	tn, ada := w.Tenant(t, "acme", "ada@example.com")
	bob := w.Member(t, tn.ID, "bob@example.com", admin)
	management := store.Key{Kind: cloudv1.KeyKind_KEY_KIND_MANAGEMENT, OwnerID: "sa_1"}
	keyBy(t, w, tn, "key_000000000001", bob.ID, management)
	keyBy(t, w, tn, "key_000000000002", "key_000000000001", management)
	keyBy(t, w, tn, "key_000000000003", ada.ID, management)
	ctx, _ := w.As(t, tn, ada, owner)
	if _, err := s.RemoveMember(ctx, &cloudv1.RemoveMemberRequest{UserId: bob.ID}); err != nil {
		t.Fatal(err)
	}
	byKey := func(id, email string) error {
		c := access.From(ctx)
		c.UserID, c.SessionID, c.KeyID, c.Name, c.Rights = "", "", id, id, cloudtest.Rights(admin)
		_, err := s.CreateInvitation(access.With(ctx, c), &cloudv1.CreateInvitationRequest{Email: email, Roles: []string{viewer}})
		return err
	}
	for _, id := range []string{"key_000000000001", "key_000000000002"} {
		cloudtest.Refused(t, byKey(id, "bob@example.com"), "KEY_MAKER_LEFT")
		cloudtest.Refused(t, byKey(id, "bob.again@example.com"), "KEY_MAKER_LEFT")
	}
	if err := byKey("key_000000000003", "bob@example.com"); err != nil {
		t.Errorf("the key of a member: %v", err)
	}
}

// A service account may get more roles than whoever made its key has; what the operator
// made has nobody behind it.
func TestCreateInvitation_AKeyInvitesNobodyWhomItsMakerCouldNot(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	tn, ada := w.Tenant(t, "acme", "ada@example.com")
	dev := w.Member(t, tn.ID, "dev@example.com", developer)
	ctx, _ := w.As(t, tn, ada, owner)
	for id, by := range map[string]string{"key_000000000001": dev.ID, "key_000000000002": ada.ID, "key_000000000003": ""} {
		keyBy(t, w, tn, id, by, store.Key{Kind: cloudv1.KeyKind_KEY_KIND_MANAGEMENT, OwnerID: "sa_1"})
		c := access.From(ctx)
		c.UserID, c.SessionID, c.KeyID, c.Name, c.Rights = "", "", id, id, cloudtest.Rights(admin)
		_, err := s.CreateInvitation(access.With(ctx, c), &cloudv1.CreateInvitationRequest{Email: id + "@example.com", Roles: []string{viewer}})
		if by == dev.ID {
			cloudtest.Refused(t, err, "ABOVE_KEY_MAKER")
			continue
		}
		if err != nil {
			t.Fatalf("by a key of %q: %v", by, err)
		}
		if _, _, err := accept(t, s, cloudtest.Token(t, w.Email(t)), ""); err != nil {
			t.Errorf("invited by a key of %q: %v", by, err)
		}
	}
}

// Somebody who became a member in another way uses the invitation up: the log says so.
func TestAcceptInvitation_OfAMemberIsUsedUpAndEntered(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		tn, ada := w.Tenant(t, "acme", "ada@example.com")
		ctx, _ := w.As(t, tn, ada, owner)
		i, token := invite(t, w, s, ctx, "bob@example.com", admin)
		bob := w.Member(t, tn.ID, "bob@example.com", developer) // Came in through another door.
		var own session.Opened
		w.Service(t, func(ctx context.Context, tx *store.Tx) (err error) {
			own, err = session.Open(ctx, tx, w.IDs, w.Now(), bob.ID, "", "")
			return err
		})
		if _, _, err := acceptIn(t, s, token, "", own.Token); err != nil {
			t.Fatal(err)
		}
		checkJoined(t, w, tn, bob.ID, own.Token, "") // With the role there was.
		_, _, err := acceptIn(t, s, token, "", own.Token)
		cloudtest.Refused(t, err, "LINK_UNKNOWN")
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			events, err := tx.ListAudit(ctx, tn.ID, store.AuditFilter{}, store.Page{Limit: 1})
			if e := events[0]; err == nil && (e.Action != "invitation.delete" || e.TargetID != i.GetId() || e.ActorID != bob.ID || e.Changes["reason"].After == nil) {
				t.Errorf("audit has %+v", e)
			}
			return err
		})
	})
}

// An invitation from before the removal is no way back: only a new one is.
func TestRemoveMember_OlderInvitationsToTheAddressEnd(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		s := newService(w)
		tn, boss := w.Tenant(t, "acme", "boss@example.com")
		ctx, _ := w.As(t, tn, boss, owner)
		invite := func() string {
			if _, err := s.CreateInvitation(ctx, &cloudv1.CreateInvitationRequest{Email: "bob@example.com", Roles: []string{viewer}}); err != nil {
				t.Fatal(err)
			}
			return cloudtest.Token(t, w.Email(t))
		}
		older := invite()
		bob := w.Member(t, tn.ID, "bob@example.com", viewer) // Came in through another door.
		if _, err := s.RemoveMember(ctx, &cloudv1.RemoveMemberRequest{UserId: bob.ID}); err != nil {
			t.Fatal(err)
		}
		w.Outbox(t)
		public, _ := cloudtest.Public(t, "203.0.113.5", "")
		_, err := s.PreviewInvitation(public, &cloudv1.PreviewInvitationRequest{Token: older})
		cloudtest.Refused(t, err, "LINK_UNKNOWN")
		_, err = s.AcceptInvitation(public, &cloudv1.AcceptInvitationRequest{Token: older})
		cloudtest.Refused(t, err, "LINK_UNKNOWN")
		if _, err := s.PreviewInvitation(public, &cloudv1.PreviewInvitationRequest{Token: invite()}); err != nil {
			t.Errorf("invited again: %v", err)
		}
	})
}

// Open invitations count: whoever is invited shall find room.
func TestMembers_ThePlanLimitsThemWithTheInvitationsThatAreOpen(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	s := newService(w)
	tn, boss := w.Tenant(t, "acme", "boss@example.com")
	ctx, _ := w.As(t, tn, boss, owner)
	limit := func(n int64) {
		w.Service(t, func(ctx context.Context, tx *store.Tx) error {
			return tx.PutOverride(ctx, store.Override{TenantID: tn.ID, Name: "members_max", Value: n, CreatedAt: w.Now()})
		})
	}
	invite := func(email string) error {
		_, err := s.CreateInvitation(ctx, &cloudv1.CreateInvitationRequest{Email: email, Roles: []string{viewer}})
		return err
	}
	limit(2)
	for range 2 { // A new one replaces that of the same address.
		if err := invite("one@example.com"); err != nil {
			t.Fatal(err)
		}
	}
	cloudtest.Refused(t, invite("two@example.com"), "PLAN_LIMIT")
	emails := w.Emails(t)
	limit(1)
	public, _ := cloudtest.Public(t, "203.0.113.1", "")
	_, err := s.AcceptInvitation(public, &cloudv1.AcceptInvitationRequest{Token: cloudtest.Token(t, emails[len(emails)-1])})
	cloudtest.Refused(t, err, "PLAN_LIMIT")
}
