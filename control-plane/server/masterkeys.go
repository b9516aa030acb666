package server

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
)

// ParseMasterKeys reads a file of master keys, 64 hex digits on a line: the first one seals,
// all of them open. Its error never shows what a line holds.
func ParseMasterKeys(text []byte) ([][]byte, error) {
	var keys [][]byte
	for line := range strings.FieldsSeq(string(text)) {
		key, err := hex.DecodeString(line)
		if err != nil || len(key) != seal.KeyBytes {
			return nil, fmt.Errorf("key %d isn't %d hex digits", len(keys)+1, 2*seal.KeyBytes)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("it contains no key")
	}
	return keys, nil
}
