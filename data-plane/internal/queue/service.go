// Package queue holds the use cases of one shard's jobs: validate everything at
// once, stamp what replicas may not decide (id, time, defaults), propose, and
// shape the answer. It knows no protocol and no storage layout.
//
// Every method returns *fault.Error for what the caller may be told. NotLeader
// means the shard moved: route again.
package queue
