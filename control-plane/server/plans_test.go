package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Every feature that a plan can lack is refused where it is made, for an owner too.
func TestPlans_WhatThePlanLacksIsRefusedWithThePlanThatHasIt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := s.newFixture(t, "acme")
	build := builders()
	for procedure, feature := range map[string]string{
		"/corvo.cloud.v1.SsoService/CreateSsoConnection":   "feature.sso",
		"/corvo.cloud.v1.DirectoryService/CreateScimToken": "feature.scim",
		"/corvo.cloud.v1.AuditService/CreateAuditSink":     "feature.audit_sinks",
		"/corvo.cloud.v1.RoleService/CreateRole":           "feature.custom_roles",
	} {
		request := build[procedure].build(t, p)
		setTenant(request, p.Tenant)
		p.in(t, func(ctx context.Context, tx *store.Tx) error {
			return tx.PutOverride(ctx, store.Override{TenantID: p.TenantID, Name: feature, CreatedAt: p.kit.Now()})
		})
		without := s.call(t, procedure, marshal(t, request), bearer(p.manage)...)
		if without.status == http.StatusOK || !strings.Contains(without.body, "PLAN_FEATURE") || !strings.Contains(without.body, feature) || !strings.Contains(without.body, "the plan free does") {
			t.Errorf("%s without %s: %d %s", procedure, feature, without.status, without.body)
		}
		p.in(t, func(ctx context.Context, tx *store.Tx) error { return tx.DeleteOverride(ctx, p.TenantID, feature) })
		if with := s.call(t, procedure, marshal(t, request), bearer(p.manage)...); with.status != http.StatusOK {
			t.Errorf("%s with %s: %d %s", procedure, feature, with.status, with.body)
		}
	}
}
