// Command peers measures other durable queues the way `corvo bench` measures ours:
// beanstalkd, asynq on Redis, NATS JetStream and River on PostgreSQL, each syncing
// every job that it acknowledges.
//
//	peers run --peer asynq --workload enqueue --callers 10 --jobs 20000 --sync-delay 1ms
//
// It owns their clients, starting their servers, and the delay of their syncs. It
// must not know Corvo: `corvo bench --suite aims --peers peers` runs it and reads
// the JSON that it prints.
//
// The surprising fact: one mechanism delays the syncs of C and Go programs alike. A
// seccomp filter stops a thread of the server in its fsync, fdatasync, syncfs or
// sync_file_range, and another process lets it go on after the delay. A library
// loaded before libc would miss nats-server, which makes its system calls itself.
package main
