package state

import (
	"fmt"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// What models were used for is counted three times in the entry that reports it: for
// the job, for the hour, and for the day of budgets. The three always agree: each
// report becomes one difference, and that is what all of them add.

// UsageKept is how long the usage of an hour is kept: a year, and time to bill it.
const UsageKept = 400 * 24 * time.Hour

// report counts what the holder of a job's lease reports; nil is nothing.
func (x *entry) report(j *subject, c *command.Usage) error {
	if c == nil {
		return nil
	}
	u, err := x.jobUsage(j)
	if err != nil {
		return err
	}
	news := u.Add(j.Epoch, c)
	x.putJobUsage(j, u)
	if news == (records.Meter{}) {
		return nil // Said before.
	}
	if err := x.addHour(j.ns, j.Queue, c, news); err != nil {
		return err
	}
	if err := x.spend(j, news.Cost); err != nil {
		return err
	}
	return x.tellOverspent(j)
}

// jobUsage reads what a job reported so far.
func (x *entry) jobUsage(j *subject) (*records.JobUsage, error) {
	if !j.Has(records.FlagUsage) {
		return &records.JobUsage{}, nil
	}
	v, err := x.txn.Get(x.m.space.Job(j.ns, keys.JobUsage, j.id))
	if err != nil {
		return nil, fmt.Errorf("usage of job %s: %w", j.id, err)
	}
	return records.DecodeJobUsage(v)
}

func (x *entry) putJobUsage(j *subject, u *records.JobUsage) {
	j.Flags |= records.FlagUsage
	x.txn.Set(x.m.space.Job(j.ns, keys.JobUsage, j.id), u.Encode())
}

func (x *entry) addHour(ns job.Namespace, queue string, c *command.Usage, news records.Meter) error {
	k := x.m.space.Usage(ns, records.HourOf(x.now), queue, c.Provider, c.Model)
	sum, _, err := stateread.Get(x.txn, k, records.DecodeMeter)
	if err != nil {
		return fmt.Errorf("usage of queue %q: %w", queue, err)
	}
	news = sum.Plus(news)
	x.txn.Set(k, news.Encode())
	return nil
}
