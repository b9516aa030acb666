// Package admission shares a node's processors among tenants (R17).
//
//	turn, err := gate.Enter(ctx, tenant, units)
//	if err != nil {
//		return err // OVERLOADED, with the time after which it is worth asking again.
//	}
//	defer turn.Leave()
//
// A call or a frame enters with what it asks for in units, about the work of one small job
// each. The gate lets so many units be under way, and how many that are follows from how
// long goroutines wait for a processor. Who is beyond its share waits in line, by weight;
// who is not goes through. See DESIGN.md.
//
// It knows neither calls nor jobs: it is given a tenant and a number.
package admission
