/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_watch.c - reports stuck threads, and the seed
 *
 * No verb has ended for STUCK_S: each thread's verb is printed, then every thread of the
 * process is sent a signal and prints its own stack, one after the other; then the process aborts.
 * Addresses are for addr2line.
 */
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/fault/fault.h"
#include "tests/storm/storm.h"

#define STUCK_S 150 /* longer than any deadline of the rig, and than waiting for a lock */
#define DEPTH 40

static pthread_t thread;
static atomic_bool stop, printed;

static void say(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		_exit(1);
}

/* ---- notes ---- */

#define NOTES_MAX 400
static struct {
	char line[NOTES_MAX][240];
	atomic_uint n;
} notes;

void storm_note(const char *fmt, ...)
{
	char *line = notes.line[notes.n++ % NOTES_MAX];
	va_list ap;
	int n;

	n = snprintf(line, sizeof(notes.line[0]), "%6llu ",
	             (unsigned long long)clock_ms() % 1000000);
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(notes.line[0]) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	strncat(line, "\n", sizeof(notes.line[0]) - strlen(line) - 1);
	if (storm.talks)
		say(line);
}

static void say_notes(void)
{
	unsigned n = notes.n, from = n > NOTES_MAX ? n - NOTES_MAX : 0;

	for (unsigned i = from; i < n && !storm.talks; i++)
		say(notes.line[i % NOTES_MAX]);
}

void storm_tell_seed(void)
{
	char line[160];

	snprintf(line, sizeof(line),
	         "\nstorm: seed %llu failed in round %u; again: make storm STORM_SEED=%llu\n",
	         (unsigned long long)storm.seed, storm.round, (unsigned long long)storm.seed);
	say(line);
}

static void print_stack(int sig)
{
	void *at[DEPTH];
	int saved = errno;

	backtrace_symbols_fd(at, backtrace(at, DEPTH), STDERR_FILENO);
	printed = true;
	errno = saved;
}

static void on_fatal(int sig)
{
	signal(sig, SIG_DFL);
	say_notes();
	storm_tell_seed();
	print_stack(sig);
	raise(sig);
}

/* Of a sanitizer, where the program has one: it ends the process without a signal. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*fn)(void));

static void on_death(void)
{
	say_notes();
	storm_tell_seed();
}

static void on_exit_early(void)
{
	if (storm.rig) /* the rig gave up, in the middle of a seed */
		on_death();
}

static void everybodys_stack(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *de;

	while (d && (de = readdir(d))) {
		pid_t tid = (pid_t)strtol(de->d_name, NULL, 10);
		char path[64], name[32] = "", line[96];
		ssize_t n;
		int fd;

		if (tid <= 0 || tid == gettid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)tid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd >= 0 ? read(fd, name, sizeof(name) - 1) : 0;
		if (fd >= 0)
			close(fd);
		if (n > 0)
			name[n - 1] = '\0';
		snprintf(line, sizeof(line), "-- thread %d %s\n", (int)tid, name);
		say(line);
		printed = false;
		syscall(SYS_tgkill, getpid(), tid, SIGUSR2);
		for (int i = 0; i < 200 && !printed; i++)
			usleep(10000);
	}
	if (d)
		closedir(d);
}

static void report(void)
{
	say("\nstorm: nothing has happened for a long time\n");
	for (unsigned i = 0; i < THREADS; i++) {
		const char *verb = storm.at[i].verb;
		char line[200];

		snprintf(line, sizeof(line), "  thread %u: %s %s, for %llu s\n", i,
		         verb ? verb : "-", storm.at[i].object,
		         (unsigned long long)(clock_ms() - storm.at[i].since_ms) / 1000);
		say(line);
	}
	everybodys_stack();
	abort(); /* on_fatal() tells the seed */
}

static void *watch_main(void *arg)
{
	unsigned long seen = 0;
	uint64_t since = clock_ms();

	fault_quiet_begin();
	while (!stop) {
		unsigned long now = storm.verbs;

		if (now != seen) {
			seen = now;
			since = clock_ms();
		} else if (clock_ms() - since > STUCK_S * 1000UL) {
			report();
		}
		usleep(200000);
	}
	return NULL;
}

void storm_watch_start(void)
{
	static const int fatal[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	struct sigaction a = { .sa_handler = print_stack, .sa_flags = SA_RESTART };
	void *warm[2];

	atexit(on_exit_early);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(on_death);
	backtrace(warm, 2); /* loads its library now, not in a handler */
	sigaction(SIGUSR2, &a, NULL);
	a = (struct sigaction){ .sa_handler = on_fatal };
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
		sigaction(fatal[i], &a, NULL);
	if (pthread_create(&thread, NULL, watch_main, NULL))
		abort();
}

void storm_watch_stop(void)
{
	stop = true;
	pthread_join(thread, NULL);
}
