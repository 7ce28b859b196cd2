/*
 * A wall clock that is off by the seconds in the file FAULTS_CLOCK (8 bytes), for programs that ask the C
 * library for the time. The file is read each time, so that the clock can be set while the program runs. The monotonic clock
 * stays right, as it does when a clock is set. libfaketime does not get on with jemalloc, which Debian's Redis uses.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
	static int fd = -1;
	long seconds = 0;
	if (fd < 0) {
		const char *path = getenv("FAULTS_CLOCK");
		if (path == NULL || (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) return 0;
	}
	return pread(fd, &seconds, sizeof seconds, 0) == sizeof seconds ? seconds : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
	int failed = (int)syscall(SYS_clock_gettime, clock, now);
	if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += offset();
	return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
	struct timespec precise;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *now) {
	struct timespec precise;
	if (clock_gettime(CLOCK_REALTIME, &precise)) return (time_t)-1;
	if (now != NULL) *now = precise.tv_sec;
	return precise.tv_sec;
}
