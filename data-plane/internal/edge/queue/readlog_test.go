package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

func TestReads_OfPayloadsByPeopleAreActsWhereTheTenantWantsIt(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.caller.Namespace = auditedNamespace
	ada, bot := r.caller, r.caller
	ada.Principal, ada.Person, ada.Peer = "user:usr_1", true, "192.0.2.7"
	bot.Principal, bot.Owner = "key_bot", "sa_1"
	bob := bot
	bob.Principal, bob.Owner, bob.Person = "key_pat", "usr_2", true
	blind := ada
	blind.Principal, blind.Rights.All = "user:usr_3", ada.Rights.All.Without(permission.Of(permission.PayloadRead))
	later := time.Now().Add(time.Hour)
	a, b := r.enqueue(EnqueueInput{ScheduledAt: later}), r.enqueue(EnqueueInput{ScheduledAt: later})
	views := &Views{service: r.Service, shard: r.shard}
	see := func(c Caller, ids ...job.ID) {
		t.Helper()
		if len(ids) == 1 {
			_, err := r.Job(r.ctx(), c, ids[0])
			must(t, err)
			return
		}
		var texts []string
		for _, id := range ids {
			texts = append(texts, id.String())
		}
		_, err := views.Jobs(r.ctx(), c, texts)
		must(t, err)
	}
	see(ada, a)
	see(ada, a) // A page reads again and again what it shows.
	see(bot, a)
	see(blind, a)
	see(bob, b)
	see(ada, a, b)
	see(ada, b)
	_, err := views.Export(r.ctx(), ada, ExportInput{Limit: 10})
	must(t, err)
	several := fmt.Sprintf(`{"first":%q,"jobs":"2","last":%q}`, a, b)
	want := []string{
		"user:usr_1 payload.read " + a.String() + " 0/0",
		"key_pat payload.read " + b.String() + " 0/0",
		"user:usr_1 payload.read  0/0 " + several,
		"user:usr_1 payload.read " + b.String() + " 0/0", // The export is the same two jobs once more.
	}
	equal(t, "the audit log", r.audited(ada), want)

	// Another tenant doesn't want it.
	other := r.caller
	other.Namespace = job.Namespace{5}
	r.caller = other
	c := r.enqueue(EnqueueInput{ScheduledAt: later})
	other.Principal, other.Person = "user:usr_1", true
	see(other, c)
	if log := r.audited(other); len(log) > 0 {
		t.Errorf("the other tenant's log has %q", log)
	}
}

// What can't be written down isn't shown.
func TestReads_OneThatCannotBeWrittenDownIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	ada := r.caller
	ada.Namespace, ada.Principal, ada.Person = auditedNamespace, "user:usr_1", true
	_, err := r.Service.one(r.ctx(), &command.EndNamespace{NS: auditedNamespace})
	must(t, err)
	if err := r.noteRead(r.ctx(), &ada, payloadRead{kind: "job", first: "job_1", count: 1}); err == nil {
		t.Error("it went on")
	}
}
