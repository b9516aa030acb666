package directory

import (
	"net/http"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/scim"
)

const (
	// scansMax is how many requests of a tenant may read a whole directory at once: some
	// seconds of the database's time each, where it is large. Directories that we know look
	// people up by what has an index.
	scansMax = 2
	// scanWait is when to try again.
	scanWait = time.Second
)

// scans are the requests that read a whole directory at the moment.
type scans struct {
	mu      sync.Mutex
	running map[string]int // Guarded by mu. By tenant.
}

// begin admits one, or refuses it.
func (s *scans) begin(tenantID string) (end func(), _ *scim.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[tenantID] >= scansMax {
		e := scim.Refuse(http.StatusTooManyRequests, "", "%d requests of this tenant search all users at the moment; try again, or filter by userName, externalId or id, which need no search", scansMax)
		e.RetryAfter = scanWait
		return nil, e
	}
	s.running[tenantID]++
	return func() { s.end(tenantID) }, nil
}

func (s *scans) end(tenantID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[tenantID]--; s.running[tenantID] == 0 {
		delete(s.running, tenantID)
	}
}
