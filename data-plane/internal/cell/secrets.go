package cell

import (
	"bytes"
	"slices"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
)

const (
	// retiredMax is how many ended digests of a key are remembered.
	retiredMax = 16
	// longAgo is the end of a secret that ended at an unknown time.
	longAgo = 1
)

// keepSecretsEnded ends in k every secret that old had ended or dropped: a control plane
// restored from an older copy must not make one valid again.
func keepSecretsEnded(k, old *cellv1.Key) {
	k.RetiredDigests = slices.Clone(old.GetRetiredDigests())
	if k.GetRevoked() {
		k.DigestEndsNs = nil
		return
	}
	ends := make([]int64, len(k.GetDigests()))
	copy(ends, k.GetDigestEndsNs())
	for i, d := range k.GetDigests() {
		if holds(old.GetRetiredDigests(), d) {
			ends[i] = longAgo
		} else if j := slices.IndexFunc(old.GetDigests(), func(o []byte) bool { return bytes.Equal(o, d) }); j >= 0 {
			ends[i] = sooner(ends[i], endOf(old, j))
		}
	}
	for i, d := range old.GetDigests() {
		if !holds(k.GetDigests(), d) && !holds(k.GetRetiredDigests(), old.GetDigests()[i]) {
			k.RetiredDigests = append(k.RetiredDigests, d)
		}
	}
	k.RetiredDigests = k.GetRetiredDigests()[max(0, len(k.GetRetiredDigests())-retiredMax):]
	k.DigestEndsNs = ends
	if !slices.ContainsFunc(ends, func(at int64) bool { return at != 0 }) {
		k.DigestEndsNs = nil
	}
}

// endOf is when digest i ends; 0 is never.
func endOf(k *cellv1.Key, i int) int64 {
	if i < len(k.GetDigestEndsNs()) {
		return k.GetDigestEndsNs()[i]
	}
	return 0
}

func sooner(a, b int64) int64 {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

func holds(list [][]byte, d []byte) bool {
	return slices.ContainsFunc(list, func(o []byte) bool { return bytes.Equal(o, d) })
}
