// Package scim is the protocol of directory sync, SCIM 2.0 (RFC 7643 and 7644): resources
// and their schemas, filters, PATCH, paging, errors, and a handler that reads and writes all
// of it. What users and groups are is asked of a Backend.
//
// It must not know stores, tenants or tokens. Surprising: it is kinder than the RFC where
// Entra ID and Okta need it. Attribute names and operations are read in any case, booleans
// also as text, a member named like a path ("name.givenName") is one, and members can be
// removed by a list of values.
package scim
