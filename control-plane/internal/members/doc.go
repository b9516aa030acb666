// Package members owns who belongs to a tenant: roles, removal, and invitations by mail.
// An invitation's link says that somebody read a mail. It does not sign anybody in who has
// an account: the inviter may have had it, and the mail may have been forwarded.
//
// It must not know how members sign in. Callers come checked for the permission; what
// is checked here is what the permission cannot say: nobody gives or takes away more than
// they hold, and the last owner stays one.
//
// Whoever is removed loses their personal keys in the same step; keys of service accounts
// that they made go on, are listed, and are revoked if that is asked for. Nobody who was
// removed comes back through the tenant's provider before they are invited.
//
// Surprising: a member whose role comes from the groups of an identity provider cannot
// be changed here, since the next sign-in would undo it. The refusal says so.
package members
