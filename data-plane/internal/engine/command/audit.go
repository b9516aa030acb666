package command

import (
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
)

// AuditDetailBytesMax bounds the detail of one act.
const AuditDetailBytesMax = 2 << 10

// Audit says that the next Covers commands of the entry are an administrative act, and
// whose. The act is recorded by the entry that does it, so that neither is there without
// the other; an act of which every command was refused is not recorded.
type Audit struct {
	NS     job.Namespace
	By     string // Key id, or user: and a user id.
	Owner  string // Whom the key belongs to.
	Peer   string // The client's address.
	Act    string // For example queue.pause.
	Type   string // What Target is: queue, job, schedule, …
	Target string
	Detail []byte // JSON object of strings; empty is none.
	Covers uint32
	// Op joins the parts of an act that is too large for one entry into one record,
	// which is written with the part that is Done.
	Op   job.ID
	Done bool
}

func (c *Audit) Fields(f *codec.Fields) {
	codec.ID(f, &c.NS)
	for _, t := range []*string{&c.By, &c.Owner, &c.Peer, &c.Act, &c.Type, &c.Target} {
		f.Text(t)
	}
	f.Bytes(&c.Detail)
	f.Uint32(&c.Covers)
	codec.ID(f, &c.Op)
	f.Bool(&c.Done)
}

// AuditCollected says that the records up to Through are kept elsewhere.
type AuditCollected struct{ Through uint64 }

func (c *AuditCollected) Fields(f *codec.Fields) { f.Uint(&c.Through) }
