package auditlog_test

import (
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/api/auditlog"
)

func TestOCSF_ClassesAndWhatTheyRequire(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		action, target, namespace string
		class, activity           int
		requires                  string
	}{
		{"member.create", "member", "", 3001, 1, "user"},
		{"member.delete", "member", "", 3001, 6, "user"},
		{"member.update", "member", "", 3005, 1, "privileges"},
		{"invitation.create", "invitation", "", 3001, 1, "user"},
		{"session.create", "session", "", 3002, 1, "user"},
		{"session.end_all", "user", "", 3002, 2, "user"},
		{"sign_in.refuse", "tenant", "", 3002, 1, "user"},
		{"namespace.create", "namespace", "", 3004, 1, "entity"},
		{"key.rotate", "key", "", 3004, 3, "entity"},
		{"key.revoke", "key", "", 3004, 4, "entity"},
		{"sso.switch", "sso_connection", "", 3004, 3, "entity"},
		{"binding.create", "binding", "", 3005, 1, "privileges"},
		{"group.create", "group", "", 3006, 6, "group"},
		{"queue.pause", "queue", "ns_1", 6003, 3, "api"},
		{"jobs.delete", "jobs", "ns_1", 6003, 4, "resources"},
		{"access.refuse", "tenant", "", 6003, 99, "api"},
		{"access.refuse", "queue", "ns_1", 6003, 99, "resources"},
		{"sign_in.refuse", "key", "", 3002, 1, "user"},
		{"something.new", "thing", "", 6003, 99, "api"},
	} {
		o := auditlog.OCSF(auditlog.Entry{ID: "aud_1", Seq: 7, At: at(1), Action: tc.action, TargetType: tc.target, TargetID: "x", Target: "X", NamespaceID: tc.namespace, Actor: "ada@acme.test"})
		if o["class_uid"] != tc.class || o["activity_id"] != tc.activity || o["type_uid"] != tc.class*100+tc.activity || o["category_uid"] != tc.class/1000 {
			t.Errorf("%s is class %v, activity %v, type %v", tc.action, o["class_uid"], o["activity_id"], o["type_uid"])
		}
		for _, member := range []string{"time", "severity_id", "metadata", "actor", "status_id", tc.requires} {
			if o[member] == nil {
				t.Errorf("%s has no %s", tc.action, member)
			}
		}
	}
}

// Of a stranger, only the network is known, which is no address.
func TestOCSF_WhereSomebodyCalledFrom(t *testing.T) {
	t.Parallel()
	for peer, member := range map[string]string{"192.0.2.1": "ip", "2001:db8::1": "ip", "192.0.2.0/24": "name"} {
		o := auditlog.OCSF(auditlog.Entry{ID: "aud_1", Seq: 7, At: at(1), Action: "sign_in.refuse", TargetType: "tenant", Peer: peer})
		if from, _ := o["src_endpoint"].(map[string]any); len(from) != 1 || from[member] != peer {
			t.Errorf("%s is %v", peer, from)
		}
	}
}
