package records

import "testing"

// What a transition of a job reads and writes.
func BenchmarkHead(b *testing.B) {
	head := sampleHead()
	raw := head.Encode()
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			head.Encode()
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeHead(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}
