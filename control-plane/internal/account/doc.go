// Package account owns what people do with their own account, in whatever tenant: seeing
// where they are signed in, ending that, and leaving a tenant.
//
// It must not know how they signed in. Surprising: a session that is good in one tenant
// only sees and ends the sessions of that tenant alone; whoever opened it (the tenant's
// provider, or its invitation) is trusted no further.
package account
