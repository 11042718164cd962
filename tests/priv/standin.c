/* SPDX-License-Identifier: Apache-2.0 */
/*
 * standin.c - a pandod for tests of pando-priv
 *
 * Listens on <data directory>/ctl, takes one command per line, calls privc, and
 * answers one line: "ok ..." or "err <code> <message>". Every line also ends
 * with the time of the call in microseconds. One connection per thread, so that
 * calls can be made at the same time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/sock.h"
#include "net/dns.h"
#include "privc/privc.h"

#define WORDS_MAX 220
#define CONNECT_MS 3000

static struct privc *priv;
static struct priv_info info;
static struct dns *dns;
static int held[4096]; /* descriptors that a test wants kept open */
static int n_held;

typedef int (*cmd_fn)(char **w, int n, char *out, size_t size, struct err *err);

static int cmd_info(char **w, int n, char *out, size_t size, struct err *err)
{
	snprintf(out, size, "tag=%s kvm=%d slots=%u limits=%s", info.tag, info.kvm, info.slots_max,
	         info.limits);
	return 0;
}

static int hold_slot(const struct priv_slot *s, char *out, size_t size)
{
	snprintf(out, size, "%u %s", s->idx, s->host_addr);
	return dns_add(dns, s->idx, "acme", s->dns_udp, s->dns_tcp);
}

static int cmd_take(char **w, int n, char *out, size_t size, struct err *err)
{
	struct priv_slot s;
	int r = privc_slot_take(priv, &s, err);

	return r < 0 ? r : hold_slot(&s, out, size);
}

static int cmd_adopt(char **w, int n, char *out, size_t size, struct err *err)
{
	struct priv_slot s;
	int r = privc_slot_adopt(priv, (uint32_t)strtoul(w[1], NULL, 10), &s, err);

	return r < 0 ? r : hold_slot(&s, out, size);
}

static int cmd_gate(char **w, int n, char *out, size_t size, struct err *err)
{
	return privc_slot_gate(priv, (uint32_t)strtoul(w[1], NULL, 10), w[2][0] == '1', err);
}

static int cmd_free(char **w, int n, char *out, size_t size, struct err *err)
{
	uint32_t idx = (uint32_t)strtoul(w[1], NULL, 10);

	dns_remove(dns, idx);
	return privc_slot_free(priv, idx, err);
}

static int cmd_stats(char **w, int n, char *out, size_t size, struct err *err)
{
	struct priv_slot_stats st;
	int r = privc_slot_stats(priv, (uint32_t)strtoul(w[1], NULL, 10), &st, err);

	if (r == 0)
		snprintf(out, size, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
		         st.from_guest_bytes, st.to_guest_bytes, st.from_guest_packets,
		         st.to_guest_packets);
	return r;
}

/* socket <slot> <address> <port>: connects from inside the slot and reads what is said. */
static int cmd_socket(char **w, int n, char *out, size_t size, struct err *err)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_port = htons((uint16_t)strtoul(w[3], NULL, 10)) };
	autofd int fd = -1;
	int r = privc_slot_socket(priv, (uint32_t)strtoul(w[1], NULL, 10), false, &fd, err);
	socklen_t len = sizeof(int);
	int e = 0;
	ssize_t k;

	if (r < 0)
		return r;
	inet_pton(AF_INET, w[2], &sa.sin_addr);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 && errno != EINPROGRESS)
		return err_sys(err, -errno, "connect");
	if (io_wait(fd, POLLOUT, deadline_in(CONNECT_MS)) != 1)
		return err_set(err, -ETIMEDOUT, "connect");
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len);
	if (e)
		return err_sys(err, -e, "connect");
	if (io_wait(fd, POLLIN, deadline_in(CONNECT_MS)) != 1)
		return err_set(err, -ETIMEDOUT, "read");
	k = read(fd, out, size - 1);
	if (k < 0)
		return err_sys(err, -errno, "read");
	out[k] = '\0';
	out[strcspn(out, "\n")] = '\0';
	return 0;
}

