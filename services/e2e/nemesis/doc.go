// Package nemesis kills the process that leads, again and again, under load that
// comes through the proxy, and then reads a history of everything that clients
// were told: nothing acknowledged may be lost, no finished job handed out again,
// and every second run of a job must have its cause in the job's own record.
//
// It owns the history and the rules over it. It must not know anything of the
// product beside the Go SDK, the wire and the cell's administration.
//
// Surprising: the history of acknowledgements is read from the bytes of the
// worker's stream, below the SDK. What the SDK believes is part of what is tested.
package nemesis
