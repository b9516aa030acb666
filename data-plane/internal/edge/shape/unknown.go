package shape

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

// What an enqueue says and this server does not know is refused: a job with a misspelt
// priority would run, only not as it was meant to.
//
// A fetch is as strict. Settlements are not: to refuse an ack for a member that means
// nothing would make a worker repeat work that is done.

// unknownMember says that a member is not known, and what may have been meant.
func unknownMember(name string, known []string) string {
	return meant("is not a member of this request", name, known)
}

func meant(text, name string, known []string) string {
	if near := nearest(name, known); near != "" {
		return fmt.Sprintf("%s; did you mean %q?", text, near)
	}
	return text
}

// nearest is the name that somebody who wrote name is likely to have meant, or "".
func nearest(name string, names []string) string {
	if len(name) > nameBytesMax {
		return ""
	}
	plain := plainName(name)
	best, at := "", 1+len(plain)/4 // One slip in four letters, and one more.
	for _, n := range names {
		if d := distance(plain, plainName(n)); d < at || d == at && best == "" {
			best, at = n, d
		}
	}
	return best
}

// nameBytesMax bounds what a comparison costs.
const nameBytesMax = 64

// plainName is a name without what differs between the spellings of one word, and
// without where it stands.
func plainName(name string) string {
	name = name[strings.LastIndexByte(name, '.')+1:]
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// distance counts the letters to insert, drop or replace between a and b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// unknownNumber is the field under which a message carries the names of JSON members
// that it does not have; the format gives it to nobody. A message in binary form has
// numbers that it does not know in the same place.
const unknownNumber = protowire.MaxValidNumber

// keepUnknown notes the members of an enqueue in JSON form that m does not have in m
// itself, where enqueueFromProto looks for them; protojson drops them.
func keepUnknown(b []byte, m proto.Message) error {
	switch m := m.(type) {
	case *corvov1.EnqueueRequest:
		return eachChecked(b, func(v []byte) { noteUnknown(v, m) })
	case *corvov1.EnqueueBatchRequest:
		return eachChecked(b, func(v []byte) {
			note(m, unknownIn(v, m.ProtoReflect().Descriptor(), "", "jobs"))
			eachItem(v, "jobs", len(m.GetJobs()), func(i int, item []byte) { noteUnknown(item, m.GetJobs()[i]) })
		})
	case *corvov1.LifecycleStreamRequest:
		if len(m.GetEnqueues()) == 0 {
			return nil
		}
		return eachChecked(b, func(v []byte) {
			eachItem(v, "enqueues", len(m.GetEnqueues()), func(i int, item []byte) { noteUnknown(item, m.GetEnqueues()[i]) })
		})
	}
	return nil
}

func eachChecked(b []byte, do func(object []byte)) error {
	if err := Check(b); err != nil {
		return err
	}
	s := scanner{b: b}
	s.space()
	if KindOf(b[s.i:]) == '{' {
		do(b[s.i:])
	}
	return nil
}

// eachItem calls do for the n objects of a list.
func eachItem(object []byte, list string, n int, do func(i int, item []byte)) {
	Members(object, func(name string, v []byte) {
		if name != list || KindOf(v) != '[' {
			return
		}
		i := 0
		Elements(v, func(e []byte) {
			if i < n && KindOf(e) == '{' {
				do(i, e)
			}
			i++
		})
	})
}

func noteUnknown(object []byte, m proto.Message) {
	note(m, unknownIn(object, m.ProtoReflect().Descriptor(), ""))
}

func note(m proto.Message, problems []string) {
	if len(problems) == 0 {
		return
	}
	var raw []byte
	for _, p := range problems {
		raw = protowire.AppendString(protowire.AppendTag(raw, unknownNumber, protowire.BytesType), p)
	}
	m.ProtoReflect().SetUnknown(raw)
}

// unknownIn lists the members of a message in JSON form, and of the messages in it, that
// the message does not have: path, a line end, and what is to be said.
func unknownIn(object []byte, d protoreflect.MessageDescriptor, path string, but ...string) (out []string) {
	Members(object, func(name string, v []byte) {
		f := d.Fields().ByJSONName(name)
		if f == nil {
			f = d.Fields().ByTextName(name)
		}
		switch {
		case f == nil:
			out = append(out, Join(path, name)+"\n"+unknownMember(name, namesOf(d, path)))
		case len(but) > 0 && f.TextName() == but[0], f.IsMap(), f.Message() == nil, f.Message().ParentFile().Package() == "google.protobuf":
		case f.IsList() && KindOf(v) == '[':
			i := 0
			Elements(v, func(e []byte) {
				if KindOf(e) == '{' {
					out = append(out, unknownIn(e, f.Message(), fmt.Sprintf("%s[%d]", Join(path, f.TextName()), i))...)
				}
				i++
			})
		case KindOf(v) == '{':
			out = append(out, unknownIn(v, f.Message(), Join(path, f.TextName()))...)
		}
	})
	return out
}

// namesOf are the members of a message; of an enqueue itself those of its options too,
// which JSON has at the top.
func namesOf(d protoreflect.MessageDescriptor, path string) []string {
	var names []string
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		names = append(names, f.TextName())
		if path == "" && f.TextName() == "options" {
			for k := range f.Message().Fields().Len() {
				names = append(names, "options."+f.Message().Fields().Get(k).TextName())
			}
		}
	}
	return names
}

// RefuseUnknown makes problems of the fields that m does not have.
func RefuseUnknown(d *Decoder, path string, m proto.Message) {
	for b := m.ProtoReflect().GetUnknown(); len(b) > 0; {
		num, typ, n := protowire.ConsumeTag(b)
		size := protowire.ConsumeFieldValue(num, typ, b[max(n, 0):])
		if n < 0 || size < 0 {
			return // Unmarshal has read it.
		}
		if num == unknownNumber && typ == protowire.BytesType {
			text, _ := protowire.ConsumeString(b[n:])
			at, message, _ := strings.Cut(text, "\n")
			d.Problem(Join(path, at), "%s", message)
		} else {
			d.Problem(pathOr(path, "body"), "has the unknown field number %d", num)
		}
		b = b[n+size:]
	}
}
