package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// peopleBuilders are the requests about people: sign-up, sign-in, members, providers.
func peopleBuilders() map[string]builder {
	return map[string]builder{
		"SignupService/CheckName": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.CheckNameRequest{Tenant: "some-name"}
		}),
		"SignupService/Start": plain(func(_ testing.TB, p *fixture) proto.Message {
			name := strings.ToLower(p.id(ids.Signup)[10:])
			return &cloudv1.StartRequest{Email: name + "@corvo.test", Tenant: "t-" + name}
		}),
		"SignupService/PreviewConfirm": plain(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.PreviewConfirmRequest{Token: p.started(t)}
		}),
		"SignupService/Confirm": plain(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.ConfirmRequest{Token: p.started(t)}
		}),
		"AuthService/StartLogin": plain(func(_ testing.TB, p *fixture) proto.Message {
			return &cloudv1.StartLoginRequest{Email: p.Email}
		}),
		"AuthService/PreviewLogin": plain(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.PreviewLoginRequest{Token: p.loginToken(t)}
		}),
		"AuthService/FinishLogin": plain(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.FinishLoginRequest{Token: p.loginToken(t)}
		}),
		"AuthService/Logout": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.LogoutRequest) }),
		"MemberService/ListMembers": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.ListMembersRequest{PageSize: 1}
		}),
		"MemberService/UpdateMember": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.UpdateMemberRequest{UserId: p.user(t, viewer).ID, Role: cloudv1.TenantRole_TENANT_ROLE_DEVELOPER}
		}),
		"MemberService/ListMemberKeys": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.ListMemberKeysRequest{UserId: p.user(t, viewer).ID}
		}),
		"MemberService/RemoveMember": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.RemoveMemberRequest{UserId: p.user(t, viewer).ID}
		}),
		"MemberService/ListInvitations": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.ListInvitationsRequest{PageSize: 1}
		}),
		"MemberService/CreateInvitation": plain(func(_ testing.TB, p *fixture) proto.Message {
			return &cloudv1.CreateInvitationRequest{Email: strings.ToLower(p.id(ids.User)) + "@corvo.test", Role: viewer}
		}),
		"MemberService/RevokeInvitation": about(func(t testing.TB, p *fixture) proto.Message {
			id, _ := p.invitation(t)
			return &cloudv1.RevokeInvitationRequest{InvitationId: id}
		}),
		"MemberService/PreviewInvitation": plain(func(t testing.TB, p *fixture) proto.Message {
			_, token := p.invitation(t)
			return &cloudv1.PreviewInvitationRequest{Token: token}
		}),
		"MemberService/AcceptInvitation": plain(func(t testing.TB, p *fixture) proto.Message {
			_, token := p.invitation(t)
			return &cloudv1.AcceptInvitationRequest{Token: token, Name: "Ada"}
		}),
		"SsoService/ListSsoConnections": plain(func(testing.TB, *fixture) proto.Message {
			return new(cloudv1.ListSsoConnectionsRequest)
		}),
		"SsoService/CreateSsoConnection": plain(func(t testing.TB, _ *fixture) proto.Message {
			return &cloudv1.CreateSsoConnectionRequest{Name: "Test", Issuer: issuer(t), ClientId: "client", ClientSecret: "secret", DefaultRole: viewer}
		}),
		"SsoService/UpdateSsoConnection": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.UpdateSsoConnectionRequest{ConnectionId: p.connection(t), Name: "New", UpdateMask: mask("name")}
		}),
		"SsoService/SwitchSsoConnection": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.SwitchSsoConnectionRequest{ConnectionId: p.stagedConnection(t)}
		}),
		"SsoService/DiscardSsoChange": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.DiscardSsoChangeRequest{ConnectionId: p.connection(t)}
		}),
		"SsoService/DeleteSsoConnection": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.DeleteSsoConnectionRequest{ConnectionId: p.connection(t)}
		}),
		"SsoService/StartTestLogin": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.StartTestLoginRequest{ConnectionId: p.connection(t)}
		}),
	}
}

// started is the token of a sign-up's mail.
func (p *fixture) started(t testing.TB) string {
	token, digest := seal.NewToken("corvo_signup_")
	s := store.Signup{ID: p.id(ids.Signup), Digest: digest, CodeDigest: "x", Peer: "127.0.0.1", CreatedAt: p.kit.Now(), ExpiresAt: p.kit.Now().Add(30 * time.Minute)}
	s.TenantName = "t-" + strings.ToLower(s.ID[10:])
	s.Email = s.TenantName + "@corvo.test"
	p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.InsertSignup(ctx, s) })
	return token
}

func (p *fixture) loginToken(t testing.TB) string {
	link, err := p.SignInLink(t.Context(), p.Email)
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(link, "#token=")
	return token
}
