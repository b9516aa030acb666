package state

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
)

// What models were used for is counted three times in the entry that reports it: for
// the job, for the hour, and for the day of budgets. The three always agree: each
// report becomes one difference, and that is what all of them add.

// report counts what the holder of a job's lease reports; nil is nothing.
func (x *entry) report(j *subject, c *command.Usage) {
	if c == nil {
		return
	}
	u := x.jobUsage(j)
	news := u.Add(j.Epoch, c)
	x.putJobUsage(j, u)
	if news == (records.Meter{}) {
		return // Said before.
	}
	x.addHour(j.ns, j.Queue, c, news)
	x.spend(j, news.Cost)
	x.tellOverspent(j)
}

// jobUsage reads what a job reported so far.
func (x *entry) jobUsage(j *subject) *records.JobUsage {
	if !j.Has(records.FlagUsage) {
		return &records.JobUsage{}
	}
	return read(x, x.m.space.Job(j.ns, keys.JobUsage, j.id), "usage", records.DecodeJobUsage)
}

func (x *entry) putJobUsage(j *subject, u *records.JobUsage) {
	j.Flags |= records.FlagUsage
	x.txn.Set(x.m.space.Job(j.ns, keys.JobUsage, j.id), u.Encode())
}

func (x *entry) addHour(ns job.Namespace, queue string, c *command.Usage, news records.Meter) {
	k := x.m.space.Usage(ns, records.HourOf(x.now), queue, c.Provider, c.Model)
	sum, _ := find(x, k, "usage of an hour", records.DecodeMeter)
	news = sum.Plus(news)
	x.txn.Set(k, news.Encode())
}
