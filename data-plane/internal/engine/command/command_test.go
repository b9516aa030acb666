package command

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

// samples is one command of every kind with every field set, to another value each.
func samples() []Command {
	all := zeros()
	for _, c := range all {
		n := 0
		set(reflect.ValueOf(c).Elem(), &n)
	}
	return all
}

// set gives v and what is in it values that are not zero.
func set(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			set(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		set(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		set(v.Index(0), n)
		set(v.Index(1), n)
	case reflect.Array:
		set(v.Index(0), n)
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		end := max(ends[v.Type()], 2)
		v.SetUint(uint64(1 + *n%(int(end)-1)))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n) << 7)
	default:
		v.SetInt(int64(*n) << 30)
	}
}

// A command that nobody knows the namespace of would be taken for an ended one.
func TestNamespaceOf_EveryCommandOfANamespaceTellsIt(t *testing.T) {
	t.Parallel()
	for _, c := range samples() {
		ns, ok := NamespaceOf(c)
		v := reflect.ValueOf(c).Elem()
		want := v.FieldByName("NS")
		if due := v.FieldByName("Due"); !want.IsValid() && due.IsValid() {
			want = due.FieldByName("NS")
		}
		if ok != want.IsValid() || ok && ns != want.Interface().(job.Namespace) {
			t.Errorf("%T is of %v, %v", c, ns, ok)
		}
	}
}

func nameOf(c Command) string { return reflect.TypeOf(c).Elem().Name() }

const golden = "testdata/golden-v1.txt"

