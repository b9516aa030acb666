// Loaded before libc by LD_PRELOAD: every sync of a C program takes CORVO_SYNC_DELAY_NS
// longer, spent by the calling thread in nanosleep, and is counted and timed in the file
// CORVO_SYNC_COUNTER (two 64-bit numbers: syncs, nanoseconds). Fork shares the file.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct timespec delay;
static _Atomic uint64_t none[2], *counter = none;

__attribute__((constructor)) static void set_up(void) {
	const char *ns = getenv("CORVO_SYNC_DELAY_NS"), *path = getenv("CORVO_SYNC_COUNTER");
	if (ns) {
		long long n = atoll(ns);
		delay.tv_sec = n / 1000000000;
		delay.tv_nsec = n % 1000000000;
	}
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0) return; // Nothing is counted then, which the reader takes for a failure.
	void *mem = mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mem != MAP_FAILED) counter = mem;
	close(fd);
}

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

static uint64_t begin(void) {
	uint64_t began = now();
	struct timespec left = delay;
	while ((left.tv_sec || left.tv_nsec) && nanosleep(&left, &left) && errno == EINTR) {
	}
	return began;
}

static int end(uint64_t began, long result) {
	int kept = errno;
	counter[0]++;
	counter[1] += now() - began;
	errno = kept;
	return (int)result;
}

int fsync(int fd) {
	uint64_t began = begin();
	return end(began, syscall(SYS_fsync, fd));
}

int fdatasync(int fd) {
	uint64_t began = begin();
	return end(began, syscall(SYS_fdatasync, fd));
}

int syncfs(int fd) {
	uint64_t began = begin();
	return end(began, syscall(SYS_syncfs, fd));
}
