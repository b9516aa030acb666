package server

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestBody_ReadWholeTakesNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	broken := errors.New("the line broke")
	for name, c := range map[string]struct {
		in   io.Reader
		size int64
		want string
		err  error
	}{
		"whole":            {strings.NewReader("four"), 4, "four", nil},
		"byte by byte":     {iotest.OneByteReader(strings.NewReader("four")), 4, "four", nil},
		"end with data":    {iotest.DataErrReader(strings.NewReader("four")), 4, "four", nil},
		"unknown length":   {strings.NewReader("four"), -1, "four", nil},
		"cut short":        {strings.NewReader("fou"), 4, "", io.ErrUnexpectedEOF},
		"nothing came":     {strings.NewReader(""), 4, "", io.ErrUnexpectedEOF},
		"more than said":   {strings.NewReader("fourfive"), 4, "fourfive", nil},
		"broke half-way":   {io.MultiReader(strings.NewReader("fo"), iotest.ErrReader(broken)), 4, "", broken},
		"broke at the end": {io.MultiReader(strings.NewReader("four"), iotest.ErrReader(broken)), 4, "", broken},
	} {
		got, err := readWhole(c.in, c.size)
		if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	got, err := readWhole(bytes.NewReader(make([]byte, 100)), 100)
	if err != nil || cap(got) > 128 {
		t.Errorf("100 bytes take %d: %v", cap(got), err)
	}
}
