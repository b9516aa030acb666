package queue

import "strings"

// Lengths of a W3C traceparent "00-<trace id>-<span id>-<flags>"; later versions may
// add parts behind another hyphen.
const (
	traceVersionChars = 2
	traceIDChars      = 32
	spanIDChars       = 16
	traceFlagsChars   = 2
	traceParentChars  = traceVersionChars + 1 + traceIDChars + 1 + spanIDChars + 1 + traceFlagsChars
)

// ValidTraceParent reports whether s is a traceparent in the sense of the W3C:
// anything else is not passed on.
func ValidTraceParent(s string) bool {
	if len(s) < traceParentChars || len(s) > KeyBytesMax {
		return false
	}
	first, rest := s[:traceParentChars], s[traceParentChars:]
	parts := strings.Split(first, "-")
	if len(parts) != 4 || len(parts[0]) != traceVersionChars || len(parts[1]) != traceIDChars ||
		len(parts[2]) != spanIDChars || len(parts[3]) != traceFlagsChars {
		return false
	}
	for _, p := range parts {
		if strings.Trim(p, "0123456789abcdef") != "" {
			return false
		}
	}
	if parts[0] == "ff" || isZeros(parts[1]) || isZeros(parts[2]) {
		return false
	}
	return rest == "" || parts[0] != "00" && rest[0] == '-' && isPlainText(rest)
}

func isZeros(s string) bool { return strings.Trim(s, "0") == "" }

// isPlainText: printable ASCII, which can stand in a header.
func isPlainText(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
