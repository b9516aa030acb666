// Package directory owns directory sync: a connection's directory keeps users and groups of
// the tenant by SCIM, with a token of its own. What the protocol says is read and written by
// package scim; here stands what it does.
//
// A user of a directory is a person of the tenant alone. While they are active they are a
// member with the connection's default role and the roles of their groups; one who isn't
// loses membership, sessions, tokens and keys in one transaction, and their record stays.
// Members come in and go out by the same rules as elsewhere: the last owner stays, and
// whoever people removed is not brought back before they are invited.
//
// It must not know how people sign in; package sso asks the store who is active. Surprising:
// a group's members at the directory and in the tenant are two tables. Only active users are
// in the latter, and who comes back finds their groups in the former.
package directory
