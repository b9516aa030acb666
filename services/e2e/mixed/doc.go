// Package mixed is the load of fault runs that is more than plain jobs: queues with limits, unique
// keys, priorities, retries, delays, batches and chains that go well or fail, jobs that outlast a
// lease or are cancelled, a schedule, a setting that is written and read, and, if it is asked for,
// what takes memory rather than time: large jobs, many waiting fetches, clients that stop reading.
//
// It owns what is known of its own jobs: each has a serial in its payload, and its worker tells the
// serial and the attempt as its result. What it doesn't know of them is judged by history.
//
// It must not know how faults are made, which clock time runs on, nor how clients reach the service.
package mixed
