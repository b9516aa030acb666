// Package mixed is the load of fault runs that is more than plain jobs: queues with limits, unique
// keys, priorities, retries, delays, batches, chains, a schedule, and a setting that is written
// and read. What of it went wrong is judged by history.Record and history.Register.
//
// It must not know how faults are made, which clock time runs on, nor how clients reach the service.
package mixed
