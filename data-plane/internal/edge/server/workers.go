package server

import (
	"net/http"
)

// throughput tells in Last-Modified when the counts were true: on a saturated node
// they may be late.
func (c *call) throughput() error {
	list, asOf, err := c.place.Views.Throughput(c.r.Context(), c.who.Caller)
	if !asOf.IsZero() {
		c.w.Header().Set("Last-Modified", asOf.UTC().Format(http.TimeFormat))
	}
	return c.answer(list, err)
}
