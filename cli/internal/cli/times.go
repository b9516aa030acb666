package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ago is a time as people say it, in one unit.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t)
	if d < 0 {
		return "in " + coarse(-d)
	}
	if d < time.Second {
		return "just now"
	}
	return coarse(d) + " ago"
}

// coarse is the largest unit of a duration, rounded down.
func coarse(d time.Duration) string {
	for _, u := range units() {
		if least := u.length; d >= least && (u.name != "d" || d >= 2*least) { // 47 h says more than 1 d.
			return fmt.Sprintf("%d %s", d/u.length, u.name)
		}
	}
	return "0 s"
}

// duration is a span with at most two units: 340 ms, 4.2 s, 2 min 5 s.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return strconv.FormatFloat(float64(d.Milliseconds()/100)/10, 'f', -1, 64) + " s"
	}
	var parts []string
	for _, u := range units() {
		if n := d / u.length; n > 0 && len(parts) < 2 {
			parts, d = append(parts, fmt.Sprintf("%d %s", n, u.name)), d%u.length
		} else if len(parts) > 0 {
			break // 1 d 5 s says less than 1 d.
		}
	}
	return strings.Join(parts, " ")
}

type unit struct {
	length time.Duration
	name   string
}

func units() []unit {
	return []unit{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
}

// typed is a duration as flags take it: 1m, not 1m0s.
func typed(d time.Duration) string {
	text := d.String()
	for _, unit := range []string{"m", "h"} {
		if strings.HasSuffix(text, unit+"0s") || strings.HasSuffix(text, unit+"0m") {
			text = text[:len(text)-2]
		}
	}
	return text
}
