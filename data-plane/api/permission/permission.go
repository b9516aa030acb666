// Package permission owns the one list of what somebody may do, in both planes, and how
// a right is decided: a permission in a set, at a place.
//
// A [Permission] has a number below 128, a name (job.enqueue) and a level: the tenant, a
// namespace or a queue, the narrowest place at which it can be given. A [Set] is 128 bits.
// A [Grant] is a set and where it holds; the [Grants] of a principal are the outcome of all
// of its roles and bindings, and [Here] what is left of them in one namespace: there a
// decision is two ANDs and at most a few prefixes, without allocation.
//
// It must not know roles, principals or where any of them is stored. Surprising: a pattern
// of queues is a name that may end in one *, so that whether one pattern covers another,
// and what both match, is decided exactly. Whoever may grant depends on it.
package permission

import (
	"fmt"
	"slices"
)

// Permission is one thing that somebody may do. The numbers are stored and on the wire:
// they are never changed or used again.
type Permission uint8

// The numbers below 10 are not permissions: the control API marks with them the calls that
// ask for none.
const (
	TenantRead           Permission = 10
	TenantUpdate         Permission = 11
	TenantDelete         Permission = 12
	MemberRead           Permission = 13
	MemberInvite         Permission = 14
	MemberUpdate         Permission = 15
	MemberRemove         Permission = 16
	GroupRead            Permission = 17
	GroupUpdate          Permission = 18
	RoleRead             Permission = 19
	RoleUpdate           Permission = 20
	RoleAssign           Permission = 21
	ServiceAccountRead   Permission = 22
	ServiceAccountUpdate Permission = 23
	KeyRead              Permission = 24
	KeyCreate            Permission = 25
	KeyUpdate            Permission = 26
	KeyRevoke            Permission = 27
	SSORead              Permission = 28
	SSOUpdate            Permission = 29
	DomainUpdate         Permission = 30
	DirectoryUpdate      Permission = 31
	PolicyUpdate         Permission = 32
	SessionRead          Permission = 33
	SessionRevoke        Permission = 34
	AuditRead            Permission = 35
	AuditExport          Permission = 36
	AuditUpdate          Permission = 37
	AccessReview         Permission = 38
	BillingRead          Permission = 39
	BillingUpdate        Permission = 40
	NamespaceCreate      Permission = 41

	NamespaceRead   Permission = 60
	NamespaceUpdate Permission = 61
	NamespaceDelete Permission = 62
	UsageRead       Permission = 63
	WorkerRead      Permission = 64
	BudgetRead      Permission = 65
	BudgetUpdate    Permission = 66
	ApprovalRead    Permission = 67
	ApprovalUpdate  Permission = 68
	ActivityRead    Permission = 69
	ServerRead      Permission = 70

	JobEnqueue     Permission = 90
	JobFetch       Permission = 91
	JobRead        Permission = 92
	JobList        Permission = 93
	PayloadRead    Permission = 94
	JobRetry       Permission = 95
	JobCancel      Permission = 96
	JobDelete      Permission = 97
	JobMove        Permission = 98
	JobApprove     Permission = 99
	QueueRead      Permission = 100
	QueuePause     Permission = 101
	QueueUpdate    Permission = 102
	QueueClear     Permission = 103
	QueueDelete    Permission = 104
	ScheduleRead   Permission = 105
	ScheduleUpdate Permission = 106
	EventRead      Permission = 107
)

// Level is the narrowest place at which a permission can be given.
type Level uint8

// The levels, from the widest.
const (
	OfTenant Level = iota + 1
	OfNamespace
	OfQueue
)

// String is the level's name.
func (l Level) String() string {
	switch l {
	case OfTenant:
		return "tenant"
	case OfNamespace:
		return "namespace"
	case OfQueue:
		return "queue"
	}
	return "unknown"
}

// Info is what there is to say of a permission.
type Info struct {
	Permission Permission
	// Name is subject.verb.
	Name  string
	Level Level
	// About says what it allows, as the end of "Allows to …".
	About string
}

