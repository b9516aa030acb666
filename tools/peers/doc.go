// Command peers measures other durable queues the way `corvo bench` measures ours:
// beanstalkd, asynq on Redis, NATS JetStream and River on PostgreSQL, each syncing
// every job that it acknowledges.
//
//	peers run --peer asynq --workload enqueue --callers 10 --at-least 5s --sync-delay 1ms
//
// It owns their clients, starting their servers, and the delay of their syncs. It
// must not know Corvo: `corvo bench --suite aims --peers peers` runs it and reads
// the JSON that it prints.
//
// The surprising fact: syncs are delayed in two ways. C programs get a library before
// libc, and their threads sleep by themselves, as ours do. nats-server is a Go program
// and makes its system calls without libc: a seccomp filter stops them, and another
// process lets them go on. That costs 0.07 ms a sync more. Redis under a filter, or
// under strace, did 4 % less for one caller and 12 to 25 % less for ten and fifty, so
// that would have flattered us.
package main
