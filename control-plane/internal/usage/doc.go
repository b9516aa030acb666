// Package usage owns what people see of the ledger: series, its export, the preview of an
// invoice, and the limits that it is compared with: jobs in a month, which the plan sets, and
// what a tenant wants to spend. The loop compares tenants whose readings changed, open hours
// too, holds back what a passed limit says, and writes the emails before that.
//
// It must not know how readings are taken, nor payments. Surprising: a limit is passed a little
// before it holds anything: readings come every 15 seconds and the loop looks every 10.
package usage
