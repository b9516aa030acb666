package proxy

import "time"

// LookPatiently lets requests with unknown keys wait longer than lookMax: on a busy
// machine a change may take longer to arrive.
func (p *Proxy) LookPatiently() { p.lookouts.max = 10 * time.Second }
