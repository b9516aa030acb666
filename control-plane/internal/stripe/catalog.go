package stripe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/stripe/stripe-go/v76"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Difference is what Stripe's catalog lacks, or has otherwise, and what became of it.
type Difference struct {
	// Kind is meter, product or price.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Action is create, rename or conflict. A conflict is not put right: a price of Stripe's
	// can't be changed, and a version of a plan never changes.
	Action string `json:"action"`
	Detail string `json:"detail,omitempty"`
}

// Conflict is the action of a difference that is not put right.
const Conflict = "conflict"

// Sync makes Stripe's catalog what the plans say: a meter for each meter that has a price, a
// product for each plan that costs something, a price for each part of its newest version. It
// finds things by their names, so it can be run again at any time. A dry run only tells.
func (s *Service) Sync(ctx context.Context, dryRun bool) ([]Difference, error) {
	if !s.Payments() {
		return nil, errNoPayments
	}
	plans, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.PlanVersion, error) { return tx.ListPlans(ctx) })
	if err != nil {
		return nil, err
	}
	c := catalog{gateway: s.gateway, dryRun: dryRun}
	if err := c.meters(ctx, plans); err != nil {
		return c.found, err
	}
	for _, p := range plans {
		if !paid(p) {
			continue
		}
		if err := c.product(ctx, p); err != nil {
			return c.found, err
		}
		if err := c.prices(ctx, p); err != nil {
			return c.found, err
		}
	}
	return c.found, nil
}

type catalog struct {
	gateway *gateway
	dryRun  bool
	found   []Difference
	meterID map[string]string
}

// differs notes a difference and puts it right.
func (c *catalog) differs(d Difference, right func() error) error {
	c.found = append(c.found, d)
	if c.dryRun {
		return nil
	}
	return right()
}

func (c *catalog) meters(ctx context.Context, plans []store.PlanVersion) (err error) {
	if c.meterID, err = c.gateway.meters(ctx); err != nil {
		return err
	}
	made := false
	for m := range metersCount {
		if _, there := c.meterID[m.eventName()]; there || !priced(plans, m) {
			continue
		}
		made = true
		err := c.differs(Difference{Kind: "meter", Name: m.eventName(), Action: "create"}, func() error {
			return c.gateway.createMeter(ctx, m.eventName(), units[m].title)
		})
		if err != nil {
			return err
		}
	}
	if made && !c.dryRun {
		c.meterID, err = c.gateway.meters(ctx)
	}
	return err
}

func priced(plans []store.PlanVersion, m Meter) bool {
	for _, p := range plans {
		for _, price := range p.Prices {
			if price.Meter == m.String() {
				return true
			}
		}
	}
	return false
}

func productID(plan string) string { return "corvo_" + plan }

func (c *catalog) product(ctx context.Context, p store.PlanVersion) error {
	id := productID(p.Plan)
	name, found, err := c.gateway.productName(ctx, id)
	title := "Corvo " + p.Title
	switch {
	case err != nil:
		return err
	case !found:
		return c.differs(Difference{Kind: "product", Name: id, Action: "create", Detail: title}, func() error { return c.gateway.createProduct(ctx, id, title) })
	case name != title:
		return c.differs(Difference{Kind: "product", Name: id, Action: "rename", Detail: name + " to " + title}, func() error { return c.gateway.renameProduct(ctx, id, title) })
	}
	return nil
}

// wanted is a price as the plan has it.
type wanted struct {
	key    string
	params *stripe.PriceParams
	// Of a metered one: what is included, in Stripe's units, and a unit's price beyond.
	included int64
	decimal  float64
	metered  bool
	base     int64
	event    string
}

const baseItem = "base"

func lookupKey(plan string, version int64, item string) string {
	return "corvo_" + plan + "_" + strconv.FormatInt(version, 10) + "_" + item
}

// wantedPrices are those of a version of a plan, the base first.
func wantedPrices(p store.PlanVersion) ([]wanted, error) {
	var out []wanted
	if p.BaseAmount > 0 {
		out = append(out, wanted{key: lookupKey(p.Plan, p.Version, baseItem), base: p.BaseAmount, params: &stripe.PriceParams{
			UnitAmount: stripe.Int64(p.BaseAmount), Recurring: &stripe.PriceRecurringParams{Interval: stripe.String("month"), UsageType: stripe.String("licensed")},
		}})
	}
	for _, price := range p.Prices {
		m, known := meterNamed(price.Meter)
		if !known {
			return nil, fmt.Errorf("plan %s version %d has a price of an unknown meter %q", p.Plan, p.Version, price.Meter)
		}
		decimal, err := decimalPrice(price, units[m].of)
		if err != nil {
			return nil, fmt.Errorf("plan %s version %d: %w", p.Plan, p.Version, err)
		}
		w := wanted{key: lookupKey(p.Plan, p.Version, price.Meter), metered: true, event: m.eventName(), decimal: decimal,
			included: (price.Included + units[m].of - 1) / units[m].of}
		w.params = &stripe.PriceParams{Recurring: &stripe.PriceRecurringParams{Interval: stripe.String("month"), UsageType: stripe.String("metered")}}
		if w.included == 0 {
			w.params.UnitAmountDecimal = stripe.Float64(decimal)
		} else {
			w.params.BillingScheme, w.params.TiersMode = stripe.String("tiered"), stripe.String("graduated")
			w.params.Tiers = []*stripe.PriceTierParams{
				{UpTo: stripe.Int64(w.included), UnitAmount: stripe.Int64(0)},
				{UpToInf: stripe.Bool(true), UnitAmountDecimal: stripe.Float64(decimal)},
			}
		}
		out = append(out, w)
	}
	for _, w := range out {
		w.params.Currency, w.params.Product, w.params.LookupKey = stripe.String(p.Currency), stripe.String(productID(p.Plan)), stripe.String(w.key)
	}
	return out, nil
}

