package main

const (
	stripeAdjust  = "internal/stripe/adjust.go"
	stripeSettle  = "internal/stripe/settle.go"
	stripePush    = "internal/stripe/push.go"
	stripeLedger  = "internal/stripe/ledger.go"
	stripeHook    = "internal/stripe/webhook.go"
	stripeDunning = "internal/stripe/dunning.go"
	stripeCompare = "internal/stripe/compare.go"
	stripeMaker   = "internal/stripe/customer.go"
	stripeService = "internal/stripe/service.go"
	stripeStore   = "internal/store/stripe.go"
)

// paymentMutations break what tenants are charged, and what follows from a bill.
var paymentMutations = []mutation{
	// What is sent.
	{"a correction is sent whole", stripeLedger, "Value: total - sum, DueAt: now,", "Value: total, DueAt: now,"},
	{"two revisions have one identifier", stripeLedger, "revision = sum+p.Value, max(revision, p.Revision+1)", "revision = sum+p.Value, max(revision, p.Revision)"},
	{"after a day an event is sent blindly", stripePush, "now.Sub(p.FirstSentAt) >= repeatable {", "now.Sub(p.FirstSentAt) >= 1000*repeatable {"},
	{"what arrived is sent again", stripePush, "case before + p.Value:\n\t\treturn yes, nil", "case before + p.Value:\n\t\treturn no, nil"},
	{"what can't be told apart is sent", stripePush, "\treturn differs, nil\n", "\treturn no, nil\n"},
	{"an old event is no item", stripePush, "case now.Sub(p.Hour) >= eventAgeMax:", "case now.Sub(p.Hour) >= 100*eventAgeMax:"},
	{"an item is made twice", stripePush, "\t\tif is {\n\t\t\treturn yes, err", "\t\tif is && p.Value == 0 {\n\t\t\treturn yes, err"},
	{"an invoice that is final doesn't matter", stripePush, "(i.status != \"draft\" || now.Sub(i.created) >= draftTakes)", "i.status == \"void\""},
	{"an event that is there is a refusal", stripePush, "if duplicate(err) {", "if duplicate(err) && p.Attempts == 0 {"},
	{"hours before the subscription are sent", stripeLedger, "&& !hour.Before(c.PushFrom) &&", "&&"},
	{"hours after the subscription are sent", stripeLedger, "(c.PushTo.IsZero() || hour.Before(c.PushTo))", "(c.PushTo.IsZero() || !c.PushTo.IsZero())"},
	{"each late item uses up what is included", stripePush, "if q.Identifier != p.Identifier && !q.FirstSentAt.IsZero() {", "if q.Identifier != p.Identifier {"},
	{"items that wait for an invoice aren't charged", stripeAdjust, "charged := pending + o.charged(invoices)", "charged := 0*pending + o.charged(invoices)"},
	{"a base that is paid ahead is for the past", stripeAdjust, "(l.item || o.ended || !l.to.After(o.until))", "(l.item || o.ended || !l.from.After(o.until))"},
	{"a period that ends in the middle of an hour isn't charged", stripeAdjust, "(l.item || o.ended || !l.to.After(o.until))", "(l.item || o.ended || !l.to.After(o.to))"},
	{"an ended subscription is settled beside its last draft", stripeSettle, "if err != nil || slices.ContainsFunc(invoices, o.isOnDraft) {", "if err != nil {"},
	{"what is left of a subscription is on no invoice", stripeSettle, "\tif pending != 0 {", "\tif pending != 0 && o.amount < 0 {"},
	{"who subscribes anew has an invoice of the rest", stripeSettle, "\t\tif lives(sub.status) {", "\t\tif lives(sub.status) && sub.id == o.subscriptionID {"},
	{"hours before the subscription are owed", stripeAdjust, "m = m.within(o.from, o.to)", "m = m.within(p.Start, o.to)"},
	{"a later revision doesn't wait", stripeStore, "AND b.revision < billing_pushes.revision AND b.state <> 'done')", "AND b.revision < billing_pushes.revision AND b.state = 'none')"},

	// The webhook.
	{"any signature will do", stripeHook, "ok = hmac.Equal(want, got) || ok", "ok = hmac.Equal(want, got) || len(want) == len(got) || ok"},
	{"the secret of before is refused", stripeHook, "for _, secret := range secrets {", "for _, secret := range secrets[:1] {"},
	{"an old signature is good", stripeHook, "if age := now.Sub(at); age > tolerance ||", "if age := now.Sub(at); age > 100*tolerance ||"},
	{"a signature of the future is good", stripeHook, "|| age < -tolerance {", "|| age < -100*tolerance {"},
	{"live events count in the test mode", stripeHook, "if e.Livemode != (mode == Live) {", "if e.Livemode && mode == Live {"},
	{"a body of any size is read", stripeHook, "http.MaxBytesReader(w, r.Body, bodyBytesMax)", "http.MaxBytesReader(w, r.Body, 1000*bodyBytesMax)"},
	{"an event is asked about twice", stripeHook, "if is, err := tx.HasStripeEvent(ctx, e.ID); err != nil || is {", "if is, err := tx.HasStripeEvent(ctx, e.ID); err != nil || is && false {"},
	{"what was read earlier is written later", stripeHook, "if err = s.syncOnce(ctx, tenantID, record); !errors.Is(err, store.ErrStale) {\n\t\t\treturn err", "if err = s.syncOnce(ctx, tenantID, record); !errors.Is(err, store.ErrStale) || err != nil {\n\t\t\treturn nil"},
	{"a failed event is answered with 200", stripeHook, "http.Error(w, \"try again\", http.StatusServiceUnavailable)", "w.WriteHeader(http.StatusOK)"},
	{"an event of before changes the plan back", stripeHook, "case began && lives(c.Status) &&", "case lives(c.Status) &&"},
	{"an ended subscription keeps the plan", stripeHook, "case !began && lives(before.Status) && !lives(c.Status):", "case began && lives(before.Status) && !lives(c.Status):"},
	{"a plan that Stripe never heard of outlives the subscription", stripeHook, "plan != c.Plan && !(has.SelfServe && paid(has))", "plan != c.Plan && has.Plan != \"\""},
	{"a card alone pays", stripeService, "return c.PaymentMethod && lives(c.Status), err", "return c.PaymentMethod, err"},

	// Unpaid bills.
	{"a payment ends nothing", stripeDunning, "case !c.Owes && now.State != string(Active):", "case c.Owes && now.State != string(Active) && !c.Owes:"},
	{"a step comes too early", stripeDunning, "!s.Now().Before(now.StateSince.Add(life)), nil", "!s.Now().Before(now.StateSince.Add(life-time.Hour)), nil"},
	{"a step is taken without asking", stripeDunning, "if err := s.sync(ctx, c.TenantID, nil); err != nil {\n\t\t\treturn err\n\t\t}\n", ""},
	{"two processes take two steps", stripeDunning, "due, err := s.stepDue(ctx, tx, c.TenantID)\n\t\t\tif err != nil || !due {\n\t\t\t\treturn err", "due, err := s.stepDue(ctx, tx, c.TenantID)\n\t\t\tif err != nil {\n\t\t\t\t_ = due\n\t\t\t\treturn err"},
	{"suspension is skipped", stripeDunning, "case PastDue:\n\t\treturn Restricted", "case PastDue:\n\t\treturn Suspended"},
	{"an invoice given up is forgiven", stripeHook, "if i.status == \"uncollectible\" ||", "if i.status == \"\" ||"},

	// The rest.
	{"a difference is not kept", stripeCompare, "return tx.PutBillingDifference(ctx, d)", "return nil"},
	{"Stripe may have more", stripeCompare, "&& summed <= v.events\n", "\n"},
	{"a customer is made anew at once", stripeMaker, "if age := s.Now().Sub(c.AskedAt); age > searchable {", "if age := s.Now().Sub(c.AskedAt); age >= 0 {"},
	{"a database is of both modes", stripeService, "if used != mine {", "if used == \"\" {"},
}
