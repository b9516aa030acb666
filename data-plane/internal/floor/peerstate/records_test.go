package peerstate

import (
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/transport"
)

// shelf keeps values in memory, as a disk does over a restart.
type shelf map[string][]byte

func (s shelf) NodeValue(name string) ([]byte, error) { return s[name], nil }

func (s shelf) SetNodeValue(name string, value []byte) error {
	s[name] = value
	return nil
}

// self is a node of a cell that has recorded folders and removed ids.
type self struct {
	folders map[string]string
	removed map[string]bool
	version cellversion.Version
}

func (self) LogStates(uint32) []transport.LogState { return nil }
func (self) Refused(*transport.Refusal)            {}
func (self) Speaks() cellversion.Range             { return cellversion.Supported() }
func (s self) CellVersion() cellversion.Version    { return s.version }

func (s self) Folder(node string) (string, bool) { return s.folders[node], s.removed[node] }

func said(folder string, term, last, committed uint64) transport.Statement {
	return transport.Statement{Folder: folder, Groups: []transport.LogState{{Group: 2, Term: term, Last: last, Committed: committed}}}
}

func TestRecords_HoldANodeAgainstItsOwnWords(t *testing.T) {
	t.Parallel()
	disk := shelf{}
	of := func() *Records {
		return New(disk, "mine", self{folders: map[string]string{"n3": "f3"}, removed: map[string]bool{"n4": true}}, slog.New(slog.DiscardHandler))
	}
	b := of()
	b.Remember("n2", said("f2", 5, 120, 100))
	b.Remember("n2", said("f2", 4, 90, 90)) // Overtaken on the way: takes nothing back.
	for name, c := range map[string]struct {
		peer string
		s    transport.Statement
		want error
	}{
		"further on":                 {"n2", said("f2", 6, 130, 130), nil},
		"where it was":               {"n2", said("f2", 5, 120, 100), nil},
		"an uncommitted end was cut": {"n2", said("f2", 6, 100, 0), nil},
		"committed entries missing":  {"n2", said("f2", 6, 99, 0), transport.ErrOlderCopy},
		"an earlier term":            {"n2", said("f2", 4, 120, 0), transport.ErrOlderCopy},
		"another folder":             {"n2", said("fx", 6, 130, 0), transport.ErrOtherFolder},
		"not the recorded folder":    {"n3", said("fx", 1, 1, 0), transport.ErrOtherFolder},
		"the recorded folder":        {"n3", said("f3", 1, 1, 0), nil},
		"removed":                    {"n4", said("f4", 9, 900, 900), transport.ErrRemoved},
		"never heard of":             {"n5", said("f5", 1, 1, 1), nil},
	} {
		for when, records := range map[string]*Records{"": b, " after a restart": of()} {
			r := records.Check(c.peer)(c.s)
			if (r == nil) != (c.want == nil) || r != nil && !errors.Is(r, c.want) {
				t.Errorf("%s%s: %v, want %v", name, when, r, c.want)
			}
		}
	}
}

// unreadable is a store whose values can't be read, as on a bad sector.
type unreadable struct{ shelf }

func (unreadable) NodeValue(string) ([]byte, error) { return nil, syscall.EIO }

// The fault is the hearer's own: the node that it hears may be healthy, and writes a refusal of its
// folder down for good.
func TestRecords_ARecordThatCannotBeReadIsHeldAgainstNobody(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]Store{"a read error": unreadable{shelf{}}, "a damaged record": shelf{"said/n2": []byte("x"), "said/n4": nil}} {
		rs := New(store, "mine", self{removed: map[string]bool{"n4": true}}, slog.New(slog.DiscardHandler))
		r := rs.Check("n2")(said("f2", 5, 120, 100))
		switch {
		case r == nil:
			t.Errorf("%s: the node was let in", name)
		case errors.Is(r, transport.ErrRemoved), errors.Is(r, transport.ErrOtherFolder), errors.Is(r, transport.ErrOlderCopy):
			t.Errorf("%s: the node is refused for good: %v", name, r)
		case !errors.Is(r, transport.ErrUnreadable):
			t.Errorf("%s: %v, want ErrUnreadable", name, r)
		}
		if r := rs.Check("n4")(said("f4", 1, 1, 1)); !errors.Is(r, transport.ErrRemoved) {
			t.Errorf("%s: a node that the cell removed: %v, want ErrRemoved", name, r)
		}
	}
}

// What is heard after the question is no reason to refuse the answer.
func TestRecords_AStatementIsNotHeldAgainstSomethingNewer(t *testing.T) {
	t.Parallel()
	b := New(shelf{}, "mine", self{}, slog.New(slog.DiscardHandler))
	b.Remember("n2", said("f2", 5, 100, 100))
	judge := b.Check("n2")
	b.Remember("n2", said("f2", 6, 200, 200))
	if r := judge(said("f2", 5, 110, 105)); r != nil {
		t.Errorf("a statement of before: %v", r)
	}
	if r := b.Check("n2")(said("f2", 5, 110, 105)); r == nil {
		t.Error("an older copy was not refused")
	}
}

// stuck is a store whose writes do not return until they may.
type stuck struct {
	shelf
	began, may chan struct{}
}

func (s stuck) SetNodeValue(string, []byte) error {
	close(s.began)
	<-s.may
	return nil
}

func TestRemember_ADiskThatStallsHoldsUpNobodyWhoLooks(t *testing.T) {
	t.Parallel()
	store := stuck{shelf{}, make(chan struct{}), make(chan struct{})}
	rs := New(store, "folder_1", self{}, slog.New(slog.DiscardHandler))
	var stored sync.WaitGroup
	stored.Go(func() { rs.Remember("n2", transport.Statement{Folder: "folder_2"}) })
	<-store.began
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		rs.Check("n3")
		rs.Committed("n2", 1)
	}()
	select {
	case <-looked:
	case <-time.After(10 * time.Second):
		t.Error("who looks waits for a disk that stalls")
	}
	close(store.may)
	stored.Wait()
}
