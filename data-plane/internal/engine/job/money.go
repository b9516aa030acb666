package job

import (
	"errors"
	"strconv"
	"strings"
)

// NanosPerDollar: money is counted in whole nano-dollars, because tokens cost
// millionths of a cent and sums must be exact.
const NanosPerDollar = 1_000_000_000

const nanoDigits = 9

var (
	errDollars    = errors.New("is not an amount of dollars such as 0.0125")
	errManyDollar = errors.New("is too many dollars")
)

// ParseDollars reads a decimal number of dollars, as JSON writes one, as nano-dollars:
// its digits are moved, never computed with as a fraction, so that 0.1 is exactly a
// hundred million. What is finer than a nano-dollar is rounded, halves up.
func ParseDollars(text string) (int64, error) {
	mantissa, exponent, err := splitExponent(text)
	if err != nil {
		return 0, err
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if whole+fraction == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, errDollars
	}
	if digits == "" {
		return 0, nil
	}
	roundUp := false
	switch shift := nanoDigits + exponent - len(fraction); {
	case shift > 18:
		return 0, errManyDollar // Of at least one digit.
	case shift >= 0:
		digits += strings.Repeat("0", shift)
	case -shift > len(digits):
		return 0, nil
	default:
		cut := len(digits) + shift
		roundUp = digits[cut] >= '5'
		digits = "0" + digits[:cut]
	}
	n, err := strconv.ParseInt(digits, 10, 63)
	if err != nil {
		return 0, errManyDollar
	}
	if roundUp {
		n++ // ParseInt left room for one.
	}
	return n, nil
}

// exponentMax is far beyond what an amount of dollars can have.
const exponentMax = 10_000

func splitExponent(text string) (mantissa string, exponent int, err error) {
	mantissa, after, has := strings.Cut(strings.ToLower(text), "e")
	if !has {
		return mantissa, 0, nil
	}
	exponent, err = strconv.Atoi(after)
	if err != nil || exponent > exponentMax || exponent < -exponentMax {
		return "", 0, errDollars
	}
	return mantissa, exponent, nil
}

// FormatDollars writes nano-dollars as the shortest decimal number of dollars.
func FormatDollars(nanos int64) string {
	sign, n := "", uint64(nanos)
	if nanos < 0 {
		sign, n = "-", -n
	}
	text := sign + strconv.FormatUint(n/NanosPerDollar, 10)
	if rest := n % NanosPerDollar; rest > 0 {
		digits := strconv.FormatUint(NanosPerDollar+rest, 10)[1:]
		text += "." + strings.TrimRight(digits, "0")
	}
	return text
}
