package cell

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

// What a key's record says of its secrets is kept by the cell whatever an older copy of the
// control plane's database says later.
func TestKey_ASecretThatEndedIsNeverGoodAgain(t *testing.T) {
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
