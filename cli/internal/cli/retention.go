package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/retention"
	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// retentionFlags change how long the finished jobs of a queue are kept.
type retentionFlags struct{ completed, dead, cancelled, most string }

func (f *retentionFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.completed, "retention-completed", "", "how long completed jobs are kept, such as 12h or 7d, or off for as long as the namespace says")
	c.Flags().StringVar(&f.dead, "retention-dead", "", "how long dead jobs are kept, or off")
	c.Flags().StringVar(&f.cancelled, "retention-cancelled", "", "how long cancelled jobs are kept, or off")
	c.Flags().StringVar(&f.most, "retention-finished-max", "", "most finished jobs that are kept, or off")
}

// into changes what was given; off leaves it to the namespace.
func (f *retentionFlags) into(c *cobra.Command, in *wire.QueueRequest) error {
	var keep wire.QueueRetention
	if in.Retention != nil {
		keep = *in.Retention
	}
	for _, age := range []struct {
		flag, text string
		ms         *int64
	}{
		{"retention-completed", f.completed, &keep.CompletedMS}, {"retention-dead", f.dead, &keep.DeadMS},
		{"retention-cancelled", f.cancelled, &keep.CancelledMS},
	} {
		if !c.Flags().Changed(age.flag) {
			continue
		}
		d, err := readAge("--"+age.flag, age.text)
		if err != nil {
			return err
		}
		*age.ms = d.Milliseconds()
	}
	if c.Flags().Changed("retention-finished-max") {
		n, err := readLimit("--retention-finished-max", f.most)
		if err != nil {
			return err
		}
		keep.FinishedMax = int64(n)
	}
	in.Retention = &keep
	if keep == (wire.QueueRetention{}) {
		in.Retention = nil
	}
	return nil
}

// readAge reads a duration, also in days; off is 0.
func readAge(what, text string) (time.Duration, error) {
	if text == off {
		return 0, nil
	}
	d, err := retention.ParseAge(text)
	if err != nil {
		return 0, usage(what, text, "a duration such as 12h or 7d, or off")
	}
	return d, nil
}

// queueRetention says what the queue has been set to keep.
func queueRetention(q *wire.Queue) []string {
	if q.Retention == nil {
		return nil
	}
	var parts []string
	for _, age := range []struct {
		word string
		ms   int64
	}{{"completed", q.Retention.CompletedMS}, {"dead", q.Retention.DeadMS}, {"cancelled", q.Retention.CancelledMS}} {
		if age.ms > 0 {
			parts = append(parts, age.word+" jobs kept "+duration(time.Duration(age.ms)*time.Millisecond))
		}
	}
	if n := q.Retention.FinishedMax; n > 0 {
		parts = append(parts, fmt.Sprintf("at most %d finished jobs", n))
	}
	return parts
}
