package messages

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// span reads a number of units; what does not fit a Duration is refused,
// because wrapped around it would mean something else.
func span(d *shape.Decoder, path string, n *int64, unit time.Duration) *time.Duration {
	if n == nil {
		return nil
	}
	if *n < 0 || *n > math.MaxInt64/int64(unit) {
		d.Problem(path, "is out of range")
		return nil
	}
	span := time.Duration(*n) * unit
	return &span
}

// Millis keeps a wait in the range of a Duration; limits are checked later.
func Millis(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(min(max(n, 0), most)) * time.Millisecond
}

// jsonText checks a JSON text as strictly as a JSON body; empty is none.
func jsonText(d *shape.Decoder, path, text string) json.RawMessage {
	if text == "" {
		return nil
	}
	raw := json.RawMessage(text)
	if err := shape.Check(raw); err != nil {
		d.Problem(path, "%s", err)
	}
	return raw
}

// Time is nil for the zero time.
func Time(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// dollarsFrom reads the shortest decimal number that the sender's double stands
// for, so that 0.1 is exactly that.
func dollarsFrom(d *shape.Decoder, path string, v float64) int64 {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		d.Problem(path, "must be an amount in dollars, 0 or more")
		return 0
	}
	n, err := job.ParseDollars(strconv.FormatFloat(v, 'g', -1, 64))
	if err != nil {
		d.Problem(path, "%s", err)
	}
	return n
}

// dollars is the double nearest to the amount.
func dollars(d wire.Dollars) float64 {
	v, _ := d.Float64() // "" is 0.
	return v
}
