package cell

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// The cell keeps what a key's record says about its secrets, even if an older copy of the
// control plane's database contradicts it later.
func TestKey_AnExpiredSecretIsNeverValidAgain(t *testing.T) {
	t.Parallel()
	d := func(b byte) []byte { return bytes.Repeat([]byte{b}, digestBytes) }
	secrets := func(ends []int64, digests ...[]byte) *cellv1.Key {
		return &cellv1.Key{Digests: digests, DigestEndsNs: ends}
	}
	for name, tc := range map[string]struct{ old, in, want *cellv1.Key }{
		"its end is said":        {secrets(nil, d(1)), secrets([]int64{50, 0}, d(1), d(2)), secrets([]int64{50, 0}, d(1), d(2))},
		"an older copy":          {secrets([]int64{50, 0}, d(1), d(2)), secrets(nil, d(1)), &cellv1.Key{Digests: [][]byte{d(1)}, DigestEndsNs: []int64{50}, RetiredDigests: [][]byte{d(2)}}},
		"its end is put off":     {secrets([]int64{50}, d(1)), secrets([]int64{90}, d(1)), secrets([]int64{50}, d(1))},
		"its end comes sooner":   {secrets([]int64{50}, d(1)), secrets([]int64{20}, d(1)), secrets([]int64{20}, d(1))},
		"it is dropped":          {secrets(nil, d(1)), secrets(nil, d(2)), &cellv1.Key{Digests: [][]byte{d(2)}, RetiredDigests: [][]byte{d(1)}}},
		"it was dropped":         {&cellv1.Key{Digests: [][]byte{d(2)}, RetiredDigests: [][]byte{d(1)}}, secrets(nil, d(1), d(2)), &cellv1.Key{Digests: [][]byte{d(1), d(2)}, DigestEndsNs: []int64{longAgo, 0}, RetiredDigests: [][]byte{d(1)}}},
		"a caller forgives them": {&cellv1.Key{Digests: [][]byte{d(2)}, RetiredDigests: [][]byte{d(1)}}, secrets(nil, d(2)), &cellv1.Key{Digests: [][]byte{d(2)}, RetiredDigests: [][]byte{d(1)}}},
	} {
		got := proto.CloneOf(tc.in)
		keepSecretsEnded(got, tc.old)
		if !proto.Equal(got, tc.want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, tc.want)
		}
	}
}

func TestControl_AnotherIncarnationIsRefusedUnlessItReplaces(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	write := func(generation uint64, id, replaces string) string {
		t.Helper()
		req := &cellv1.ApplyRequest{Source: "control/x", Generation: generation, Incarnation: id, ReplacesIncarnation: replaces}
		payload, err := encode(req)
		if err != nil {
			t.Fatal(err)
		}
		res, err := b.payloads(payload)
		if err != nil {
			t.Fatal(err)
		}
		if refused, ok := res[0].(*fault.Error); ok {
			return refused.Reason
		}
		return ""
	}
	known := func() string {
		t.Helper()
		var is cellv1.GetIndexResponse
		if err := b.machine.readControl(&is); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s at %d", is.GetIncarnation(), is.GetGeneration())
	}
	for i, step := range []struct {
		generation            uint64
		id, replaces, refused string
		known                 string
	}{
		{5, "inc_a", "", "", "inc_a at 5"},
		{6, "inc_b", "", "OTHER_INCARNATION", "inc_a at 5"},
		{6, "inc_b", "inc_x", "OTHER_INCARNATION", "inc_a at 5"},
		{6, "inc_b", "inc_a", "", "inc_b at 6"},
		{9, "inc_a", "", "OTHER_INCARNATION", "inc_b at 6"},
		{9, "", "", "", "inc_b at 6"}, // No control plane: an operator.
	} {
		if got := write(step.generation, step.id, step.replaces); got != step.refused || known() != step.known {
			t.Errorf("step %d: refused %q, the cell goes by %s; want %q and %s", i, got, known(), step.refused, step.known)
		}
	}
}