/* holdsocket <slot>: keeps an unused socket of the slot open. */
static int cmd_holdsocket(char **w, int n, char *out, size_t size, struct err *err)
{
	int fd = -1;
	int r = privc_slot_socket(priv, (uint32_t)strtoul(w[1], NULL, 10), false, &fd, err);

	if (r == 0)
		held[n_held++ % 4096] = fd;
	return r;
}

static struct priv_vpc vpc_of(const char *idx)
{
	return (struct priv_vpc){ .idx = (uint32_t)strtoul(idx, NULL, 10),
		                  .net = 0xc0a80a00,
		                  .prefix = 24 };
}

/* vpc <slot> <vpc> <address>: the slot's VM has that address in a VPC of 192.168.10.0/24. */
static int cmd_vpc(char **w, int n, char *out, size_t size, struct err *err)
{
	struct priv_vpc v = vpc_of(w[2]);
	struct priv_egress e = { .mode = PRIV_EGRESS_OPEN,
		                 .mark = 1,
		                 .vpc_addr = ntohl(inet_addr(w[3])),
		                 .vpc_net = v.net,
		                 .vpc_prefix = v.prefix };

	return privc_slot_policy(priv, (uint32_t)strtoul(w[1], NULL, 10), &e, &v, err);
}

static int wake_fd = -1;

/* vpcwake <vpc> */
static int cmd_vpcwake(char **w, int n, char *out, size_t size, struct err *err)
{
	struct priv_vpc v = vpc_of(w[1]);
	int fd = -1, r = privc_vpc_wake(priv, &v, &fd, err);

	if (r < 0)
		return r;
	if (wake_fd >= 0)
		close(wake_fd);
	wake_fd = fd;
	return 0;
}

/* vpcread: the next packet, in hexadecimal digits. */
static int cmd_vpcread(char **w, int n, char *out, size_t size, struct err *err)
{
	uint8_t p[2048];
	ssize_t len;

	if (io_wait(wake_fd, POLLIN, deadline_in(CONNECT_MS)) != 1)
		return err_set(err, -ETIMEDOUT, "no packet");
	len = read(wake_fd, p, sizeof(p));
	if (len < 0)
		return err_sys(err, -errno, "read");
	for (ssize_t i = 0; i < len && (size_t)i * 2 + 2 < size; i++)
		snprintf(out + i * 2, 3, "%02x", p[i]);
	return 0;
}

