// Package job holds the words of a job: its id, states, priorities and backoff.
// It is pure: no clock, no storage, no protocol.
package job

import (
	"errors"
	"fmt"
	"strings"
)

// ID is the 16 bytes behind "job_" + 26 characters of Crockford base32. It is
// opaque to callers; in fact it is a ULID, so ids made later sort later.
type ID [16]byte

// Namespace is the 16 bytes of a namespace's ULID, the prefix of all its keys.
type Namespace [16]byte

const (
	idPrefix        = "job_"
	namespacePrefix = "ns_"
)

// Crockford's alphabet: no I, L, O, U.
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// ErrID is returned for text that is not a well-formed id.
var ErrID = errors.New("malformed id")

// String returns the public form, "job_01J...".
func (id ID) String() string { return idPrefix + encode32([16]byte(id)) }

// IsZero reports whether no id was set.
func (id ID) IsZero() bool { return id == ID{} }

// ParseID reads the public form; it accepts exactly what String writes.
func ParseID(s string) (ID, error) {
	b, err := parse(s, idPrefix)
	return ID(b), err
}

// String returns the public form, "ns_01J...".
func (ns Namespace) String() string { return namespacePrefix + encode32([16]byte(ns)) }

// IsZero reports whether no namespace was set.
func (ns Namespace) IsZero() bool { return ns == Namespace{} }

// ParseNamespace reads the public form of a namespace id.
func ParseNamespace(s string) (Namespace, error) {
	b, err := parse(s, namespacePrefix)
	return Namespace(b), err
}

func parse(s, prefix string) ([16]byte, error) {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return [16]byte{}, fmt.Errorf("%w: want prefix %q", ErrID, prefix)
	}
	return decode32(rest)
}

// encode32 writes 128 bits as 26 characters, most significant first; the first
// character carries the top three bits.
func encode32(b [16]byte) string {
	var out [26]byte
	var acc uint64
	bits := 2 // Two leading zero bits make 130 = 26 * 5.
	n := 0
	for _, c := range b {
		acc = acc<<8 | uint64(c)
		bits += 8
		for bits >= 5 {
			bits -= 5
			out[n] = alphabet[acc>>bits&31]
			n++
		}
	}
	return string(out[:])
}

func decode32(s string) ([16]byte, error) {
	var out [16]byte
	if len(s) != 26 {
		return out, fmt.Errorf("%w: want 26 characters after the prefix, got %d", ErrID, len(s))
	}
	if s[0] > '7' {
		return out, fmt.Errorf("%w: first character %q is out of range", ErrID, s[0])
	}
	var acc uint64
	bits, n := -2, 0
	for i := 0; i < len(s); i++ {
		v := strings.IndexByte(alphabet, s[i])
		if v < 0 {
			return [16]byte{}, fmt.Errorf("%w: character %q is not in the alphabet", ErrID, s[i])
		}
		acc = acc<<5 | uint64(v)
		bits += 5
		if bits >= 8 {
			bits -= 8
			out[n] = byte(acc >> bits)
			n++
		}
	}
	return out, nil
}

// State is where a job stands. The numbers are stored: append only.
type State uint8

const (
	Pending    State = iota + 1 // In the ready order of its queue.
	Scheduled                   // Waits for its time.
	Active                      // Leased to a worker.
	Cancelling                  // Leased, and the worker was asked to let go; its slot stays taken.
	Retrying                    // Failed, waits for its backoff.
	Held                        // Waits for a person.
	Completed
	Dead
	Cancelled
	statesEnd
)

// States lists every state in the order of their numbers.
func States() []State {
	all := make([]State, 0, statesEnd-1)
	for s := Pending; s < statesEnd; s++ {
		all = append(all, s)
	}
	return all
}

var stateNames = [...]string{
	Pending: "pending", Scheduled: "scheduled", Active: "active", Cancelling: "cancelling",
	Retrying: "retrying", Held: "held", Completed: "completed", Dead: "dead", Cancelled: "cancelled",
}

func (s State) String() string {
	if s.Valid() {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Valid reports whether s is one of the declared states.
func (s State) Valid() bool { return s >= Pending && s < statesEnd }

// Terminal reports whether the job will never run again by itself.
func (s State) Terminal() bool { return s == Completed || s == Dead || s == Cancelled }

// Leased reports whether a worker holds the job.
func (s State) Leased() bool { return s == Active || s == Cancelling }

// Priority orders jobs inside a queue; lower numbers first.
type Priority uint8

const (
	Critical Priority = iota
	High
	Normal
	// Priorities is how many there are.
	Priorities = 3
)

var priorityNames = [...]string{"critical", "high", "normal"}

func (p Priority) String() string {
	if int(p) < len(priorityNames) {
		return priorityNames[p]
	}
	return fmt.Sprintf("priority(%d)", uint8(p))
}

// ParsePriority reads a priority word; empty means normal, and so does low, which
// existing clients send though there never was such a priority.
func ParsePriority(s string) (Priority, bool) {
	if s == "" || s == "low" {
		return Normal, true
	}
	for i, name := range priorityNames {
		if s == name {
			return Priority(i), true
		}
	}
	return 0, false
}