// infos is the list, by number.
var infos = []Info{
	{TenantRead, "tenant.read", OfTenant, "see the tenant and its settings"},
	{TenantUpdate, "tenant.update", OfTenant, "change the tenant's settings"},
	{TenantDelete, "tenant.delete", OfTenant, "delete the tenant"},
	{MemberRead, "member.read", OfTenant, "list members and invitations"},
	{MemberInvite, "member.invite", OfTenant, "invite people and withdraw invitations"},
	{MemberUpdate, "member.update", OfTenant, "change members"},
	{MemberRemove, "member.remove", OfTenant, "remove members"},
	{GroupRead, "group.read", OfTenant, "list groups and who is in them"},
	{GroupUpdate, "group.update", OfTenant, "create, change and delete groups, and who is in them"},
	{RoleRead, "role.read", OfTenant, "list roles and who has them"},
	{RoleUpdate, "role.update", OfTenant, "create, change and delete roles"},
	{RoleAssign, "role.assign", OfTenant, "give roles to principals, and take them away"},
	{ServiceAccountRead, "service_account.read", OfTenant, "list service accounts"},
	{ServiceAccountUpdate, "service_account.update", OfTenant, "create, change and delete service accounts"},
	{KeyRead, "key.read", OfTenant, "list API keys, without their secrets"},
	{KeyCreate, "key.create", OfTenant, "create API keys"},
	{KeyUpdate, "key.update", OfTenant, "change and rotate API keys"},
	{KeyRevoke, "key.revoke", OfTenant, "revoke API keys"},
	{SSORead, "sso.read", OfTenant, "see single sign-on, domains and directory sync"},
	{SSOUpdate, "sso.update", OfTenant, "change single sign-on"},
	{DomainUpdate, "domain.update", OfTenant, "add, verify and release domains"},
	{DirectoryUpdate, "directory.update", OfTenant, "change directory sync and its tokens"},
	{PolicyUpdate, "policy.update", OfTenant, "change the sign-in policy and the rules for API keys"},
	{SessionRead, "session.read", OfTenant, "list the sessions of members"},
	{SessionRevoke, "session.revoke", OfTenant, "end sessions of members"},
	{AuditRead, "audit.read", OfTenant, "search the audit log"},
	{AuditExport, "audit.export", OfTenant, "export the audit log"},
	{AuditUpdate, "audit.update", OfTenant, "change where the audit log is sent"},
	{AccessReview, "access.review", OfTenant, "see who may do what, and why"},
	{BillingRead, "billing.read", OfTenant, "see plan, usage and invoices"},
	{BillingUpdate, "billing.update", OfTenant, "change plan and payment"},
	{NamespaceCreate, "namespace.create", OfTenant, "create namespaces"},

	{NamespaceRead, "namespace.read", OfNamespace, "see the namespace and its settings"},
	{NamespaceUpdate, "namespace.update", OfNamespace, "change the namespace's settings"},
	{NamespaceDelete, "namespace.delete", OfNamespace, "delete the namespace with everything in it"},
	{UsageRead, "usage.read", OfNamespace, "see usage and throughput"},
	{WorkerRead, "worker.read", OfNamespace, "list workers"},
	{BudgetRead, "budget.read", OfNamespace, "list budgets"},
	{BudgetUpdate, "budget.update", OfNamespace, "create, change and delete budgets"},
	{ApprovalRead, "approval.read", OfNamespace, "list approval policies"},
	{ApprovalUpdate, "approval.update", OfNamespace, "create, change and delete approval policies"},
	{ActivityRead, "activity.read", OfNamespace, "list what was done by hand in the namespace"},
	{ServerRead, "server.read", OfNamespace, "see the state of the server"},

	{JobEnqueue, "job.enqueue", OfQueue, "enqueue jobs, batches and chains"},
	{JobFetch, "job.fetch", OfQueue, "fetch jobs with their payloads, and complete or fail them"},
	{JobRead, "job.read", OfQueue, "get a job by its id"},
	{JobList, "job.list", OfQueue, "list, search and export jobs, batches and chains"},
	{PayloadRead, "payload.read", OfQueue, "see payloads, results, checkpoints and errors of jobs"},
	{JobRetry, "job.retry", OfQueue, "retry and replay jobs"},
	{JobCancel, "job.cancel", OfQueue, "cancel jobs"},
	{JobDelete, "job.delete", OfQueue, "delete jobs"},
	{JobMove, "job.move", OfQueue, "move jobs to another queue"},
	{JobApprove, "job.approve", OfQueue, "hold, approve and reject jobs"},
	{QueueRead, "queue.read", OfQueue, "see queues with their settings and counts"},
	{QueuePause, "queue.pause", OfQueue, "pause, resume and drain queues"},
	{QueueUpdate, "queue.update", OfQueue, "create queues and change their settings"},
	{QueueClear, "queue.clear", OfQueue, "clear queues"},
	{QueueDelete, "queue.delete", OfQueue, "delete queues with their jobs"},
	{ScheduleRead, "schedule.read", OfQueue, "list schedules"},
	{ScheduleUpdate, "schedule.update", OfQueue, "create, change, run and delete schedules"},
	{EventRead, "event.read", OfQueue, "watch events of jobs"},
}

// All lists every permission by its number. The slice is the caller's.
func All() []Info { return slices.Clone(infos) }

// find is the row of a permission; nil for a number that is none.
func find(p Permission) *Info {
	i, ok := slices.BinarySearchFunc(infos, p, func(i Info, p Permission) int { return int(i.Permission) - int(p) })
	if !ok {
		return nil
	}
	return &infos[i]
}

// Known reports whether p is a permission.
func (p Permission) Known() bool { return find(p) != nil }

// String is the permission's name.
func (p Permission) String() string {
	if i := find(p); i != nil {
		return i.Name
	}
	return fmt.Sprintf("permission(%d)", uint8(p))
}

// Level is the narrowest place at which p can be given; 0 for what is no permission.
func (p Permission) Level() Level {
	if i := find(p); i != nil {
		return i.Level
	}
	return 0
}

// Named finds a permission by its name.
func Named(name string) (Permission, bool) {
	for i := range infos {
		if infos[i].Name == name {
			return infos[i].Permission, true
		}
	}
	return 0, false
}
