// Package policy owns how people sign in to a tenant and what its keys must be: the policy
// itself, what it asks of a caller (Admit, for the gate), of an invitation, of a new key and of
// a key at the tenant URL (Reader, for cells), and the break-glass codes that let an owner in
// when single sign-on is down.
//
// It must not know how a provider signs somebody in, nor how sessions end: those that the
// policy makes shorter end in package session, where they are looked for.
//
// Single sign-on that is required fails closed. It is what the user is that counts, not what
// they show: a user whom the tenant's own provider made enters with a session or a personal
// key, anybody else with neither, nor with a program's session or an invitation. Nothing is
// remembered, so whatever was opened before stops with the next call; what runs without
// asking us (keys in cells, browsers' tokens) is told by the outbox.
//
// Surprising: service accounts' keys and directories are not people, and the policy on sign-in
// leaves them alone. And a second factor is asked of those who sign in by emailed link only;
// of the others the provider asks, or doesn't.
package policy
