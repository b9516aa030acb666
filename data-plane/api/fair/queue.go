package fair

// Queue holds what waits, in a line for each key. Lines take turns by deficit round robin:
// a turn is worth the quantum times the line's weight, and what a thing costs comes off
// it. Within a line the order is first come, first served. A line that begins goes before
// those that have had a turn already, so what comes now and then does not wait for the
// turns of all who always have something waiting (as in fq_codel).
//
// A Queue is for one goroutine at a time.
type Queue[K comparable, V any] struct {
	quantum int64
	weight  func(K) int64
	lines   map[K]*line[K, V]
	fresh   list[K, V] // Lines that began and have not used up their first turn.
	old     list[K, V]
	length  int
}

type line[K comparable, V any] struct {
	key     K
	weight  int64
	deficit int64
	items   []item[V]
	next    *line[K, V]
}

type item[V any] struct {
	value V
	cost  int64
}

// NewQueue makes a queue whose turns are worth quantum for a weight of one.
func NewQueue[K comparable, V any](quantum int64, weight func(K) int64) *Queue[K, V] {
	return &Queue[K, V]{quantum: quantum, weight: weight, lines: make(map[K]*line[K, V])}
}

// Push puts v at the end of k's line.
func (q *Queue[K, V]) Push(k K, cost int64, v V) {
	l := q.lines[k]
	if l == nil {
		l = &line[K, V]{key: k, weight: weightOf(q.weight, k)}
		l.deficit = q.quantum * l.weight
		q.lines[k] = l
		q.fresh.push(l)
	}
	l.items = append(l.items, item[V]{v, max(cost, 1)})
	q.length++
}

// Pop takes out what is next.
func (q *Queue[K, V]) Pop() (v V, ok bool) {
	return q.PopIf(func(V) bool { return true })
}

// PopIf takes out what is next if it meets the condition; else it stays next.
func (q *Queue[K, V]) PopIf(meets func(V) bool) (v V, ok bool) {
	for q.length > 0 {
		from := &q.fresh
		if from.first == nil {
			from = &q.old
		}
		l := from.first
		switch {
		case len(l.items) == 0 && from == &q.fresh:
			// It comes again after the others have had a turn: else who empties a line
			// each time would always be first.
			from.pop()
			q.old.push(l)
		case len(l.items) == 0:
			from.pop()
			delete(q.lines, l.key)
		case l.deficit <= 0:
			from.pop()
			l.deficit += q.quantum * l.weight
			q.old.push(l)
		case !meets(l.items[0].value):
			return v, false
		default:
			it := l.items[0]
			l.items[0] = item[V]{}
			l.items = l.items[1:]
			l.deficit -= it.cost
			q.length--
			return it.value, true
		}
	}
	q.forget()
	return v, false
}

// forget lets go of lines that are empty: nobody waits, so all begin again.
func (q *Queue[K, V]) forget() {
	if len(q.lines) > 0 {
		clear(q.lines)
		q.fresh, q.old = list[K, V]{}, list[K, V]{}
	}
}

// Len is how many things wait.
func (q *Queue[K, V]) Len() int { return q.length }

// LenOf is how many things of k wait.
func (q *Queue[K, V]) LenOf(k K) int {
	if l := q.lines[k]; l != nil {
		return len(l.items)
	}
	return 0
}

type list[K comparable, V any] struct{ first, last *line[K, V] }

func (s *list[K, V]) push(l *line[K, V]) {
	l.next = nil
	if s.last == nil {
		s.first = l
	} else {
		s.last.next = l
	}
	s.last = l
}

func (s *list[K, V]) pop() {
	s.first = s.first.next
	if s.first == nil {
		s.last = nil
	}
}
