/* SPDX-License-Identifier: MIT */
/*
 * rig.h - for the tests and the bench of the preloaded library: a process under LD_PRELOAD and a
 * client of its control socket
 *
 * Whatever goes wrong ends the test with a message (rig_die): these are tests, there is nobody to
 * return an error to. Every wait has a deadline. Nothing needs to be cleaned up,
 * however a test ends: temporary files and sockets have no names in the file system (who needs a
 * path gets one under /proc), and a process that outlives its test is killed by the kernel.
 */
#ifndef TESTS_LAYERS_RIG_H
#define TESTS_LAYERS_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "layers/control.h"
#include "layers/format.h"

#define RIG_DEADLINE_MS 20000 /* for any one answer; the machine may be busy */
#define RIG_DEADLINE_US (UINT64_C(1000) * RIG_DEADLINE_MS)

/* A fake QEMU (host.c) or a real one. */
struct rig {
	pid_t pid;
	int pidfd;      /* owned */
	int control_fd; /* owned; -1 when not connected */
	int command_fd; /* owned; to host.c, -1 with a real QEMU */
	int shared_fd;  /* owned; memfd where host.c puts copies of its memory */
	uint64_t mem_bytes;
	uint8_t *shared;         /* owned mapping of shared_fd */
	struct sockaddr_un addr; /* of the control socket: abstract, chosen by the kernel */
	socklen_t addr_len;
};

_Noreturn void rig_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t rig_now_us(void);

/* Prepare; returns the listening socket, owned by the caller. */
int rig_init(struct rig *rig, uint64_t mem_bytes);
/* Start argv with the library loaded; it gets @listen_fd and those in @keep (ends with -1). */
void rig_spawn(struct rig *rig, const char *so, char *const argv[], int listen_fd, const int *keep);
void rig_start_host(struct rig *rig, const char *so, const char *host, uint64_t mem_bytes);
void rig_stop(struct rig *rig);
/* Wait until the process has ended by itself; its wait status. */
int rig_wait_exit(struct rig *rig);

/* --- the control socket --- */

void rig_connect(struct rig *rig);
void rig_disconnect(struct rig *rig);
void rig_send(struct rig *rig, const struct layers_req *req, const int *fds, size_t n_fds);
/* The next message; dies at the deadline. False if the library closed the connection. */
bool rig_recv(struct rig *rig, struct layers_reply *ret);
struct layers_reply rig_call(struct rig *rig, const struct layers_req *req, const int *fds,
                             size_t n_fds);
struct layers_reply rig_map(struct rig *rig, const int *fds, size_t n_fds);
/* FREEZE; dies unless the reply is good. */
struct layers_reply rig_freeze(struct rig *rig, uint64_t token, uint32_t flags, int out_fd);
struct layers_reply rig_wait_done(struct rig *rig, uint64_t token);
struct layers_reply rig_stat(struct rig *rig);

/* --- host.c --- */

enum host_op {
	HOST_FILL = 1,    /* pages of [off, off + len) get a pattern that depends on arg */
	HOST_ZERO,        /* are set to zero bytes */
	HOST_READ,        /* are read */
	HOST_DONTNEED,    /* are given up with madvise */
	HOST_SMALL_PAGES, /* no huge pages in memory: a dirty byte is 4 KiB, not 2 MiB */
	HOST_COPY,        /* all of memory is copied to the shared memfd */
	HOST_RUN,         /* threads begin to write into [off, off + len) and to use malloc */
	HOST_PAUSE,       /* and stop; answered when they have */
	HOST_SYSCALLS,    /* forbidden system calls fail as they should: value 0 */
	HOST_EXEC,        /* execve: must end the process */
	HOST_WRITES,      /* how many pages the threads have written so far */
	HOST_FDS,         /* how many descriptors are open */
	HOST_LOAD,        /* [off, off + len) is copied from the shared memfd */
};

struct host_cmd {
	uint32_t op;
	uint32_t arg;
	uint64_t off, len;
};

int64_t rig_host(struct rig *rig, enum host_op op, uint64_t off, uint64_t len, uint32_t arg);
/* A copy of the host's memory now; valid until the next. */
const uint8_t *rig_copy(struct rig *rig);
/* What HOST_FILL writes. */
void rig_pattern(uint8_t *page, uint64_t guest_off, uint32_t arg);

/* --- layer files --- */

/* An empty file without a name, on the file system of the temporary directory; or in memory. */
int rig_file(void);
int rig_memfile(void);
/* A path by which another process of ours can open it. */
void rig_path(int fd, char ret[64]);

struct rig_extent {
	uint64_t guest_off, len;
	uint32_t arg; /* of the pattern; 0 = zero extent */
};
/* A layer made of patterns. */
int rig_layer(uint64_t mem_bytes, const struct rig_extent *extents, size_t n);
/* Check all of a layer file, data checksum included, and lay it over @mem. Returns its info. */
struct layer_info rig_apply(int fd, uint8_t *mem, uint64_t mem_bytes);
/* True if both are equal; else says where they differ. */
bool rig_same(const uint8_t *a, const uint8_t *b, uint64_t n);

#endif
