package cloud_test

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// linkToken waits for the newest mail to an address and returns its link's token.
func (s *split) linkToken(ctx context.Context, address string) (string, error) {
	for ctx.Err() == nil {
		for _, m := range s.mail.Messages() {
			if _, after, ok := strings.Cut(m.Text, "#token="); ok && strings.Contains(fmt.Sprint(m.To), address) {
				return strings.Fields(after)[0], nil
			}
		}
		time.Sleep(time.Millisecond) // Bounded by ctx.
	}
	return "", fmt.Errorf("no mail to %s", address)
}
