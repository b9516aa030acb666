// Package bill owns how an invoice follows from what was counted: the segments of a billing
// period in which one plan was in force, their lines and rounding, and the exported form of
// the ledger, from which anybody can compute the invoice without a server.
//
// It must not know stores or requests. Money is a whole number of the currency's smallest
// unit. Surprising: what rounding loses always goes to the customer: an included amount is
// rounded up, everything that costs is rounded down.
package bill
