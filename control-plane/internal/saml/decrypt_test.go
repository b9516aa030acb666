package saml

import (
	"crypto/aes"
	"crypto/cipher"
	"testing"
)

// A padding longer than a block is none: it would cut off what was encrypted.
func TestOpenCBC_PaddingIsABlockAtMost(t *testing.T) {
	t.Parallel()
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	for last, good := range map[byte]bool{0: false, 1: true, 16: true, 17: false, 32: false, 255: false} {
		sealed := make([]byte, 48)
		plain := make([]byte, 32)
		plain[31] = last
		cipher.NewCBCEncrypter(block, sealed[:16]).CryptBlocks(sealed[16:], plain)
		got, err := openCBC(block, sealed)
		if (err == nil) != good || good && len(got) != 32-int(last) {
			t.Errorf("padding %d: %d bytes, %v", last, len(got), err)
		}
	}
	for _, n := range []int{0, 15, 16, 31, 33} {
		if _, err := openCBC(block, make([]byte, n)); err == nil {
			t.Errorf("%d bytes were opened", n)
		}
	}
}
