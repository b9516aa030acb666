// Package plans owns what a tenant may have: its plan's version with the overrides that
// count at a time, what is held back of its jobs, and every change of these: by the tenant,
// by the operator, and by the loop that carries out what is due.
//
// What a plan gives is in rows, one for each entitlement; a name without a row has no limit.
// Other rooms ask here, in the transaction of what they make: Another for one more of what is
// counted, Feature for what a plan has or lacks, Of for the rest.
//
// It must not know what is made. Payments and what the ledger counts are handed in.
// Surprising: a tenant stays at the version of the plan that it chose. A new version reaches
// only those who choose it, or whom the operator moves.
package plans
