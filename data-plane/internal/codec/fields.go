package codec

import "time"

// Fields says once which fields a value has and in which order: the same lines write a
// value and read it. Every method takes where the field lies; writing leaves it alone.
//
//	func (c *Move) fields(f *codec.Fields) {
//		codec.ID(f, &c.NS)
//		codec.ID(f, &c.Job)
//		f.Name(&c.Queue)
//	}
//
// The zero value of neither half is of use: make one with Writing or Reading.
type Fields struct {
	w *Writer
	r *Reader // nil while writing.
}

// Writing gives the fields to w.
func Writing(w *Writer) *Fields { return &Fields{w: w} }

// Reading takes the fields from r.
func Reading(r *Reader) *Fields { return &Fields{r: r} }

// Struct is a value that says its fields.
type Struct[T any] interface {
	*T
	Fields(f *Fields)
}

// Uint is an unsigned varint.
func (f *Fields) Uint(p *uint64) {
	if f.r != nil {
		*p = f.r.Uint()
		return
	}
	f.w.Uint(*p)
}

// Uint32 is an unsigned varint that fits 32 bits.
func (f *Fields) Uint32(p *uint32) {
	if f.r != nil {
		*p = f.r.Uint32()
		return
	}
	f.w.Uint(uint64(*p))
}

// Int is a signed varint.
func (f *Fields) Int(p *int64) {
	if f.r != nil {
		*p = f.r.Int()
		return
	}
	f.w.Int(*p)
}

// Natural is a signed varint that is not negative: an amount, a time since 1970.
func (f *Fields) Natural(p *int64) {
	if f.r != nil {
		*p = f.r.Time()
		return
	}
	f.w.Int(*p)
}

// Fixed64 is eight bytes.
func (f *Fields) Fixed64(p *uint64) {
	if f.r != nil {
		*p = f.r.Fixed64()
		return
	}
	f.w.Fixed64(*p)
}

// Bool is one byte, 0 or 1.
func (f *Fields) Bool(p *bool) {
	if f.r != nil {
		*p = f.r.Bool()
		return
	}
	f.w.Bool(*p)
}

// Duration is an unsigned varint of nanoseconds; one beyond the range is read as the
// longest.
func (f *Fields) Duration(p *time.Duration) {
	if f.r != nil {
		*p = time.Duration(min(f.r.Uint(), 1<<63-1))
		return
	}
	f.w.Uint(uint64(*p))
}

// Bytes are a length and that many bytes; none are read as nil.
func (f *Fields) Bytes(p *[]byte) {
	if f.r != nil {
		*p = f.r.Bytes()
		return
	}
	f.w.Bytes(*p)
}

// Text is a length and that much text.
func (f *Fields) Text(p *string) {
	if f.r != nil {
		*p = f.r.Text()
		return
	}
	f.w.Text(*p)
}

// Name is Text of at most 255 bytes.
func (f *Fields) Name(p *string) {
	if f.r != nil {
		*p = f.r.Name()
		return
	}
	f.w.Text(*p)
}

// Texts are a number and that many texts; none are read as nil.
func (f *Fields) Texts(p *[]string) { List(f, p, 1, (*Fields).Text) }

// Parts are the parts that follow: those of the value while writing, those that were named
// while reading. When all are through, Confirm compares.
func (f *Fields) Parts(there Mask) Mask {
	if f.r != nil {
		return f.r.Mask()
	}
	f.w.Mask(there)
	return there
}

// Confirm fails reading unless the parts that were read are those that were named: a part
// that is unknown, or named and empty, would give one value two forms.
func (f *Fields) Confirm(named Mask, read func() Mask) {
	if f.r != nil {
		f.r.Confirm(named, read())
	}
}

// Flag is a part that says all by being there.
func (f *Fields) Flag(p *bool, parts, part Mask) {
	if f.r != nil {
		*p = parts.Has(part)
	}
}

// ID is sixteen bytes.
func ID[T ~[16]byte](f *Fields, p *T) {
	if f.r != nil {
		*p = T(f.r.ID())
		return
	}
	f.w.ID([16]byte(*p))
}

// Byte is one byte of any value.
func Byte[T ~uint8](f *Fields, p *T) {
	if f.r != nil {
		*p = T(f.r.Byte())
		return
	}
	f.w.Byte(byte(*p))
}

// Enum is one byte below end.
func Enum[T ~uint8](f *Fields, p *T, end T) {
	if f.r != nil {
		*p = T(f.r.Enum(byte(end)))
		return
	}
	f.w.Byte(byte(*p))
}

// List is a number and that many items of at least size bytes each; none are read as nil.
func List[T any](f *Fields, p *[]T, size int, item func(f *Fields, p *T)) {
	if f.r == nil {
		f.w.Uint(uint64(len(*p)))
	} else if n := f.r.Count(size); n > 0 {
		*p = make([]T, n)
	} else {
		*p = nil
	}
	for i := range *p {
		item(f, &(*p)[i])
	}
}

// Nested is a value that says its own fields; it fits List.
func Nested[T any, S Struct[T]](f *Fields, p *T) { S(p).Fields(f) }

// Made is what *p points to, made first while reading. It is for a part that is there.
func Made[T any](f *Fields, p **T) *T {
	if f.r != nil {
		*p = new(T)
	}
	return *p
}

// Optional is a Bool that tells whether there is a value, and the value.
func Optional[T any, S Struct[T]](f *Fields, p **T) {
	there := *p != nil
	f.Bool(&there)
	if there {
		S(Made(f, p)).Fields(f)
	}
}
