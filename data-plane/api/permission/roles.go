package permission

import "slices"

// Role is one of the roles that every tenant has.
type Role struct {
	// Name is how people write it; it never changes.
	Name string
	// About says who it is for.
	About       string
	Permissions Set
	// Narrowest is the narrowest place at which the role makes sense.
	Narrowest Level
}

// The names of the fixed roles.
const (
	RoleOwner     = "owner"
	RoleAdmin     = "admin"
	RoleBilling   = "billing"
	RoleDeveloper = "developer"
	RoleAuditor   = "auditor"
	RoleViewer    = "viewer"
	RoleOperator  = "operator"
	RoleProducer  = "producer"
	RoleWorker    = "worker"
)

var (
	looking = Of(NamespaceRead, UsageRead, WorkerRead, BudgetRead, ApprovalRead, JobRead, JobList, PayloadRead, QueueRead, ScheduleRead, EventRead)
	// operating leaves out what belongs to the namespace as such: its settings, its end, the
	// server under it.
	operating = OfLevel(OfNamespace).Without(Of(NamespaceUpdate, NamespaceDelete, ActivityRead, ServerRead))
	// people is who belongs to the tenant, machines included.
	people = Of(TenantRead, MemberRead, GroupRead, RoleRead, ServiceAccountRead, KeyRead)

	fixed = []Role{
		{RoleOwner, "Everything, the end of the tenant included. Only an owner makes owners.", Everything(), OfTenant},
		{RoleAdmin, "Everything but deleting the tenant; in a namespace, everything in it.", Everything().Without(Of(TenantDelete)), OfQueue},
		{RoleBilling, "Plan, usage and payment.", Of(TenantRead, BillingRead, BillingUpdate, UsageRead), OfTenant},
		{
			RoleDeveloper, "Builds on Corvo: namespaces, service accounts, keys, jobs and queues.",
			people.Or(operating).Or(Of(NamespaceCreate, NamespaceUpdate, ServiceAccountUpdate, KeyCreate, KeyUpdate, KeyRevoke)), OfTenant,
		},
		{
			RoleAuditor, "Sees who may do what and what was done, but no job.",
			people.Or(Of(NamespaceRead, SSORead, SessionRead, AuditRead, AuditExport, AccessReview, ActivityRead)), OfTenant,
		},
		{RoleViewer, "Sees jobs, queues and members, and changes nothing.", looking.Or(Of(TenantRead, MemberRead)), OfQueue},
		{RoleOperator, "Works with queues, schedules and jobs, whatever their state.", operating, OfQueue},
		{RoleProducer, "Enqueues jobs and looks them up by id.", Of(JobEnqueue, JobRead, PayloadRead), OfQueue},
		{RoleWorker, "Fetches jobs, completes them, and looks them up by id.", Of(JobFetch, JobRead, PayloadRead), OfQueue},
	}
)

// Roles lists the fixed roles. The slice is the caller's.
func Roles() []Role { return slices.Clone(fixed) }

// FixedRole finds a fixed role by its name.
func FixedRole(name string) (Role, bool) {
	i := slices.IndexFunc(fixed, func(r Role) bool { return r.Name == name })
	if i < 0 {
		return Role{}, false
	}
	return fixed[i], true
}

// At is the set that a role with the permissions s gives at a place of the level.
func (s Set) At(l Level) Set { return s.And(OfLevel(l)) }
