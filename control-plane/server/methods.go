package server

import (
	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
	"github.com/corvo-cloud/corvo/control-plane/internal/server"
)

// methods is which use case answers which RPC.
func (s *Server) methods() []server.Method {
	t, l, u, m, o := s.tenancy, s.login, s.signup, s.members, s.sso
	d, a, p := s.device, s.account, s.principals
	f := s.factors
	return []server.Method{
		server.Unary(cloudv1connect.TenantServiceGetTenantProcedure, t.GetTenant),
		server.Unary(cloudv1connect.TenantServiceUpdateTenantProcedure, t.UpdateTenant),

		server.Unary(cloudv1connect.PlanServiceListPlansProcedure, s.plans.ListPlans),
		server.Unary(cloudv1connect.PlanServiceGetSubscriptionProcedure, s.plans.GetSubscription),
		server.Unary(cloudv1connect.PlanServiceChangePlanProcedure, s.plans.ChangePlan),
		server.Unary(cloudv1connect.PlanServiceCancelPlanChangeProcedure, s.plans.CancelPlanChange),

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
		server.Unary(cloudv1connect.AuditServiceExportAuditLogProcedure, s.auditing.ExportAuditLog),
		server.Unary(cloudv1connect.AuditServiceListAuditKeysProcedure, s.auditing.ListAuditKeys),
		server.Unary(cloudv1connect.AuditServiceCreateAuditSinkProcedure, s.sinks.CreateAuditSink),
		server.Unary(cloudv1connect.AuditServiceGetAuditSinkProcedure, s.sinks.GetAuditSink),
		server.Unary(cloudv1connect.AuditServiceListAuditSinksProcedure, s.sinks.ListAuditSinks),
		server.Unary(cloudv1connect.AuditServiceUpdateAuditSinkProcedure, s.sinks.UpdateAuditSink),
		server.Unary(cloudv1connect.AuditServiceDeleteAuditSinkProcedure, s.sinks.DeleteAuditSink),
		server.Unary(cloudv1connect.AuditServiceTestAuditSinkProcedure, s.sinks.TestAuditSink),

		server.Unary(cloudv1connect.AuthServiceGetCurrentIdentityProcedure, t.GetCurrentIdentity),
		server.Unary(cloudv1connect.AuthServiceMintTokenProcedure, t.MintToken),
		server.Unary(cloudv1connect.AuthServiceStartLoginProcedure, l.StartLogin),
		server.Unary(cloudv1connect.AuthServicePreviewLoginProcedure, l.PreviewLogin),
		server.Unary(cloudv1connect.AuthServiceFinishLoginProcedure, l.FinishLogin),
		server.Unary(cloudv1connect.AuthServiceLogoutProcedure, l.Logout),

		server.Unary(cloudv1connect.AuthServiceStartDeviceLoginProcedure, d.StartDeviceLogin),
		server.Unary(cloudv1connect.AuthServicePollDeviceLoginProcedure, d.PollDeviceLogin),
		server.Unary(cloudv1connect.AuthServicePreviewDeviceLoginProcedure, d.PreviewDeviceLogin),
		server.Unary(cloudv1connect.AuthServiceApproveDeviceLoginProcedure, d.ApproveDeviceLogin),
		server.Unary(cloudv1connect.AuthServiceDenyDeviceLoginProcedure, d.DenyDeviceLogin),

		server.Unary(cloudv1connect.SessionServiceListSessionsProcedure, a.ListSessions),
		server.Unary(cloudv1connect.SessionServiceRevokeSessionProcedure, a.RevokeSession),
		server.Unary(cloudv1connect.SessionServiceRevokeOtherSessionsProcedure, a.RevokeOtherSessions),
		server.Unary(cloudv1connect.SessionServiceLeaveTenantProcedure, a.LeaveTenant),

		server.Unary(cloudv1connect.FactorServiceListFactorsProcedure, f.ListFactors),
		server.Unary(cloudv1connect.FactorServiceStartPasskeyProcedure, f.StartPasskey),
		server.Unary(cloudv1connect.FactorServiceFinishPasskeyProcedure, f.FinishPasskey),
		server.Unary(cloudv1connect.FactorServiceStartTotpProcedure, f.StartTotp),
		server.Unary(cloudv1connect.FactorServiceFinishTotpProcedure, f.FinishTotp),
		server.Unary(cloudv1connect.FactorServiceRenameFactorProcedure, f.RenameFactor),
		server.Unary(cloudv1connect.FactorServiceRemoveFactorProcedure, f.RemoveFactor),
		server.Unary(cloudv1connect.FactorServiceCreateRecoveryCodesProcedure, f.CreateRecoveryCodes),
		server.Unary(cloudv1connect.FactorServiceStartProofProcedure, f.StartProof),
		server.Unary(cloudv1connect.FactorServiceProveProcedure, f.Prove),

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

		server.Unary(cloudv1connect.RoleServiceListPermissionsProcedure, p.ListPermissions),
		server.Unary(cloudv1connect.RoleServiceListRolesProcedure, p.ListRoles),
		server.Unary(cloudv1connect.RoleServiceGetRoleProcedure, p.GetRole),
		server.Unary(cloudv1connect.RoleServiceCreateRoleProcedure, p.CreateRole),
		server.Unary(cloudv1connect.RoleServiceUpdateRoleProcedure, p.UpdateRole),
		server.Unary(cloudv1connect.RoleServiceDeleteRoleProcedure, p.DeleteRole),
		server.Unary(cloudv1connect.RoleServiceListRoleBindingsProcedure, p.ListRoleBindings),
		server.Unary(cloudv1connect.RoleServiceGetRoleBindingProcedure, p.GetRoleBinding),
		server.Unary(cloudv1connect.RoleServiceCreateRoleBindingProcedure, p.CreateRoleBinding),
		server.Unary(cloudv1connect.RoleServiceDeleteRoleBindingProcedure, p.DeleteRoleBinding),

		server.Unary(cloudv1connect.ServiceAccountServiceCreateServiceAccountProcedure, p.CreateServiceAccount),
		server.Unary(cloudv1connect.ServiceAccountServiceGetServiceAccountProcedure, p.GetServiceAccount),
		server.Unary(cloudv1connect.ServiceAccountServiceListServiceAccountsProcedure, p.ListServiceAccounts),
		server.Unary(cloudv1connect.ServiceAccountServiceUpdateServiceAccountProcedure, p.UpdateServiceAccount),
		server.Unary(cloudv1connect.ServiceAccountServiceDeleteServiceAccountProcedure, p.DeleteServiceAccount),

		server.Unary(cloudv1connect.TrustServiceCreateTrustProcedure, s.exchange.CreateTrust),
		server.Unary(cloudv1connect.TrustServiceGetTrustProcedure, s.exchange.GetTrust),
		server.Unary(cloudv1connect.TrustServiceListTrustsProcedure, s.exchange.ListTrusts),
		server.Unary(cloudv1connect.TrustServiceUpdateTrustProcedure, s.exchange.UpdateTrust),
		server.Unary(cloudv1connect.TrustServiceDeleteTrustProcedure, s.exchange.DeleteTrust),
		server.Unary(cloudv1connect.TrustServiceExchangeTokenProcedure, s.exchange.ExchangeToken),

		server.Unary(cloudv1connect.GroupServiceCreateGroupProcedure, p.CreateGroup),
		server.Unary(cloudv1connect.GroupServiceGetGroupProcedure, p.GetGroup),
		server.Unary(cloudv1connect.GroupServiceListGroupsProcedure, p.ListGroups),
		server.Unary(cloudv1connect.GroupServiceUpdateGroupProcedure, p.UpdateGroup),
		server.Unary(cloudv1connect.GroupServiceDeleteGroupProcedure, p.DeleteGroup),
		server.Unary(cloudv1connect.GroupServiceListGroupMembersProcedure, p.ListGroupMembers),
		server.Unary(cloudv1connect.GroupServiceAddGroupMembersProcedure, p.AddGroupMembers),
		server.Unary(cloudv1connect.GroupServiceRemoveGroupMembersProcedure, p.RemoveGroupMembers),

		server.Unary(cloudv1connect.AccessServiceExplainProcedure, p.Explain),
		server.Unary(cloudv1connect.AccessServiceListWhoCanProcedure, p.ListWhoCan),
		server.Unary(cloudv1connect.AccessServiceListAccessReviewProcedure, p.ListAccessReview),

		server.Unary(cloudv1connect.PolicyServiceGetSignInPolicyProcedure, s.policy.GetSignInPolicy),
		server.Unary(cloudv1connect.PolicyServiceUpdateSignInPolicyProcedure, s.policy.UpdateSignInPolicy),
		server.Unary(cloudv1connect.PolicyServiceListKeysOutsidePolicyProcedure, s.policy.ListKeysOutsidePolicy),
		server.Unary(cloudv1connect.PolicyServiceCreateBreakGlassCodesProcedure, s.policy.CreateBreakGlassCodes),
		server.Unary(cloudv1connect.PolicyServiceUseBreakGlassCodeProcedure, s.policy.UseBreakGlassCode),

		server.Unary(cloudv1connect.UsageServiceGetUsageProcedure, s.usage.GetUsage),
		server.Unary(cloudv1connect.UsageServiceExportUsageProcedure, s.usage.ExportUsage),
		server.Unary(cloudv1connect.UsageServicePreviewInvoiceProcedure, s.usage.PreviewInvoice),
		server.Unary(cloudv1connect.UsageServiceGetSpendLimitProcedure, s.usage.GetSpendLimit),
		server.Unary(cloudv1connect.UsageServiceSetSpendLimitProcedure, s.usage.SetSpendLimit),

		server.Unary(cloudv1connect.BillingServiceGetBillingProcedure, s.stripe.GetBilling),
		server.Unary(cloudv1connect.BillingServiceUpdateBillingProcedure, s.stripe.UpdateBilling),
		server.Unary(cloudv1connect.BillingServiceStartCheckoutProcedure, s.stripe.StartCheckout),
		server.Unary(cloudv1connect.BillingServiceOpenPortalProcedure, s.stripe.OpenPortal),
		server.Unary(cloudv1connect.BillingServiceListInvoicesProcedure, s.stripe.ListInvoices),

		server.Unary(cloudv1connect.OperatorServiceListTenantsProcedure, s.operators.ListTenants),
		server.Unary(cloudv1connect.OperatorServiceDescribeTenantProcedure, s.operators.DescribeTenant),
		server.Unary(cloudv1connect.OperatorServiceSetTenantPlanProcedure, s.operators.SetTenantPlan),
		server.Unary(cloudv1connect.OperatorServiceSetOverrideProcedure, s.operators.SetOverride),
		server.Unary(cloudv1connect.OperatorServiceRemoveOverrideProcedure, s.operators.RemoveOverride),
		server.Unary(cloudv1connect.OperatorServiceListPlanVersionsProcedure, s.operators.ListPlanVersions),
		server.Unary(cloudv1connect.OperatorServiceApplyPlanProcedure, s.operators.ApplyPlan),
		server.Unary(cloudv1connect.OperatorServiceGetReconciliationProcedure, s.operators.GetReconciliation),
		server.Unary(cloudv1connect.OperatorServiceRunReconciliationProcedure, s.operators.RunReconciliation),

		server.Unary(cloudv1connect.DirectoryServiceGetDirectorySyncProcedure, s.directory.GetDirectorySync),
		server.Unary(cloudv1connect.DirectoryServiceListScimTokensProcedure, s.directory.ListScimTokens),
		server.Unary(cloudv1connect.DirectoryServiceCreateScimTokenProcedure, s.directory.CreateScimToken),
		server.Unary(cloudv1connect.DirectoryServiceUpdateScimTokenProcedure, s.directory.UpdateScimToken),
		server.Unary(cloudv1connect.DirectoryServiceRevokeScimTokenProcedure, s.directory.RevokeScimToken),

		server.Unary(cloudv1connect.DomainServiceCreateDomainProcedure, s.domains.CreateDomain),
		server.Unary(cloudv1connect.DomainServiceGetDomainProcedure, s.domains.GetDomain),
		server.Unary(cloudv1connect.DomainServiceListDomainsProcedure, s.domains.ListDomains),
		server.Unary(cloudv1connect.DomainServiceVerifyDomainProcedure, s.domains.VerifyDomain),
		server.Unary(cloudv1connect.DomainServiceUpdateDomainProcedure, s.domains.UpdateDomain),
		server.Unary(cloudv1connect.DomainServiceDeleteDomainProcedure, s.domains.DeleteDomain),
		server.Unary(cloudv1connect.DomainServiceFindSignInProcedure, s.domains.FindSignIn),

		server.Unary(cloudv1connect.SsoServiceListSsoConnectionsProcedure, o.ListSsoConnections),
		server.Unary(cloudv1connect.SsoServiceCreateSsoConnectionProcedure, o.CreateSsoConnection),
		server.Unary(cloudv1connect.SsoServiceUpdateSsoConnectionProcedure, o.UpdateSsoConnection),
		server.Unary(cloudv1connect.SsoServiceSwitchSsoConnectionProcedure, o.SwitchSsoConnection),
		server.Unary(cloudv1connect.SsoServiceDiscardSsoChangeProcedure, o.DiscardSsoChange),
		server.Unary(cloudv1connect.SsoServiceRotateSamlKeyProcedure, o.RotateSamlKey),
		server.Unary(cloudv1connect.SsoServiceDeleteSsoConnectionProcedure, o.DeleteSsoConnection),
		server.Unary(cloudv1connect.SsoServiceStartTestLoginProcedure, o.StartTestLogin),
	}
}