// The bytes of version 1 are in logs on disks: they never change, and they are
// read for ever. A change of a command's fields needs a new kind or version.
func TestGolden_Version1BytesAreFixedForEver(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	for _, c := range append(samples(), zeros()...) {
		fmt.Fprintf(&want, "%s %x\n", nameOf(c), Encode([]Command{c}))
	}
	fmt.Fprintf(&want, "All %x\n", Encode(samples()))
	if *rewrite {
		if err := os.WriteFile(golden, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(file) != want.String() {
		t.Fatal(difference(string(file), want.String()))
	}
	for line := range strings.Lines(string(file)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		cmds, err := Decode(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := Encode(cmds); !bytes.Equal(got, b) {
			t.Fatalf("%s: %x read and written again is %x", name, b, got)
		}
	}
	cmds, err := Decode(Encode(samples()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(cmds, samples()) {
		t.Fatalf("decoded %+v, want %+v", cmds, samples())
	}
}

// difference tells a command that is new, whose bytes are to be written, from bytes that
// changed, which must not.
func difference(file, now string) string {
	before := map[string]bool{}
	named := map[string]bool{}
	for line := range strings.Lines(file) {
		name, _, _ := strings.Cut(line, " ")
		before[line], named[name] = true, true
	}
	text := ""
	for line := range strings.Lines(now) {
		switch name, _, _ := strings.Cut(line, " "); {
		case before[line] || name == "All": // All of them change with every new one.
		case named[name]:
			text += "changed, though they are in logs on disks: " + line
		default:
			text += "new: " + line
		}
	}
	return golden + " is not what Encode writes; if nothing but new commands differs, go test ./internal/engine/command -rewrite\n" + text
}

// What only some commands of a kind say costs the others nothing.
func TestEncode_PlainCommandsAreShort(t *testing.T) {
	t.Parallel()
	by := Holder{Token: Token{Attempt: 1, Epoch: keys.Position{Index: 1 << 20, Ordinal: 2}}, Worker: "worker-1"}
	for _, c := range []struct {
		cmd  Command
		most int
	}{
		{&Enqueue{Queue: "emails", Payload: []byte(`{"to":"a"}`), Priority: job.Normal}, 55},
		{&Ack{By: by}, 58},
		{&Fail{By: by, Error: "boom"}, 63},
		{&Heartbeat{By: by}, 58},
	} {
		if n := len(Encode([]Command{c.cmd})); n > c.most {
			t.Errorf("a plain %s takes %d bytes, want %d at most", nameOf(c.cmd), n, c.most)
		}
	}
}

// One value has one form: a part is named if and only if it says something.
func TestDecode_NamedAndEmptyPartsAreRefused(t *testing.T) {
	t.Parallel()
	head := func(k Kind, between int) []byte {
		return append([]byte{version, 1, byte(k)}, make([]byte, between)...)
	}
	enqueue, settle := head(kindEnqueue, 16+16+1+1+1), 16+16+1+2+1+8
	for name, b := range map[string][]byte{
		"an empty checkpoint":           append(enqueue, 0x80, 0x02, 0),
		"no tags":                       append(enqueue, byte(enqueueTags), 0),
		"no time":                       append(enqueue, byte(enqueueSchedule), 0),
		"a retry policy of zeros":       append(enqueue, byte(enqueueRetry), 0, 0, 0, 0),
		"a part that nobody knows":      append(enqueue, 0x80, 0x80, 0x01),
		"an empty result":               append(head(kindAck, settle), byte(ackResult), 0),
		"an agent that says nothing":    append(head(kindAck, settle), byte(ackAgent), 0, 0),
		"an empty backtrace":            append(head(kindFail, settle+1), byte(failBacktrace), 0),
		"a heartbeat of empty progress": append(head(kindHeartbeat, settle), byte(heartbeatProgress), 0),
	} {
		if cmds, err := Decode(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, cmds, err)
		}
	}
	for _, k := range []Kind{kindEnqueue, kindAck, kindFail, kindHeartbeat} { // Without parts they are read.
		between := settle
		switch k {
		case kindEnqueue:
			between = 16 + 16 + 1 + 1 + 1
		case kindFail:
			between = settle + 1
		}
		if _, err := Decode(append(head(k, between), 0)); err != nil {
			t.Errorf("kind %d without parts: %v", k, err)
		}
	}
}

// zeros is one empty command of every kind that newCommand knows.
func zeros() []Command {
	var out []Command
	for k := Kind(1); ; k++ {
		c, err := newCommand(k)
		if err != nil {
			return out
		}
		out = append(out, c)
	}
}

func TestSamples_NameEveryKindOnceWithEveryFieldSet(t *testing.T) {
	t.Parallel()
	all := zeros()
	got := samples()
	if len(got) != len(all) {
		t.Fatalf("%d samples of %d kinds", len(got), len(all))
	}
	for i, c := range got {
		if KindOf(c) != Kind(i+1) || KindOf(c) != KindOf(all[i]) {
			t.Errorf("%s has kind %d at place %d", nameOf(c), KindOf(c), i)
		}
		v := reflect.ValueOf(c).Elem()
		for f := range v.NumField() {
			if v.Field(f).IsZero() {
				t.Errorf("%s.%s is not set", nameOf(c), v.Type().Field(f).Name)
			}
		}
	}
}

// A type that has a number but is not made for it would be written and never read.
func TestKinds_EveryCommandTypeIsMadeForItsKind(t *testing.T) {
	t.Parallel()
	made := map[string]bool{}
	for i, c := range zeros() {
		if made[nameOf(c)] = true; KindOf(c) != Kind(i+1) {
			t.Errorf("kind %d makes a %s, which has kind %d", i+1, nameOf(c), KindOf(c))
		}
	}
	if len(made) != Kinds-1 {
		t.Errorf("%d types are made for %d kinds", len(made), Kinds-1)
	}
	src, err := os.ReadFile("kind.go")
	if err != nil {
		t.Fatal(err)
	}
	methods := regexp.MustCompile(`func \(c \*(\w+)\) about\(\) \(Kind`).FindAllStringSubmatch(string(src), -1)
	if len(methods) != len(made) {
		t.Errorf("%d types have a kind, %d are made", len(methods), len(made))
	}
	for _, m := range methods {
		if !made[m[1]] {
			t.Errorf("nothing makes a %s", m[1])
		}
	}
}

// drawCommand fills a command of any kind with whatever its fields can hold.
func drawCommand(t *rapid.T) Command {
	c, err := newCommand(Kind(rapid.IntRange(1, len(samples())).Draw(t, "kind")))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, reflect.ValueOf(c).Elem())
	return c
}

// ends are the values of the types that know only some.
var ends = map[reflect.Type]byte{
	reflect.TypeFor[DependencyPolicy](): byte(dependencyPoliciesEnd), reflect.TypeFor[AgentStatus](): byte(agentStatusesEnd),
	reflect.TypeFor[StepStatus](): byte(stepStatusesEnd), reflect.TypeFor[Overlap](): byte(overlapsEnd),
	reflect.TypeFor[CatchUp](): byte(catchUpsEnd), reflect.TypeFor[BudgetScope](): byte(budgetScopesEnd),
	reflect.TypeFor[OnExceed](): byte(exceedsEnd),
}

func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if b := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes"); len(b) > 0 {
				v.SetBytes(b)
			}
			return
		}
		n := rapid.IntRange(0, 3).Draw(t, "items")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i))
		}
	case reflect.Array:
		reflect.Copy(v, reflect.ValueOf(rapid.SliceOfN(rapid.Byte(), v.Len(), v.Len()).Draw(t, "id")))
	case reflect.String:
		v.SetString(string(rapid.SliceOfN(rapid.Byte(), 0, 255).Draw(t, "text")))
	case reflect.Int64:
		v.SetInt(rapid.Int64Range(0, 1<<63-1).Draw(t, "number"))
	case reflect.Uint8:
		if end, ok := ends[v.Type()]; ok {
			v.SetUint(uint64(rapid.ByteRange(0, end-1).Draw(t, "word")))
			return
		}
		v.SetUint(uint64(rapid.Byte().Draw(t, "byte")))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, "number")))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "number"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	default:
		t.Fatalf("no way to fill a %s", v.Type())
	}
}

