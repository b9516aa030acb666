package proxy

import "time"

// LookPatiently lets requests with unknown keys wait longer than lagCheckMax: on a busy
// machine a change may take longer to arrive.
func (p *Proxy) LookPatiently() { p.lagChecks.max = 10 * time.Second }
