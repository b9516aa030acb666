package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Guard decides which peers, of those with the cell's secret and id, this node
// exchanges raft traffic with. Its methods are called by many goroutines.
type Guard interface {
	// Statement is what this node says of itself: of one group, or of all for group 0.
	Statement(group uint32) Statement
	// Check returns a check of a peer's later statement against what is known of
	// the peer now. The check returns nil if it has no objection.
	Check(peer string) func(Statement) *Refusal
	// Remember records a peer's statement of all its groups, after it passed Check's
	// check.
	Remember(peer string, s Statement)
	// Refused is called when a peer refuses this node.
	Refused(*Refusal)
}

// Statement is what a node says of itself at the beginning of a connection.
type Statement struct {
	// Folder names the folder of the node's data; a new folder has another name.
	Folder string
	// Lowest and Highest are the versions of the cell that the node's program speaks; 0 in
	// the records of peers, because a program can be replaced.
	Lowest, Highest uint32
	Groups          []LogState
}

// LogState is how far a node's log is in one group.
type LogState struct {
	Group uint32
	// Term is the current one, which covers the vote: a node votes in no earlier term.
	Term uint64
	// Last is the last index in the log, or of the state where that is beyond it.
	Last uint64
	// Committed is how much of Last the node knows to be committed, and will therefore
	// never cut.
	Committed uint64
}

// A Refusal is why one node does not talk raft to another.
type Refusal struct {
	By, Of string // Node ids.
	Reason string
	status status
}

// Kinds of refusal. Retrying does not cure the first four.
var (
	ErrWrongCell   = errors.New("the nodes belong to different cells")
	ErrRemoved     = errors.New("the node was removed from the cell")
	ErrOtherFolder = errors.New("the node's id belongs to another folder")
	ErrOlderCopy   = errors.New("the node's folder is an older copy")
	// ErrVersion lasts until another program is started.
	ErrVersion = errors.New("the node's program doesn't speak the cell's version")
	// ErrUnreadable is a fault of the node that refuses, and says nothing of the other's folder.
	ErrUnreadable = errors.New("what the node has said before can't be read")
)

// Refuse makes a refusal of one of the kinds above.
func Refuse(kind error, format string, args ...any) *Refusal {
	v := map[error]status{ErrWrongCell: wrongCell, ErrRemoved: removed, ErrOtherFolder: otherFolder, ErrOlderCopy: olderCopy, ErrVersion: otherVersion, ErrUnreadable: unreadable}[kind]
	if v == accepted {
		panic(fmt.Sprintf("transport: %v is no kind of refusal", kind))
	}
	return &Refusal{status: v, Reason: fmt.Sprintf(format, args...)}
}

// Error implements error.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("node %s refuses node %s: %s", r.By, r.Of, r.status)
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// Is matches the kind of the refusal.
func (r *Refusal) Is(target error) bool {
	switch target {
	case ErrWrongCell:
		return r.status == wrongCell
	case ErrRemoved:
		return r.status == removed
	case ErrOtherFolder:
		return r.status == otherFolder
	case ErrOlderCopy:
		return r.status == olderCopy
	case ErrVersion:
		return r.status == otherVersion
	case ErrUnreadable:
		return r.status == unreadable
	}
	return false
}

const (
	logStateBytes = 4 + 3*8
	rangeBytes    = 2 * 4
)

var errStatement = errors.New("malformed statement")

// Encode writes folder (u8 length + text), the versions (u32 each), then the log states.
func (s Statement) Encode() []byte {
	b := make([]byte, 0, 1+len(s.Folder)+rangeBytes+len(s.Groups)*logStateBytes)
	b = append(b, byte(len(s.Folder)))
	b = append(b, s.Folder...)
	b = binary.BigEndian.AppendUint32(b, s.Lowest)
	b = binary.BigEndian.AppendUint32(b, s.Highest)
	for _, g := range s.Groups {
		b = binary.BigEndian.AppendUint32(b, g.Group)
		b = binary.BigEndian.AppendUint64(b, g.Term)
		b = binary.BigEndian.AppendUint64(b, g.Last)
		b = binary.BigEndian.AppendUint64(b, g.Committed)
	}
	return b
}

// DecodeStatement reads what Encode wrote.
func DecodeStatement(b []byte) (Statement, error) {
	if len(b) == 0 || len(b) < 1+int(b[0])+rangeBytes || (len(b)-1-int(b[0])-rangeBytes)%logStateBytes != 0 {
		return Statement{}, fmt.Errorf("%w: %d bytes", errStatement, len(b))
	}
	s := Statement{Folder: string(b[1 : 1+int(b[0])])}
	b = b[1+int(b[0]):]
	s.Lowest, s.Highest = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	for b = b[rangeBytes:]; len(b) > 0; b = b[logStateBytes:] {
		s.Groups = append(s.Groups, LogState{
			Group: binary.BigEndian.Uint32(b), Term: binary.BigEndian.Uint64(b[4:]),
			Last: binary.BigEndian.Uint64(b[12:]), Committed: binary.BigEndian.Uint64(b[20:]),
		})
	}
	return s, nil
}

// everybody is the guard of a transport without one.
type everybody struct{}

func (everybody) Statement(uint32) Statement { return Statement{} }
func (everybody) Check(string) func(Statement) *Refusal {
	return func(Statement) *Refusal { return nil }
}
func (everybody) Remember(string, Statement) {}
func (everybody) Refused(*Refusal)           {}
