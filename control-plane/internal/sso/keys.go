package sso

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/corvo-cloud/corvo/control-plane/internal/saml"
)

const (
	// keyFetchesBurst and keyFetchEvery bound how often a key set is read again: an
	// unknown key id is all it takes to ask for it.
	keyFetchesBurst = 3
	keyFetchEvery   = time.Minute

	// keysMax bounds a key set, and sameIDMax its keys of one id: each is tried.
	keysMax   = 50
	sameIDMax = 8
)

var errKeysTooOften = errors.New("the key set was read a moment ago; it isn't read again so soon")

// keyClient is the client for one key set, with a limit on how often it is read and on what
// is taken from it.
func (p *providers) keyClient() *http.Client {
	c := *p.client
	c.Transport = &keyFetches{next: p.client.Transport, now: p.now, rate: rate.NewLimiter(rate.Every(keyFetchEvery), keyFetchesBurst)}
	return &c
}

// keyFetches lets through a burst, then one request every so often. The library verifies by
// whatever keys it reads, so they are looked at on the way to it.
type keyFetches struct {
	next http.RoundTripper
	now  func() time.Time
	rate *rate.Limiter
}

// RoundTrip implements http.RoundTripper.
func (k *keyFetches) RoundTrip(r *http.Request) (*http.Response, error) {
	if !k.rate.AllowN(k.now(), 1) {
		return nil, errKeysTooOften
	}
	res, err := k.next.RoundTrip(r)
	if err != nil || res.StatusCode != http.StatusOK {
		return res, err
	}
	raw, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	if raw, err = cheapKeys(raw); err != nil {
		return nil, err
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return res, nil
}

// cheapKeys leaves those keys of a set that a signature is cheaply verified by, and not many:
// an RSA key has room for a size that takes minutes.
func cheapKeys(raw []byte) ([]byte, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("read a key set: %w", err)
	}
	out, ofID := []json.RawMessage{}, map[string]int{}
	for _, text := range set.Keys {
		// A map has names as they are written; a struct would take "N" for "n", which the
		// library doesn't.
		var k map[string]any
		if json.Unmarshal(text, &k) != nil || k["kty"] == "RSA" && !isCheap(k["n"]) {
			continue
		}
		id, _ := k["kid"].(string)
		if ofID[id]++; ofID[id] <= sameIDMax && len(out) < keysMax {
			out = append(out, text)
		}
	}
	set.Keys = out
	return json.Marshal(set)
}

// isCheap tells it of an RSA key by its modulus, as a key set writes it.
func isCheap(modulus any) bool {
	text, _ := modulus.(string)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	bits := new(big.Int).SetBytes(raw).BitLen()
	return err == nil && bits >= saml.KeyBitsMin && bits <= saml.KeyBitsMax
}
