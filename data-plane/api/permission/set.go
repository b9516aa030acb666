package permission

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Set is a set of permissions, one bit each. The zero Set is empty.
type Set [2]uint64

// SetBytes is the length of a Set's bytes.
const SetBytes = 16

// ErrSet: bytes that are not a Set.
var ErrSet = errors.New("not a set of permissions: want 16 bytes")

// Of is the set of some permissions.
func Of(all ...Permission) (s Set) {
	for _, p := range all {
		s[p>>6&1] |= 1 << (p & 63)
	}
	return s
}

// Everything is every permission that there is.
func Everything() (s Set) {
	for i := range infos {
		s = s.Or(Of(infos[i].Permission))
	}
	return s
}

// OfLevel is every permission of the level or narrower: what can be given at such a place.
func OfLevel(l Level) (s Set) {
	for i := range infos {
		if infos[i].Level >= l {
			s = s.Or(Of(infos[i].Permission))
		}
	}
	return s
}

// Has reports whether p is in the set.
func (s Set) Has(p Permission) bool { return p < 128 && s[p>>6&1]&(1<<(p&63)) != 0 }

// And is what is in both, Or what is in either, Without what is in s alone.
func (s Set) And(o Set) Set { return Set{s[0] & o[0], s[1] & o[1]} }

// Or is what is in either.
func (s Set) Or(o Set) Set { return Set{s[0] | o[0], s[1] | o[1]} }

// Without is what is in s and not in o.
func (s Set) Without(o Set) Set { return Set{s[0] &^ o[0], s[1] &^ o[1]} }

// Contains reports whether all of o is in s.
func (s Set) Contains(o Set) bool { return o.Without(s).Empty() }

// Empty reports whether nothing is in the set.
func (s Set) Empty() bool { return s == Set{} }

// Len is how many permissions are in the set.
func (s Set) Len() int { return bits.OnesCount64(s[0]) + bits.OnesCount64(s[1]) }

// List is what is in the set, by number; also what this program does not know by name.
func (s Set) List() []Permission {
	out := make([]Permission, 0, s.Len())
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			out = append(out, Permission(i*64+bits.TrailingZeros64(word)))
		}
	}
	return out
}

// Names are those of what is in the set, by number.
func (s Set) Names() []string {
	list := s.List()
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = p.String()
	}
	return out
}

// SetOf is the set of named permissions; unknown are the names that are none.
func SetOf(names []string) (s Set, unknown []string) {
	for _, n := range names {
		p, ok := Named(n)
		if !ok {
			unknown = append(unknown, n)
			continue
		}
		s = s.Or(Of(p))
	}
	return s, unknown
}

// Bytes is the set as it is stored and sent: 16 bytes, little endian, bit n of them for
// permission n.
func (s Set) Bytes() []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, SetBytes), s[0])
	return binary.LittleEndian.AppendUint64(b, s[1])
}

// SetFrom reads what Bytes made. Bits that this program has no name for stay: a newer one
// may have set them, and nothing here asks for them.
func SetFrom(b []byte) (Set, error) {
	if len(b) != SetBytes {
		return Set{}, fmt.Errorf("%w, got %d", ErrSet, len(b))
	}
	return Set{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}, nil
}
