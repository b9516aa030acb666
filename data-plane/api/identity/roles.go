package identity

// Action is what a call does to a namespace. Every route and RPC has exactly one.
type Action uint8

const (
	// Enqueue adds jobs.
	Enqueue Action = iota + 1
	// Work is fetch, ack, fail, heartbeat and the worker stream.
	Work
	// ReadJob looks at single jobs by id: what producers and workers need.
	ReadJob
	// Read lists, searches and watches everything in the namespace.
	Read
	// Operate is pause, resume, retry, cancel, move, delete and queue settings.
	Operate
	// Administer is keys, backup, restore and the namespace itself.
	Administer
)

// Roles of a namespace.
const (
	RoleAdmin    = "admin"
	RoleOperator = "operator"
	RoleProducer = "producer"
	RoleWorker   = "worker"
	RoleViewer   = "viewer"

	// roleReadonly is the worker API's older word for viewer.
	roleReadonly = "readonly"
)

// Allows reports whether any of the roles may do a. What is not listed is denied.
func Allows(roles []string, a Action) bool {
	for _, r := range roles {
		if roleAllows(r, a) {
			return true
		}
	}
	return false
}

func roleAllows(role string, a Action) bool {
	switch role {
	case RoleAdmin:
		return a >= Enqueue && a <= Administer
	case RoleOperator:
		return a >= Enqueue && a <= Operate
	case RoleProducer:
		return a == Enqueue || a == ReadJob
	case RoleWorker:
		return a == Work || a == ReadJob
	case RoleViewer, roleReadonly:
		return a == Read || a == ReadJob
	}
	return false
}

// LeastRole is the role that allows a and as little else as possible.
func LeastRole(a Action) string {
	for _, role := range []string{RoleViewer, RoleProducer, RoleWorker, RoleOperator} {
		if roleAllows(role, a) {
			return role
		}
	}
	return RoleAdmin
}

func (a Action) String() string {
	switch a {
	case Enqueue:
		return "enqueue"
	case Work:
		return "work"
	case ReadJob:
		return "read job"
	case Read:
		return "read"
	case Operate:
		return "operate"
	case Administer:
		return "administer"
	}
	return "unknown action"
}