/* vpcwrite <digits> */
static int cmd_vpcwrite(char **w, int n, char *out, size_t size, struct err *err)
{
	uint8_t p[2048];
	size_t len = MIN(strlen(w[1]) / 2, sizeof(p));

	for (size_t i = 0; i < len; i++) {
		char two[3] = { w[1][i * 2], w[1][i * 2 + 1], '\0' };

		p[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	return write(wake_fd, p, len) < 0 ? err_sys(err, -errno, "write") : 0;
}

/* vpcfresh <vpc> <address> <seconds> */
static int cmd_vpcfresh(char **w, int n, char *out, size_t size, struct err *err)
{
	struct priv_vpc v = vpc_of(w[1]);

	return privc_vpc_fresh(priv, &v, ntohl(inet_addr(w[2])), (uint32_t)strtoul(w[3], NULL, 10),
	                       err);
}

static int cmd_vpcremove(char **w, int n, char *out, size_t size, struct err *err)
{
	struct priv_vpc v = vpc_of(w[1]);

	if (wake_fd >= 0)
		close(wake_fd);
	wake_fd = -1;
	return privc_vpc_remove(priv, &v, err);
}

/* spawn <id> <slot> <fds> <kvm> <mem> <vcpus> <log path> [NAME=value...] -- args */
static int cmd_spawn(char **w, int n, char *out, size_t size, struct err *err)
{
	int fds[PRIV_SPAWN_FDS_MAX + 1];
	size_t n_fds = strtoul(w[3], NULL, 10);
	const char *env[16] = { NULL };
	struct proc proc = PROC_NONE;
	int at = 8, r;

	for (int i = 0; at < n && strcmp(w[at], "--") != 0 && i < 15; at++)
		env[i++] = w[at];
	for (size_t i = 0; i < n_fds && i < ARRAY_SIZE(fds); i++)
		fds[i] = memfd_create("test", MFD_CLOEXEC);
	autofd int log = open(w[7], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	struct priv_spawn s = { .vm_id = w[1],
		                .slot = (int)strtol(w[2], NULL, 10),
		                .argv = (const char *const *)(w + MIN(at + 1, n)),
		                .env = env,
		                .fds = fds,
		                .n_fds = n_fds,
		                .log_fd = log,
		                .mem_mb = (uint32_t)strtoul(w[5], NULL, 10),
		                .vcpus = (uint32_t)strtoul(w[6], NULL, 10),
		                .kvm = w[4][0] == '1' };
	r = privc_spawn(priv, &s, &proc, err);
	for (size_t i = 0; i < n_fds && i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	if (r == 0)
		snprintf(out, size, "%d %d", (int)proc.pid, proc_alive(&proc));
	if (r == 0)
		held[n_held++ % 4096] = proc.pidfd; /* as pandod does */
	return r;
}

static int cmd_kill(char **w, int n, char *out, size_t size, struct err *err)
{
	return privc_kill(priv, w[1], err);
}

static int cmd_status(char **w, int n, char *out, size_t size, struct err *err)
{
	int st, r = privc_exit_status(priv, w[1], &st, err);

	if (r == 0)
		snprintf(out, size, "%d", WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st));
	return r;
}

static int cmd_list(char **w, int n, char *out, size_t size, struct err *err)
{
	struct priv_vm *v;
	size_t cnt, at = 0;
	int r = privc_list(priv, &v, &cnt, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < cnt; i++) {
		if (at < size - 100)
			at += (size_t)snprintf(out + at, size - at, "%s:%d:%d:%d ", v[i].vm_id,
			                       v[i].slot, (int)v[i].proc.pid,
			                       proc_alive(&v[i].proc));
		proc_close(&v[i].proc);
	}
	free(v);
	return 0;
}

static int cmd_slots(char **w, int n, char *out, size_t size, struct err *err)
{
	uint32_t *v;
	size_t cnt, at = 0;
	int r = privc_slots_taken(priv, &v, &cnt, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < cnt && at < size - 16; i++)
		at += (size_t)snprintf(out + at, size - at, "%u ", v[i]);
	free(v);
	return 0;
}

static int cmd_vmstats(char **w, int n, char *out, size_t size, struct err *err)
{
	struct priv_vm_stats st;
	int r = privc_vm_stats(priv, w[1], &st, err);

	if (r == 0)
		snprintf(out, size, "%" PRIu64 " %" PRIu64 " %" PRIu64, st.cpu_us, st.mem_bytes,
		         st.private_bytes);
	return r;
}

/* fence <ms from now>: VMs end then; 0: never. */
static int cmd_fence(char **w, int n, char *out, size_t size, struct err *err)
{
	long ms = strtol(w[1], NULL, 10);

	return privc_fence(priv, ms ? (uint64_t)((int64_t)clock_boot_ms() + ms) : 0, err);
}

/* raw <hex>: sends bytes as they are on the socket to pando-priv; it must survive them. */
static int cmd_raw(char **w, int n, char *out, size_t size, struct err *err)
{
	uint8_t b[512];
	size_t len = 0;

	for (const char *p = w[1]; p[0] && p[1] && len < sizeof(b); p += 2) {
		char two[3] = { p[0], p[1], 0 };

		b[len++] = (uint8_t)strtoul(two, NULL, 16);
	}
	return send(3, b, len, MSG_NOSIGNAL) < 0 ? err_sys(err, -errno, "send") : 0;
}

static int cmd_quit(char **w, int n, char *out, size_t size, struct err *err)
{
	_exit((int)strtol(w[1], NULL, 10));
}

static const struct {
	const char *name;
	int words;
	cmd_fn fn;
} cmds[] = {
	{ "info", 1, cmd_info },         { "take", 1, cmd_take },
	{ "adopt", 2, cmd_adopt },       { "gate", 3, cmd_gate },
	{ "free", 2, cmd_free },         { "stats", 2, cmd_stats },
	{ "socket", 4, cmd_socket },     { "holdsocket", 2, cmd_holdsocket },
	{ "spawn", 8, cmd_spawn },       { "kill", 2, cmd_kill },
	{ "status", 2, cmd_status },     { "list", 1, cmd_list },
	{ "slots", 1, cmd_slots },       { "vmstats", 2, cmd_vmstats },
	{ "raw", 2, cmd_raw },           { "quit", 2, cmd_quit },
	{ "vpc", 4, cmd_vpc },           { "vpcwake", 2, cmd_vpcwake },
	{ "vpcread", 1, cmd_vpcread },   { "vpcwrite", 2, cmd_vpcwrite },
	{ "vpcfresh", 4, cmd_vpcfresh }, { "vpcremove", 2, cmd_vpcremove },
	{ "fence", 2, cmd_fence },
};

static void serve_line(char *line, FILE *to)
{
	char *w[WORDS_MAX + 1], *save = NULL, out[16384] = "";
	struct err err = { .code = -1, .msg = "no such command" };
	int n = 0, r = -ENOSYS;
	uint64_t t0;

	for (char *p = strtok_r(line, " \n", &save); p && n < WORDS_MAX;
	     p = strtok_r(NULL, " \n", &save))
		w[n++] = p;
	w[n] = NULL;
	t0 = clock_us();
	for (size_t i = 0; n && i < ARRAY_SIZE(cmds); i++)
		if (!strcmp(w[0], cmds[i].name) && n >= cmds[i].words)
			r = cmds[i].fn(w, n, out, sizeof(out), &err);
	if (r < 0)
		fprintf(to, "err %d %s", r, err.msg);
	else
		fprintf(to, "ok %s", out);
	fprintf(to, "\t%" PRIu64 "\n", clock_us() - t0);
	fflush(to);
}

static void *conn_main(void *arg)
{
	int fd = (int)(intptr_t)arg;
	autofile FILE *f = fdopen(fd, "r");
	autofile FILE *to = fdopen(dup(fd), "w");
	char line[16384];

	while (f && to && fgets(line, sizeof(line), f))
		serve_line(line, to);
	return NULL;
}

/* Exits as pandod does when it is asked to stop. */
static void on_term(int sig)
{
	_exit(0);
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	const char *fd_text = getenv("PANDO_PRIV_FD"), *data = getenv("PANDO_DATA_DIR");
	char path[4096];
	int sock;

	signal(SIGTERM, on_term);
	if (!fd_text || !data)
		return 2;
	if (argc > 1 && !strncmp(argv[1], "--exit=", 7))
		return (int)strtol(argv[1] + 7, NULL, 10);
	if (privc_open((int)strtol(fd_text, NULL, 10), &priv, &info, &err) < 0 ||
	    dns_start(&dns, getenv("PANDO_TEST_DNS"), &err) < 0) {
		fprintf(stderr, "standin: %s\n", err.msg);
		return 1;
	}
	snprintf(path, sizeof(path), "%s/ctl", data);
	sock = sock_unix_listen(path, SOCK_STREAM, &err);
	if (sock < 0) {
		fprintf(stderr, "standin: %s\n", err.msg);
		return 1;
	}
	for (;;) {
		int c = accept4(sock, NULL, NULL, SOCK_CLOEXEC);
		pthread_t t;

		if (c >= 0 && pthread_create(&t, NULL, conn_main, (void *)(intptr_t)c) == 0)
			pthread_detach(t);
	}
}
