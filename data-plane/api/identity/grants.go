package identity

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// Bounds of what somebody may do in one namespace, as it travels.
const (
	// GroupsMax is how many sets hold in some queues alone, PatternsMax how many patterns of
	// queues there are in all of them, and PatternBytesMax how long these are together.
	GroupsMax       = 64
	PatternsMax     = 64
	PatternBytesMax = 4 << 10
	// GrantsTextMax is the longest text: a set for everything, and each group with a set.
	GrantsTextMax = setChars + GroupsMax*(setChars+2) + PatternBytesMax + PatternsMax

	setChars = 22 // Of 16 bytes in base64url, without padding.
)

// GrantsText is the one text of what somebody may do in a namespace: the set that holds in
// all of it, then for some queues each set with its patterns, as in SET;SET=a,b*. Nothing
// is the empty text.
func GrantsText(h permission.Here) (string, error) {
	if h.None() {
		return "", nil
	}
	if len(h.Some) > GroupsMax {
		return "", fmt.Errorf("%w: %d groups of queues, at most %d travel", ErrMalformed, len(h.Some), GroupsMax)
	}
	var room [256]byte
	b := appendSet(room[:0], h.All)
	patterns, size := 0, 0
	for i := range h.Some {
		group := &h.Some[i]
		if group.Permissions.Empty() || len(group.Queues) == 0 {
			return "", fmt.Errorf("%w: a group of queues without permissions or patterns", ErrMalformed)
		}
		b = appendSet(append(b, ';'), group.Permissions)
		for j, pattern := range group.Queues {
			if err := permission.CheckPattern(pattern); err != nil {
				return "", fmt.Errorf("%w: a pattern of queues %s", ErrMalformed, err.Error())
			}
			b = append(append(b, separator(j)), pattern...)
			patterns, size = patterns+1, size+len(pattern)
		}
	}
	if patterns > PatternsMax || size > PatternBytesMax {
		return "", fmt.Errorf("%w: %d patterns of queues with %d bytes, at most %d with %d travel", ErrMalformed, patterns, size, PatternsMax, PatternBytesMax)
	}
	return string(b), nil
}

// separator stands before the pattern of that number.
func separator(n int) byte {
	if n == 0 {
		return '='
	}
	return ','
}

func appendSet(b []byte, s permission.Set) []byte {
	return base64.RawURLEncoding.AppendEncode(b, s.Bytes())
}

// ParseGrants reads what GrantsText wrote, and nothing else.
func ParseGrants(text string) (h permission.Here, err error) {
	if text == "" {
		return h, nil
	}
	if len(text) > GrantsTextMax {
		return h, fmt.Errorf("%w: grants of %d bytes", ErrMalformed, len(text))
	}
	all, rest, more := strings.Cut(text, ";")
	if h.All, err = parseSet(all); err != nil {
		return permission.Here{}, err
	}
	for group := ""; more; {
		group, rest, more = strings.Cut(rest, ";")
		set, patterns, _ := strings.Cut(group, "=")
		in := permission.InQueues{Queues: strings.Split(patterns, ",")}
		if in.Permissions, err = parseSet(set); err != nil {
			return permission.Here{}, err
		}
		h.Some = append(h.Some, in)
	}
	// One right has one text, and no pattern is of another form.
	if again, err := GrantsText(h); err != nil {
		return permission.Here{}, err
	} else if again != text {
		return permission.Here{}, fmt.Errorf("%w: grants are not canonical", ErrMalformed)
	}
	return h, nil
}

func parseSet(text string) (permission.Set, error) {
	var b [permission.SetBytes]byte
	if len(text) != setChars {
		return permission.Set{}, fmt.Errorf("%w: a set of permissions has %d characters", ErrMalformed, len(text))
	}
	if _, err := base64.RawURLEncoding.Strict().Decode(b[:], []byte(text)); err != nil {
		return permission.Set{}, fmt.Errorf("%w: a set of permissions isn't base64url", ErrMalformed)
	}
	s, err := permission.SetFrom(b[:])
	if err != nil {
		return permission.Set{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return s, nil
}