func TestRoundTrip_EveryCommandComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := []Command{}
		for range rapid.IntRange(0, 4).Draw(t, "count") {
			want = append(want, drawCommand(t))
		}
		got, err := Decode(Encode(want))
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		// That nothing is left out is what the samples show; an empty list may come
		// back as none.
		if !bytes.Equal(Encode(got), Encode(want)) {
			t.Fatalf("decoded %+v, want %+v", got, want)
		}
	})
}

// Every cut of a payload is refused: a torn entry is never half an entry.
func TestDecode_EveryPrefixIsRefused(t *testing.T) {
	t.Parallel()
	whole := Encode(samples())
	for n := range whole {
		if cmds, err := Decode(whole[:n]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%d of %d bytes: %d commands, error %v", n, len(whole), len(cmds), err)
		}
	}
	if _, err := Decode(append(bytes.Clone(whole), 0)); !errors.Is(err, ErrMalformed) {
		t.Fatalf("one byte more: %v", err)
	}
}

func TestDecode_UnknownIsRefusedNeverSkipped(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"empty":             {},
		"version 0":         {0, 0},
		"version 2":         {2, 0},
		"kind 0":            {version, 1, 0},
		"the next kind":     {version, 1, byte(len(samples()) + 1)},
		"too many commands": append([]byte{version, 0x81, 0x80, 0x01}, make([]byte, CommandsMax+1)...),
	} {
		if _, err := Decode(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range samples() {
		f.Add(Encode([]Command{c}))
	}
	f.Add(Encode(samples()))
	f.Add([]byte{version, 1, byte(kindFetch)})
	f.Fuzz(func(t *testing.T, b []byte) {
		cmds, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v", err)
			}
			return
		}
		// What was accepted has one canonical form that reads the same.
		again, err := Decode(Encode(cmds))
		if err != nil || !reflect.DeepEqual(again, cmds) {
			t.Fatalf("%+v came back as %+v, %v", cmds, again, err)
		}
	})
}

func TestSize_IsThatOfTheEncodedCommands(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cmds := rapid.SliceOfN(rapid.Custom(drawCommand), 1, 4).Draw(t, "commands")
		if got, want := Size(cmds), len(Encode(cmds))-2; got != want { // The version and the number of commands.
			t.Fatalf("%+v take %d bytes, Size says %d", cmds, want, got)
		}
	})
}
