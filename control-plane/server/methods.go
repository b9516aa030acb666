package server

import (
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
	"github.com/corvo-cloud/corvo/control-plane/internal/server"
)

// methods is which use case answers which RPC.
func (s *Server) methods() []server.Method {
	t, l, u, m, o := s.tenancy, s.login, s.signup, s.members, s.sso
	return []server.Method{
		server.Unary(cloudv1connect.TenantServiceGetTenantProcedure, t.GetTenant),
		server.Unary(cloudv1connect.TenantServiceUpdateTenantProcedure, t.UpdateTenant),

		server.Unary(cloudv1connect.NamespaceServiceCreateNamespaceProcedure, t.CreateNamespace),
		server.Unary(cloudv1connect.NamespaceServiceGetNamespaceProcedure, t.GetNamespace),
		server.Unary(cloudv1connect.NamespaceServiceListNamespacesProcedure, t.ListNamespaces),
		server.Unary(cloudv1connect.NamespaceServiceUpdateNamespaceProcedure, t.UpdateNamespace),
		server.Unary(cloudv1connect.NamespaceServiceDeleteNamespaceProcedure, t.DeleteNamespace),

		server.Unary(cloudv1connect.ApiKeyServiceCreateApiKeyProcedure, t.CreateApiKey),
		server.Unary(cloudv1connect.ApiKeyServiceGetApiKeyProcedure, t.GetApiKey),
		server.Unary(cloudv1connect.ApiKeyServiceListApiKeysProcedure, t.ListApiKeys),
		server.Unary(cloudv1connect.ApiKeyServiceUpdateApiKeyProcedure, t.UpdateApiKey),
		server.Unary(cloudv1connect.ApiKeyServiceRotateApiKeyProcedure, t.RotateApiKey),
		server.Unary(cloudv1connect.ApiKeyServiceRevokeApiKeyProcedure, t.RevokeApiKey),

		server.Unary(cloudv1connect.AuditServiceListAuditEventsProcedure, t.ListAuditEvents),

		server.Unary(cloudv1connect.AuthServiceGetCurrentIdentityProcedure, t.GetCurrentIdentity),
		server.Unary(cloudv1connect.AuthServiceMintTokenProcedure, t.MintToken),
		server.Unary(cloudv1connect.AuthServiceStartLoginProcedure, l.StartLogin),
		server.Unary(cloudv1connect.AuthServicePreviewLoginProcedure, l.PreviewLogin),
		server.Unary(cloudv1connect.AuthServiceFinishLoginProcedure, l.FinishLogin),
		server.Unary(cloudv1connect.AuthServiceLogoutProcedure, l.Logout),

		server.Unary(cloudv1connect.SignupServiceCheckNameProcedure, u.CheckName),
		server.Unary(cloudv1connect.SignupServiceStartProcedure, u.Start),
		server.Unary(cloudv1connect.SignupServicePreviewConfirmProcedure, u.PreviewConfirm),
		server.Unary(cloudv1connect.SignupServiceConfirmProcedure, u.Confirm),

		server.Unary(cloudv1connect.MemberServiceListMembersProcedure, m.ListMembers),
		server.Unary(cloudv1connect.MemberServiceListMemberKeysProcedure, m.ListMemberKeys),
		server.Unary(cloudv1connect.MemberServiceUpdateMemberProcedure, m.UpdateMember),
		server.Unary(cloudv1connect.MemberServiceRemoveMemberProcedure, m.RemoveMember),
		server.Unary(cloudv1connect.MemberServiceListInvitationsProcedure, m.ListInvitations),
		server.Unary(cloudv1connect.MemberServiceCreateInvitationProcedure, m.CreateInvitation),
		server.Unary(cloudv1connect.MemberServiceRevokeInvitationProcedure, m.RevokeInvitation),
		server.Unary(cloudv1connect.MemberServicePreviewInvitationProcedure, m.PreviewInvitation),
		server.Unary(cloudv1connect.MemberServiceAcceptInvitationProcedure, m.AcceptInvitation),

		server.Unary(cloudv1connect.SsoServiceListSsoConnectionsProcedure, o.ListSsoConnections),
		server.Unary(cloudv1connect.SsoServiceCreateSsoConnectionProcedure, o.CreateSsoConnection),
		server.Unary(cloudv1connect.SsoServiceUpdateSsoConnectionProcedure, o.UpdateSsoConnection),
		server.Unary(cloudv1connect.SsoServiceSwitchSsoConnectionProcedure, o.SwitchSsoConnection),
		server.Unary(cloudv1connect.SsoServiceDiscardSsoChangeProcedure, o.DiscardSsoChange),
		server.Unary(cloudv1connect.SsoServiceDeleteSsoConnectionProcedure, o.DeleteSsoConnection),
		server.Unary(cloudv1connect.SsoServiceStartTestLoginProcedure, o.StartTestLogin),
	}
}
