package operators

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// ListPlanVersions lists all versions of all plans, or of one.
func (s *Service) ListPlanVersions(ctx context.Context, r *cloudv1.ListPlanVersionsRequest) (*cloudv1.ListPlanVersionsResponse, error) {
	res := &cloudv1.ListPlanVersionsResponse{Entitlements: plans.Kinds(), Meters: plans.Meters()}
	return res, s.Store.ReadService(ctx, func(tx *store.Tx) error {
		list, err := tx.ListPlanVersions(ctx, r.GetPlan())
		if err != nil {
			return err
		}
		if len(list) == 0 && r.GetPlan() != "" {
			return fault.Missing("plan")
		}
		tenants, err := tx.CountTenantsByPlan(ctx)
		res.Versions = nil
		for i, v := range list {
			res.Versions = append(res.Versions, &cloudv1.PlanVersion{
				Spec: specMessage(plans.SpecOf(v)), Version: int32(v.Version), Newest: i == 0 || list[i-1].Plan != v.Plan,
				CreatedAt: timestamppb.New(v.CreatedAt), Tenants: int32(tenants[store.PlanRef{Plan: v.Plan, Version: v.Version}]),
			})
		}
		return err
	})
}

func specMessage(s plans.Spec) *cloudv1.PlanSpec {
	m := &cloudv1.PlanSpec{
		Name: s.Name, Title: s.Title, Rank: s.Rank, Currency: s.Currency, BaseAmount: s.BaseAmount, OverLimit: s.OverLimit,
		SelfServe: s.SelfServe, Listed: s.Listed, Entitlements: s.Entitlements,
	}
	for _, p := range s.Prices {
		m.Prices = append(m.Prices, &cloudv1.Price{Meter: p.Meter, Included: p.Included, Per: p.Per, Amount: p.Amount})
	}
	return m
}

func specOf(m *cloudv1.PlanSpec) plans.Spec {
	s := plans.Spec{
		Name: m.GetName(), Title: m.GetTitle(), Rank: m.GetRank(), Currency: m.GetCurrency(), BaseAmount: m.GetBaseAmount(), OverLimit: m.GetOverLimit(),
		SelfServe: m.GetSelfServe(), Listed: m.GetListed(), Entitlements: m.GetEntitlements(), Prices: []plans.SpecPrice{},
	}
	for _, p := range m.GetPrices() {
		s.Prices = append(s.Prices, plans.SpecPrice{Meter: p.GetMeter(), Included: p.GetIncluded(), Per: p.GetPer(), Amount: p.GetAmount()})
	}
	return s
}

// ApplyPlan makes a new version of a plan, or tells what would be different.
func (s *Service) ApplyPlan(ctx context.Context, r *cloudv1.ApplyPlanRequest) (*cloudv1.ApplyPlanResponse, error) {
	why := ""
	if !r.GetValidateOnly() {
		var err error
		if why, err = reasonOf(r.GetReason()); err != nil {
			return nil, err
		}
	}
	res := &cloudv1.ApplyPlanResponse{}
	run := s.Store.Service
	if r.GetValidateOnly() {
		run = s.Store.ReadService
	}
	return res, run(ctx, func(tx *store.Tx) error {
		version, differ, err := ApplyPlan(ctx, s.Kit, tx, specOf(r.GetSpec()), int64(r.GetBaseVersion()), r.GetValidateOnly(), access.From(ctx).Name, why)
		res.Version, res.Differences = int32(version), nil
		for _, d := range differ {
			res.Differences = append(res.Differences, &cloudv1.PlanDifference{Field: d.Field, Before: d.Before, After: d.After})
		}
		return err
	})
}
