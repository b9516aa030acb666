package codec

import "time"

// Fields says once which fields a value has and in which order: the same lines write a
// value and read it. Every method takes where the field lies; writing leaves it alone.
//
//	func (c *Move) Fields(f *codec.Fields) {
//		codec.ID(f, &c.NS)
//		codec.ID(f, &c.ID)
//		f.Name(&c.Queue)
//	}
//
// Fields keeps nothing of what it is given, so that a value stays on its caller's stack as
// long as the calls are to types that the compiler knows.
type Fields struct {
	w       Writer
	r       Reader
	reading bool
}

// Writing gives the fields to a writer, after what it has.
func Writing(w Writer) Fields { return Fields{w: w} }

// Reading takes the fields from b; slices alias it.
func Reading(b []byte) Fields { return Fields{r: Reader{buf: b}, reading: true} }

// Writer is where fields are written, for what stands between them.
func (f *Fields) Writer() *Writer { return &f.w }

// Reader is where fields are read, for what stands between them, and the error.
func (f *Fields) Reader() *Reader { return &f.r }

// Written is what was written.
func (f *Fields) Written() []byte { return f.w.Buf }

// Uint is an unsigned varint.
func (f *Fields) Uint(p *uint64) {
	if f.reading {
		*p = f.r.Uint()
		return
	}
	f.w.Uint(*p)
}

// Uint32 is an unsigned varint that fits 32 bits.
func (f *Fields) Uint32(p *uint32) {
	if f.reading {
		*p = f.r.Uint32()
		return
	}
	f.w.Uint(uint64(*p))
}

// Int is a signed varint.
func (f *Fields) Int(p *int64) {
	if f.reading {
		*p = f.r.Int()
		return
	}
	f.w.Int(*p)
}

// Natural is a signed varint that is not negative: an amount, a time since 1970.
func (f *Fields) Natural(p *int64) {
	if f.reading {
		*p = f.r.Time()
		return
	}
	f.w.Int(*p)
}

// Fixed64 is eight bytes.
func (f *Fields) Fixed64(p *uint64) {
	if f.reading {
		*p = f.r.Fixed64()
		return
	}
	f.w.Fixed64(*p)
}

// Bool is one byte, 0 or 1.
func (f *Fields) Bool(p *bool) {
	if f.reading {
		*p = f.r.Bool()
		return
	}
	f.w.Bool(*p)
}

// Duration is an unsigned varint of nanoseconds; one beyond the range is read as the
// longest.
func (f *Fields) Duration(p *time.Duration) {
	if f.reading {
		*p = time.Duration(min(f.r.Uint(), 1<<63-1))
		return
	}
	f.w.Uint(uint64(*p))
}

// Bytes are a length and that many bytes; none are read as nil.
func (f *Fields) Bytes(p *[]byte) {
	if f.reading {
		*p = f.r.Bytes()
		return
	}
	f.w.Bytes(*p)
}

// Text is a length and that much text.
func (f *Fields) Text(p *string) {
	if f.reading {
		*p = f.r.Text()
		return
	}
	f.w.Text(*p)
}

// Name is Text of at most 255 bytes.
func (f *Fields) Name(p *string) {
	if f.reading {
		*p = f.r.Name()
		return
	}
	f.w.Text(*p)
}

// Texts are a number and that many texts; none are read as nil.
func (f *Fields) Texts(p *[]string) {
	for i := range Items(f, p, 1) {
		f.Text(&(*p)[i])
	}
}

// Parts are the parts that follow: those of the value while writing, those that were named
// while reading. When all are through, Confirm compares.
func (f *Fields) Parts(there Mask) Mask {
	if f.reading {
		return f.r.Mask()
	}
	f.w.Mask(there)
	return there
}

// Confirm fails reading unless the parts that were read are those that were named: a part
// that is unknown, or named and empty, would give one value two forms.
func (f *Fields) Confirm(named, read Mask) {
	if f.reading {
		f.r.Confirm(named, read)
	}
}

// Optional is a Bool that tells whether a value follows, for Alloc.
func (f *Fields) Optional(there bool) bool {
	f.Bool(&there)
	return there
}

// Since is a time, written as what it is after another one: differences are short.
func (f *Fields) Since(p *int64, before int64) {
	if f.reading {
		*p = before + f.r.Int()
		return
	}
	f.w.Int(*p - before)
}

// Flag is a part that says all by being there.
func (f *Fields) Flag(p *bool, parts, part Mask) {
	if f.reading {
		*p = parts.Has(part)
	}
}

// ID is sixteen bytes.
func ID[T ~[16]byte](f *Fields, p *T) {
	if f.reading {
		*p = T(f.r.ID())
		return
	}
	f.w.ID([16]byte(*p))
}

// Byte is one byte of any value.
func Byte[T ~uint8](f *Fields, p *T) {
	if f.reading {
		*p = T(f.r.Byte())
		return
	}
	f.w.Byte(byte(*p))
}

// Enum is one byte below end.
func Enum[T ~uint8](f *Fields, p *T, end T) {
	if f.reading {
		*p = T(f.r.Enum(byte(end)))
		return
	}
	f.w.Byte(byte(*p))
}

// Items are a number and that many items of at least size bytes each, which the caller
// goes through; while reading they are made first, and none are nil.
//
//	for i := range codec.Items(f, &c.Steps, stepBytes) {
//		c.Steps[i].Fields(f)
//	}
func Items[T any](f *Fields, p *[]T, size int) []T {
	switch {
	case !f.reading:
		f.w.Uint(uint64(len(*p)))
	default:
		*p = nil
		if n := f.r.Count(size); n > 0 {
			*p = make([]T, n)
		}
	}
	return *p
}

// IDs are a number and that many IDs; none are read as nil.
func IDs[T ~[16]byte](f *Fields, p *[]T) {
	for i := range Items(f, p, 16) {
		ID(f, &(*p)[i])
	}
}

// Signed is a signed varint.
func Signed[T ~int](f *Fields, p *T) {
	n := int64(*p)
	f.Int(&n)
	*p = T(n)
}

// Alloc is what *p points to, allocated first while reading. It is for a part that is there.
func Alloc[T any](f *Fields, p **T) *T {
	if f.reading {
		*p = new(T)
	}
	return *p
}
