package state

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/group"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// What is damaged stops the node with an error that names command and record, wherever in
// a rule it is found.
func TestApply_WhatCanNotBeReadIsAnErrorOfItsCommand(t *testing.T) {
	t.Parallel()
	ns, id := job.Namespace{1}, job.ID{2}
	for name, c := range map[string]struct {
		damage func(*statedb.Txn, keys.Space)
		is     error
		says   string
	}{
		"a head that is no head": {func(txn *statedb.Txn, s keys.Space) { txn.Set(s.Job(ns, keys.Head, id), []byte{1, 0xff}) }, records.ErrRecord, "head"},
		"a body that is gone":    {func(txn *statedb.Txn, s keys.Space) { txn.Delete(s.Job(ns, keys.Body, id)) }, statedb.ErrNotFound, "body"},
	} {
		r := newReplica(t)
		r.do(t, epoch, &command.Enqueue{NS: ns, ID: id, Queue: "q", UniqueKey: "u", UniqueFor: time.Hour})
		txn := r.store.NewTxn()
		c.damage(txn, r.machine.space)
		cmds := []command.Command{&command.Pause{NS: ns, Queue: "other"}, &command.Cancel{NS: ns, ID: id}}
		out, err := r.machine.Apply(txn, group.Entry{Index: 2, Now: time.Unix(0, epoch+1), Lease: epoch + 1, Payload: command.Encode(cmds)})
		if out != nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), "command 1 (*command.Cancel): "+c.says) {
			t.Errorf("%s: %v, %v", name, out, err)
		}
		r.close(t)
	}
}