const (
	decimalsMax = 12
	// lossMax is how much of a price may be lost by Stripe's decimals.
	lossMax = 1e-6
)

// decimalPrice is the price of one of Stripe's units, rounded down to what Stripe keeps.
func decimalPrice(p store.Price, unit int64) (float64, error) {
	exact := new(big.Rat).Mul(big.NewRat(p.Amount, max(p.Per, 1)), big.NewRat(unit, 1))
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(decimalsMax), nil)
	scaled := new(big.Rat).Mul(exact, new(big.Rat).SetInt(scale))
	down := new(big.Int).Quo(scaled.Num(), scaled.Denom())
	kept, _ := new(big.Rat).SetFrac(down, scale).Float64()
	want, _ := exact.Float64()
	if want > 0 && (want-kept)/want > lossMax {
		return 0, fmt.Errorf("%d per %d of %s is less than Stripe's %d decimals can say: choose a larger amount", p.Amount, p.Per, p.Meter, decimalsMax)
	}
	return kept, nil
}

func (c *catalog) prices(ctx context.Context, p store.PlanVersion) error {
	list, err := wantedPrices(p)
	if err != nil {
		return err
	}
	keys := make([]string, len(list))
	for i, w := range list {
		keys[i] = w.key
	}
	there, err := c.gateway.pricesOf(ctx, keys)
	if err != nil {
		return err
	}
	for _, w := range list {
		if has := there[w.key]; has != nil {
			if problems := w.differs(has, p.Currency, c.meterID[w.event]); len(problems) > 0 {
				c.found = append(c.found, Difference{Kind: "price", Name: w.key, Action: Conflict, Detail: strings.Join(problems, "; ")})
			}
			continue
		}
		if w.metered {
			w.params.Recurring.Meter = stripe.String(c.meterID[w.event])
		}
		if err := c.differs(Difference{Kind: "price", Name: w.key, Action: "create"}, func() error { return c.gateway.createPrice(ctx, w.params) }); err != nil {
			return err
		}
	}
	return nil
}

// differs tells what a price at Stripe has otherwise.
func (w wanted) differs(has *stripe.Price, currency, meterID string) (problems []string) {
	note := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	note(!has.Active, "it isn't active")
	note(string(has.Currency) != currency, "its currency is %s, not %s", has.Currency, currency)
	if !w.metered {
		note(has.UnitAmount != w.base, "its amount is %d, not %d", has.UnitAmount, w.base)
		return problems
	}
	note(has.Recurring == nil || has.Recurring.Meter != meterID, "it is of another meter")
	beyond, included := has.UnitAmountDecimal, int64(0)
	if n := len(has.Tiers); n > 0 {
		beyond = has.Tiers[n-1].UnitAmountDecimal
	}
	if len(has.Tiers) == 2 {
		included = has.Tiers[0].UpTo
	}
	note(included != w.included, "it includes %d, not %d", included, w.included)
	note(math.Abs(beyond-w.decimal) > 1e-13, "a unit costs %s, not %s", decimalText(beyond), decimalText(w.decimal))
	return problems
}

func decimalText(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// pricesFor are Stripe's prices of a version of a plan, for whoever pays for it now. Those of a
// version that is newer than the last sync are made: only a plan without a product waits for one,
// because that tells that nobody has set up the catalog.
func (s *Service) pricesFor(ctx context.Context, p store.PlanVersion) ([]orderedPrice, error) {
	prices, err := s.pricesThere(ctx, p)
	if !errors.Is(err, errNoPrice) {
		return prices, err
	}
	_, set, perr := s.gateway.productName(ctx, productID(p.Plan))
	if perr != nil || !set {
		return nil, cmp.Or(perr, err)
	}
	c := catalog{gateway: s.gateway}
	failed := c.meters(ctx, []store.PlanVersion{p})
	if failed == nil {
		failed = c.prices(ctx, p)
	}
	prices, err = s.pricesThere(ctx, p) // Another replica may have made them meanwhile.
	if err != nil {
		return nil, cmp.Or(failed, err)
	}
	return prices, nil
}

var errNoPrice = errors.New("run corvo-cloud control stripe sync")

// pricesThere are those that Stripe has; errNoPrice if one is not there.
func (s *Service) pricesThere(ctx context.Context, p store.PlanVersion) ([]orderedPrice, error) {
	list, err := wantedPrices(p)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(list))
	for i, w := range list {
		keys[i] = w.key
	}
	there, err := s.gateway.pricesOf(ctx, keys)
	if err != nil {
		return nil, err
	}
	var out []orderedPrice
	for _, w := range list {
		has := there[w.key]
		if has == nil {
			return nil, fmt.Errorf("no price %s at Stripe; %w", w.key, errNoPrice)
		}
		out = append(out, orderedPrice{has.ID, w.metered})
	}
	return out, nil
}
