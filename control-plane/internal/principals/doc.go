// Package principals owns who can have roles, and who has which: a tenant's own roles, role
// bindings, service accounts and groups.
//
// It must not know how anybody signs in, nor keys. Callers come checked for the permission;
// what is checked here is what the permission cannot say: nobody gives or takes away more
// than they have at that place, and the last owner stays one. Foreign is like nowhere.
//
// Surprising: to change a role, one must have what it gives in the whole tenant, since it
// may be bound anywhere.
package principals
