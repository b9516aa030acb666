package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
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
		"AuthService/StartDeviceLogin": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.StartDeviceLoginRequest{ClientName: "test"}
		}),
		"AuthService/PollDeviceLogin": plain(func(t testing.TB, p *fixture) proto.Message {
			device, _ := p.deviceCodes(t)
			return &cloudv1.PollDeviceLoginRequest{DeviceCode: device}
		}),
		"AuthService/PreviewDeviceLogin": plain(func(t testing.TB, p *fixture) proto.Message {
			_, user := p.deviceCodes(t)
			return &cloudv1.PreviewDeviceLoginRequest{UserCode: user}
		}),
		"AuthService/ApproveDeviceLogin": plain(func(t testing.TB, p *fixture) proto.Message {
			_, user := p.deviceCodes(t)
			return &cloudv1.ApproveDeviceLoginRequest{UserCode: user}
		}),
		"AuthService/DenyDeviceLogin": plain(func(t testing.TB, p *fixture) proto.Message {
			_, user := p.deviceCodes(t)
			return &cloudv1.DenyDeviceLoginRequest{UserCode: user}
		}),
		"SessionService/ListSessions": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.ListSessionsRequest) }),
		"SessionService/RevokeSession": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.RevokeSessionRequest{SessionId: "ses_01KA000000000000000000000X"}
		}),
		"SessionService/RevokeOtherSessions": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.RevokeOtherSessionsRequest) }),
		"SessionService/LeaveTenant": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.LeaveTenantRequest{Tenant: "no-such-tenant"}
		}),
		"FactorService/ListFactors":  plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.ListFactorsRequest) }),
		"FactorService/StartPasskey": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.StartPasskeyRequest) }),
		"FactorService/FinishPasskey": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.FinishPasskeyRequest{Ceremony: "none", CredentialJson: "{}"}
		}),
		"FactorService/StartTotp":  plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.StartTotpRequest) }),
		"FactorService/FinishTotp": plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.FinishTotpRequest{FactorId: "none"} }),
		"FactorService/RenameFactor": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.RenameFactorRequest{FactorId: "none", Name: "New"}
		}),
		"FactorService/RemoveFactor":        plain(func(testing.TB, *fixture) proto.Message { return &cloudv1.RemoveFactorRequest{FactorId: "none"} }),
		"FactorService/CreateRecoveryCodes": plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.CreateRecoveryCodesRequest) }),
		"FactorService/StartProof":          plain(func(testing.TB, *fixture) proto.Message { return new(cloudv1.StartProofRequest) }),
		"FactorService/Prove": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.ProveRequest{Proof: &cloudv1.ProveRequest_RecoveryCode{RecoveryCode: "none"}}
		}),
		"MemberService/ListMembers": plain(func(testing.TB, *fixture) proto.Message {
			return &cloudv1.ListMembersRequest{PageSize: 1}
		}),
		"MemberService/UpdateMember": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.UpdateMemberRequest{UserId: p.user(t, viewer).ID, Roles: []string{permission.RoleDeveloper}}
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
			return &cloudv1.CreateInvitationRequest{Email: strings.ToLower(p.id(ids.User)) + "@corvo.test", Roles: []string{viewer}}
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
		"DirectoryService/GetDirectorySync": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.GetDirectorySyncRequest{ConnectionId: p.directoryConnection(t)}
		}),
		"DirectoryService/ListScimTokens": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.ListScimTokensRequest{ConnectionId: p.directoryConnection(t)}
		}),
		"DirectoryService/CreateScimToken": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.CreateScimTokenRequest{ConnectionId: p.directoryConnection(t)}
		}),
		"DirectoryService/UpdateScimToken": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.UpdateScimTokenRequest{TokenId: p.scimToken(t), ExpiresAt: timestamppb.New(p.kit.Now().Add(30 * time.Minute))}
		}),
		"DirectoryService/RevokeScimToken": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.RevokeScimTokenRequest{TokenId: p.scimToken(t)}
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
		"SsoService/RotateSamlKey": about(func(t testing.TB, p *fixture) proto.Message {
			return &cloudv1.RotateSamlKeyRequest{ConnectionId: p.connection(t)}
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
