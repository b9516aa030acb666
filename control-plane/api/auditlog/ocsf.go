package auditlog

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"strings"
)

// OCSFVersion is the version of the Open Cybersecurity Schema Framework that events follow.
const OCSFVersion = "1.3.0"

// Classes of OCSF that entries become.
const (
	classAccount   = 3001
	classSignIn    = 3002
	classEntity    = 3004
	classUserRight = 3005
	classGroup     = 3006
	classAPI       = 6003

	activityOther = 99
)

var classNames = map[int]string{
	classAccount: "Account Change", classSignIn: "Authentication", classEntity: "Entity Management",
	classUserRight: "User Access Management", classGroup: "Group Management", classAPI: "API Activity",
}

// activities are the words of each class for a verb of ours; any other verb is Other.
var activities = map[int]map[string]int{
	classAccount: {"create": 1, "enable": 2, "disable": 5, "delete": 6, "remove": 6},
	classSignIn:  {"create": 1, "refuse": 1, "end": 2, "end_all": 2, "delete": 2},
	classEntity: {
		"create": 1, "read": 2, "update": 3, "rotate": 3, "switch": 3, "restore": 3, "set": 3, "delete": 4, "revoke": 4, "discard": 4, "enable": 8, "verify": 8, "disable": 9, "unverify": 9,
	},
	classUserRight: {"create": 1, "update": 1, "delete": 2},
	classGroup:     {"create": 6, "delete": 5, "add_member": 3, "remove_member": 4, "update": activityOther},
	classAPI: {
		"create": 1, "enqueue": 1, "read": 2, "list": 2, "update": 3, "set": 3, "pause": 3, "resume": 3, "drain": 3, "approve": 3, "reject": 3, "hold": 3, "retry": 3,
		"move": 3, "cancel": 3, "requeue": 3, "run": 3, "delete": 4, "clear": 4, "cut": 4,
	},
}

// classes is by what was done to which type; what is done to queues and jobs, and any other
// call, is API activity.
var classes = map[string]int{
	"member": classAccount, "user": classAccount, "service_account": classAccount, "invitation": classAccount, "directory_user": classAccount, "directory_token": classEntity,
	"session": classSignIn, "sign_in": classSignIn,
	"binding": classUserRight, "group": classGroup,
	"tenant": classEntity, "namespace": classEntity, "key": classEntity, "role": classEntity, "sso": classEntity, "sso_connection": classEntity,
	"domain": classEntity, "audit_sink": classEntity, "audit_settings": classEntity,
}

// Refused is the suffix of actions that were refused.
const Refused = "refuse"

// classOf is the class of an entry, and the activity in it.
func classOf(e Entry) (class, activity int) {
	subject, verb, _ := strings.Cut(e.Action, ".")
	class = classAPI
	if e.NamespaceID == "" && e.Action != "access.refuse" {
		class = cmp.Or(classes[subject], classes[e.TargetType], classAPI)
	}
	if subject == "member" && verb == "update" { // Of the role.
		class = classUserRight
	}
	return class, cmp.Or(activities[class][verb], activityOther)
}

// OCSF is an entry as an event of OCSF.
func OCSF(e Entry) map[string]any {
	class, activity := classOf(e)
	event := map[string]any{
		"class_uid": class, "class_name": classNames[class], "category_uid": class / 1000, "category_name": categoryName(class),
		"activity_id": activity, "activity_name": e.Action, "type_uid": class*100 + activity,
		"time": e.At.UnixMilli(), "severity_id": 1, "severity": "Informational", "status_id": 1, "status": "Success",
		"message": message(e),
		"metadata": map[string]any{
			"version": OCSFVersion, "uid": e.ID, "sequence": e.Seq, "correlation_uid": e.RequestID, "event_code": e.Action, "tenant_uid": e.TenantID,
			"product": map[string]any{"name": "Corvo Cloud", "vendor_name": "Corvo"},
		},
		"actor":    actor(e),
		"unmapped": map[string]any{"hash": e.Hash, "prev_hash": e.PrevHash, "changes": e.Changes, "namespace_id": e.NamespaceID, "namespace": e.Namespace},
	}
	if _, err := netip.ParseAddr(e.Peer); err == nil {
		event["src_endpoint"] = map[string]any{"ip": e.Peer}
	} else if e.Peer != "" {
		event["src_endpoint"] = map[string]any{"name": e.Peer} // A network.
	} else if class == classAPI {
		event["src_endpoint"] = map[string]any{"name": "unknown"} // Required.
	}
	if e.UserAgent != "" {
		event["http_request"] = map[string]any{"user_agent": e.UserAgent}
	}
	if strings.HasSuffix(e.Action, "."+Refused) {
		event["status_id"], event["status"], event["severity_id"], event["severity"] = 2, "Failure", 2, "Low"
	}
	about(event, class, e)
	return event
}

func categoryName(class int) string {
	if class/1000 == 3 {
		return "Identity & Access Management"
	}
	return "Application Activity"
}

func message(e Entry) string {
	text := cmp.Or(e.Actor, e.ActorID, e.ActorType) + " " + e.Action
	if name := cmp.Or(e.Target, e.TargetID); name != "" {
		text += " " + name
	}
	return text
}

// user types of OCSF.
const (
	userTypeUser   = 1
	userTypeSystem = 3
)

func actor(e Entry) map[string]any {
	user := map[string]any{"uid": e.ActorID, "name": cmp.Or(e.Actor, e.ActorID), "type_id": userTypeUser, "type": e.ActorType}
	switch e.ActorType {
	case "key":
		user["type_id"], user["credential_uid"] = userTypeSystem, e.ActorID
	case "system", "public":
		user["type_id"], user["name"] = userTypeSystem, cmp.Or(e.Actor, e.ActorID, e.ActorType)
	}
	if strings.Contains(e.Actor, "@") {
		user["email_addr"] = e.Actor
	}
	return map[string]any{"user": user}
}

// about adds what the class requires.
func about(event map[string]any, class int, e Entry) {
	target := map[string]any{"uid": e.TargetID, "name": cmp.Or(e.Target, e.TargetID), "type": e.TargetType}
	switch class {
	case classAccount:
		event["user"] = subject(e)
	case classSignIn:
		event["user"] = actor(e)["user"]
	case classUserRight:
		event["user"], event["privileges"] = subject(e), privileges(e)
	case classGroup:
		event["group"] = target
	case classEntity:
		event["entity"] = target
	default:
		event["api"] = map[string]any{"operation": e.Action, "request": map[string]any{"uid": cmp.Or(e.RequestID, e.ID)}}
		event["resources"] = []any{target}
	}
}

// subject is the user that an entry is about.
func subject(e Entry) map[string]any {
	user := map[string]any{"uid": e.TargetID, "name": cmp.Or(e.Target, e.TargetID), "type_id": userTypeUser}
	if strings.Contains(e.Target, "@") {
		user["email_addr"] = e.Target
	}
	return user
}

// privileges are the role that was given.
func privileges(e Entry) []string {
	out := []string{}
	for _, field := range []string{"role", "role_id", "roles"} {
		c, ok := e.Changes[field]
		if !ok {
			continue
		}
		switch v := c.After.(type) {
		case string:
			out = append(out, v)
		case []string:
			out = append(out, v...)
		case []any:
			for _, one := range v {
				if text, err := json.Marshal(one); err == nil {
					out = append(out, strings.Trim(string(text), `"`))
				}
			}
		}
	}
	return out
}
