// Package stripe owns what Stripe does for tenants: customers, checkout and portal pages, the
// catalog of products and prices, what is sent of the ledger, the webhook, what follows from a
// bill that is not paid, and the daily comparison of ledger, pushes and Stripe's summaries.
//
// Each meter event is a row before it is a call. It is repeated freely for 23 hours, in which
// Stripe drops what it has already; after that Stripe is asked what it has, and never called
// blindly. Invoices are made what the ledger says: a draft by one more line (adjust.go), and a
// subscription that has ended by one more invoice (settle.go). docs/payments.md tells operators
// what follows.
//
// It must not know how usage is counted or what a plan gives; both are handed in. Surprising:
// an event of a webhook only says that something has changed. What is applied is read from
// Stripe, so the order of events does not matter.
package stripe
