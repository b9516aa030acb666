package codec

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// readers is every way to take a field. Each returns how many bytes of memory
// its result needs.
var readers = []func(r *Reader) int{
	func(r *Reader) int { r.Byte(); return 0 },
	func(r *Reader) int { r.Uint(); return 0 },
	func(r *Reader) int { r.Uint32(); return 0 },
	func(r *Reader) int { r.Int(); return 0 },
	func(r *Reader) int { r.Fixed64(); return 0 },
	func(r *Reader) int { r.ID(); return 0 },
	func(r *Reader) int { return len(r.Bytes()) },
	func(r *Reader) int { return len(r.Text()) },
	func(r *Reader) int { return len(r.Name()) },
	func(r *Reader) int { r.Time(); return 0 },
	func(r *Reader) int { r.Bool(); return 0 },
	func(r *Reader) int { return r.Count(1) },
	func(r *Reader) int { return r.Count(16) * 16 },
	func(r *Reader) int { return r.Count(0) },
}

// FuzzReader reads arbitrary bytes by an arbitrary plan: no panic, nothing longer
// than the input, an error stays, and after it every field is zero.
func FuzzReader(f *testing.F) {
	f.Add([]byte{6, 6, 6}, []byte{3, 'a', 'b', 'c', 0, 1, 'x'})
	f.Add([]byte{12, 11, 1}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Add([]byte{5, 4, 10}, bytes.Repeat([]byte{1}, 30))
	f.Fuzz(func(t *testing.T, plan, input []byte) {
		r := NewReader(input)
		for _, p := range plan {
			before, failed := r.Len(), r.Err()
			size := readers[int(p)%len(readers)](r)
			if size > before {
				t.Fatalf("a field of %d bytes from %d", size, before)
			}
			if r.Len() > before {
				t.Fatalf("%d bytes left of %d", r.Len(), before)
			}
			if failed != nil && (r.Err() != failed || r.Len() != 0 || size != 0) {
				t.Fatalf("after %v: error %v, %d bytes, %d left", failed, r.Err(), size, r.Len())
			}
		}
		left := r.Len()
		err := r.Close()
		if (err == nil) != (r.Err() == nil) || err == nil && left != 0 {
			t.Fatalf("closed with %v and %d bytes left", err, left)
		}
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("error %v", err)
		}
	})
}

func TestRoundTrip_EveryFieldComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, u, i := rapid.Byte().Draw(t, "byte"), rapid.Uint64().Draw(t, "uint"), rapid.Int64().Draw(t, "int")
		u32, at := rapid.Uint32().Draw(t, "uint32"), rapid.Int64Range(0, math.MaxInt64).Draw(t, "time")
		id := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		text, flag := rapid.String().Draw(t, "text"), rapid.Bool().Draw(t, "bool")
		var w Writer
		w.Byte(b)
		w.Uint(u)
		w.Uint(uint64(u32))
		w.Int(i)
		w.Int(at)
		w.Fixed64(u)
		w.ID(id)
		w.Bytes([]byte(text))
		w.Text(text)
		w.Bool(flag)
		r := NewReader(w.Buf)
		if r.Byte() != b || r.Uint() != u || r.Uint32() != u32 || r.Int() != i || r.Time() != at || r.Fixed64() != u ||
			r.ID() != id || string(r.Bytes()) != text || r.Text() != text || r.Bool() != flag {
			t.Fatalf("%x came back differently", w.Buf)
		}
		if err := r.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	})
}

func TestReader_Refuses(t *testing.T) {
	t.Parallel()
	long := Writer{}
	long.Text(string(make([]byte, 256)))
	for name, c := range map[string]struct {
		input []byte
		read  func(r *Reader)
	}{
		"byte of nothing":               {nil, func(r *Reader) { r.Byte() }},
		"varint of nothing":             {nil, func(r *Reader) { r.Uint() }},
		"varint cut short":              {[]byte{0x80}, func(r *Reader) { r.Int() }},
		"varint of eleven bytes":        {bytes.Repeat([]byte{0xff}, 11), func(r *Reader) { r.Uint() }},
		"uint32 above 32 bits":          {[]byte{0x80, 0x80, 0x80, 0x80, 0x10}, func(r *Reader) { r.Uint32() }},
		"time before 1970":              {[]byte{1}, func(r *Reader) { r.Time() }},
		"bool of two":                   {[]byte{2}, func(r *Reader) { r.Bool() }},
		"text longer than the input":    {[]byte{4, 'a', 'b', 'c'}, func(r *Reader) { r.Text() }},
		"length beyond memory":          {[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, func(r *Reader) { r.Bytes() }},
		"name of 256 bytes":             {long.Buf, func(r *Reader) { r.Name() }},
		"id of fifteen bytes":           {make([]byte, 15), func(r *Reader) { r.ID() }},
		"fixed64 of seven bytes":        {make([]byte, 7), func(r *Reader) { r.Fixed64() }},
		"count the input can not hold":  {[]byte{3, 0, 0, 0, 0, 0}, func(r *Reader) { r.Count(2) }},
		"bytes left unread":             {[]byte{1, 2}, func(r *Reader) { r.Byte() }},
		"nothing but an earlier error":  {[]byte{2, 0}, func(r *Reader) { r.Bool(); r.Byte() }},
		"count that multiplies to zero": {[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0}, func(r *Reader) { r.Count(1 << 62) }},
	} {
		r := NewReader(c.input)
		c.read(r)
		if err := r.Close(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestBytes_OfReaderCanNotGrowIntoTheNextField(t *testing.T) {
	t.Parallel()
	r := NewReader([]byte{1, 'a', 'b'})
	got := r.Bytes()
	if cap(got) != 1 {
		t.Fatalf("capacity %d lets an append overwrite what follows", cap(got))
	}
	if r.Byte() != 'b' {
		t.Fatal("the next field moved")
	}
}
