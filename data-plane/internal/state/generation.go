package state

// generation says which jobs and locks that carry the name of a queue are there:
// those made in the queue's own generation, and of those before, back to kept, what
// workers held when the queue was cleared and still hold. A job of theirs takes the
// new generation with its next transition.
type generation struct {
	own  uint64
	kept uint64 // As in QueueConfig.
}

// has reports whether a job of a generation is there.
func (g generation) has(of uint64, leased bool) bool {
	return of == g.own || leased && g.keeps(of)
}

// keeps reports whether a generation passed by clearing, without its queue.
func (g generation) keeps(of uint64) bool {
	return of == g.own || g.kept != 0 && of >= g.kept-1 && of < g.own
}

func (q *QueueConfig) generation() generation { return generation{q.gen, q.kept} }

func (q *queueRecord) generation() generation {
	if q.hasConfig {
		return q.config.generation()
	}
	return generation{own: q.gen}
}
