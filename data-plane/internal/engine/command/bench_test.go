package command

import "testing"

// The path of a plain job: written by the leader, read by every replica.
func BenchmarkCodec(b *testing.B) {
	var plain []Command
	for _, c := range samples() {
		switch c.(type) {
		case *Fetch, *Ack:
			plain = append(plain, c)
		}
	}
	plain = append(plain, &Enqueue{Queue: "emails", Payload: []byte(`{"to":"ada@example.com"}`), Retry: DefaultRetry(), RetryOpen: RetryAll})
	raw := Encode(plain)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Encode(plain)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("size", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Size(plain)
		}
	})
}
