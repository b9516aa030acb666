package scim

import (
	"context"
	"time"
)

// Resource is a user or group.
type Resource struct {
	Kind Kind
	ID   string
	// Version rises with every change; the ETag is made of it.
	Version           int64
	Created, Modified time.Time
	// Attributes are as Kind.Read makes them, without members.
	Attributes Object
	// Members of a group, and Groups of a user, if they were asked for.
	Members, Groups []Reference
}

// Reference is a member of a group, or a group of a user.
type Reference struct{ ID, Display string }

// Query asks for a list.
type Query struct {
	Filter *Filter // nil: all.
	// Start is the first one, from 0; Count how many at most.
	Start, Count int
	// Members asks for the members of groups.
	Members bool
}

// List is part of what a query found.
type List struct {
	Total     int
	Resources []Resource
}

// Change is what a request makes of a resource. It may be called more than once.
type Change func(Resource) (Object, []MemberOp, error)

// Backend keeps users and groups. Its errors are those of this package, or failures.
type Backend interface {
	Get(ctx context.Context, k Kind, id string, members bool) (Resource, error)
	List(ctx context.Context, k Kind, q Query) (List, error)
	Create(ctx context.Context, k Kind, attributes Object, members []string) (Resource, error)
	// Update changes a resource in one transaction; what change makes alike changes nothing.
	Update(ctx context.Context, k Kind, id string, change Change) (Resource, error)
	// Delete asks before, with the resource as it is.
	Delete(ctx context.Context, k Kind, id string, before func(Resource) error) error
}
