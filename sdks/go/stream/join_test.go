package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func envelope(n int) []byte {
	message := make([]byte, envelopePrefix, envelopePrefix+n)
	binary.BigEndian.PutUint32(message[1:], uint32(n))
	return append(message, bytes.Repeat([]byte{'m'}, n)...)
}

func TestJoinedBody_HandsOutEachSmallMessageInOnePiece(t *testing.T) {
	t.Parallel()
	body := &joinedBody{ReadCloser: io.NopCloser(iotest.OneByteReader(bytes.NewReader(append(envelope(100), envelope(0)...))))}
	buf := make([]byte, 4096)
	for _, want := range []int{105, 5} {
		if n, err := body.Read(buf); n != want || err != nil {
			t.Fatalf("read %d bytes, %v; want %d at once", n, err, want)
		}
	}
	if n, err := body.Read(buf); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("after the last message: %d, %v", n, err)
	}
}

func TestJoinedBody_PassesEveryByteOn(t *testing.T) {
	t.Parallel()
	var stream []byte
	for _, n := range []int{0, 1, joinMax, joinMax + 1, 3 * joinMax, 7} {
		stream = append(stream, envelope(n)...)
	}
	got, err := io.ReadAll(&joinedBody{ReadCloser: io.NopCloser(iotest.HalfReader(bytes.NewReader(stream)))})
	if err != nil || !bytes.Equal(got, stream) {
		t.Fatalf("%d of %d bytes, %v", len(got), len(stream), err)
	}
}

func TestJoinedBody_MessageCutShortIsAnError(t *testing.T) {
	t.Parallel()
	cut := envelope(100)[:50]
	if _, err := io.ReadAll(&joinedBody{ReadCloser: io.NopCloser(bytes.NewReader(cut))}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v", err)
	}
}
