package state

// What a queue may hand out. The leader's memory asks the same questions with the
// same functions, between two entries; here they decide.

// mayStart reports whether one more lease of the queue may begin. Once an entry was
// refused one, it gets no other job of the queue: a slot that a later command of the
// entry frees must not be taken by a younger job (INV-8).
func (x *entry) mayStart(q *queueRecord) bool {
	shut := x.shutUntil(q.key.ns, q.key.name)
	if q.refused || shut != 0 || !q.config.HasRoom(&q.counts, x.lease) {
		x.refuse(q)
		return false
	}
	return true
}

// refuse lets no more leases of the queue begin in this entry.
func (x *entry) refuse(q *queueRecord) {
	q.refused = true
	x.tell(q)
}

// started counts a lease that begins.
func (x *entry) started(q *queueRecord) {
	if !q.config.Throttle.IsZero() {
		x.touched(q).Starts = q.counts.Starts.Add(x.lease, q.config.Throttle)
	}
}
