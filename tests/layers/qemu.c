/* SPDX-License-Identifier: MIT */
/*
 * qemu.c - start a real QEMU with the library in it and talk QMP with it
 *
 * Theory of operation: QEMU gets its monitor as one end of a socketpair. Answers are lines; events
 * are skipped, and what we look for is found by strstr: enough for the five commands the tests use.
 */
#include "qemu.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BIOS_BYTES 65536
#define GUEST_IN_BIOS 0x100

/* clang-format off */
/* A thawed QEMU has no BIOS (ROMs are not loaded when state is to come), so: run in RAM. */
static const uint8_t boot_code[] = {
	0x8c, 0xc8,             /*       mov ax, cs               */
	0x8e, 0xd8,             /*       mov ds, ax               */
	0x31, 0xc0,             /*       xor ax, ax               */
	0x8e, 0xc0,             /*       mov es, ax               */
	0xbe, 0x00, 0x01,       /*       mov si, GUEST_IN_BIOS    */
	0xbf, 0x00, 0x80,       /*       mov di, 0x8000           */
	0xb9, 0x40, 0x00,       /*       mov cx, 64               */
	0xfc,                   /*       cld                      */
	0xf3, 0xa4,             /*       rep movsb                */
	0xea, 0x00, 0x80, 0x00, 0x00, /* jmp 0:0x8000             */
};
static const uint8_t guest_code[] = {
	0xb8, 0x00, 0x10,       /*       mov ax, 0x1000           */
	0x8e, 0xd8,             /* next: mov ds, ax               */
	0x31, 0xff,             /*       xor di, di               */
	0xb9, 0x00, 0x80,       /*       mov cx, 0x8000           */
	0xff, 0x05,             /* word: inc word [di]            */
	0x83, 0xc7, 0x02,       /*       add di, 2                */
	0xe2, 0xf9,             /*       loop word                */
	0x05, 0x00, 0x10,       /*       add ax, 0x1000           */
	0x3d, 0x00, 0x90,       /*       cmp ax, 0x9000           */
	0x75, 0xea,             /*       jne next                 */
	0xeb, 0xe5,             /*       jmp start                */
};
static const uint8_t reset_code[] = { 0xea, 0x00, 0x00, 0x00, 0xf0 }; /* jmp 0xf000:0 */
/* clang-format on */

int qemu_bios(void)
{
	static uint8_t image[BIOS_BYTES];
	int fd = rig_memfile();

	memcpy(image, boot_code, sizeof(boot_code));
	memcpy(image + GUEST_IN_BIOS, guest_code, sizeof(guest_code));
	memcpy(image + BIOS_BYTES - 16, reset_code, sizeof(reset_code));
	if (write(fd, image, sizeof(image)) != sizeof(image))
		rig_die("write BIOS: %s", strerror(errno));
	return fd;
}

/* The next line from QMP, without its end; valid until the next call. */
static const char *read_line(struct qemu *q)
{
	static char line[sizeof(q->buf)];

	for (;;) {
		struct pollfd p = { .fd = q->qmp_fd, .events = POLLIN };
		char *end = memchr(q->buf, '\n', q->have);
		ssize_t n;

		if (end) {
			size_t len = (size_t)(end - q->buf);

			memcpy(line, q->buf, len);
			line[len] = '\0';
			q->have -= len + 1;
			memmove(q->buf, end + 1, q->have);
			return line;
		}
		if (q->have == sizeof(q->buf))
			rig_die("QMP line too long");
		if (poll(&p, 1, RIG_DEADLINE_MS) <= 0)
			rig_die("no answer from QEMU within %d ms", RIG_DEADLINE_MS);
		n = read(q->qmp_fd, q->buf + q->have, sizeof(q->buf) - q->have);
		if (n <= 0)
			rig_die("QEMU has ended");
		q->have += (size_t)n;
	}
}

static void send_line(struct qemu *q, const char *s, int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} u = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)s, .iov_len = strlen(s) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		struct cmsghdr *cm;

		mh.msg_control = u.buf;
		mh.msg_controllen = sizeof(u.buf);
		cm = CMSG_FIRSTHDR(&mh);
		if (!cm)
			rig_die("no room for a descriptor");
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cm), &fd, sizeof(fd));
	}
	if (sendmsg(q->qmp_fd, &mh, MSG_NOSIGNAL) != (ssize_t)iov.iov_len)
		rig_die("send to QEMU: %s", strerror(errno));
}

const char *qemu_qmp(struct qemu *q, const char *command, int fd)
{
	send_line(q, command, fd);
	for (;;) {
		const char *line = read_line(q);

		if (strstr(line, "\"error\""))
			rig_die("QMP: %s -> %s", command, line);
		if (strncmp(line, "{\"return\"", 9) == 0)
			return line;
	}
}

void qemu_greet(struct qemu *q)
{
	read_line(q);
	qemu_qmp(q, "{\"execute\":\"qmp_capabilities\"}\n", -1);
}

void qemu_start(struct qemu *q, const struct qemu_opts *o)
{
	const char *argv[64];
	char object[160], chardev[64], bios[64];
	int listen_fd = rig_init(&q->rig, o->mem_bytes), pair[2];
	size_t n = 0;

	q->have = 0;
	q->dump_path[0] = '\0';
	q->bios_fd = qemu_bios();
	q->dump_fd = rig_memfile();
	rig_path(q->bios_fd, bios);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		rig_die("socketpair: %s", strerror(errno));
	snprintf(object, sizeof(object),
	         "memory-backend-file,id=ram,size=%llu,align=2M,mem-path=" LAYERS_RAM_PATH
	         ",share=off",
	         (unsigned long long)o->mem_bytes);
	snprintf(chardev, sizeof(chardev), "socket,id=qmp,fd=%d", pair[1]);
	const char *const fixed[] = {
		o->binary,
		"-machine",
		"q35,usb=off,vmport=off,graphics=off,suppress-vmdesc=on,memory-backend=ram",
		"-nodefaults",
		"-no-user-config",
		"-display",
		"none",
		"-accel",
		"tcg",
		"-global",
		"migration.send-configuration=off",
		"-sandbox",
		"on,obsolete=deny,elevateprivileges=deny,spawn=allow,resourcecontrol=deny",
		"-object",
		object,
		"-bios",
		bios,
		"-chardev",
		chardev,
		"-mon",
		"chardev=qmp,mode=control",
		"-S",
		NULL
	};
	for (size_t i = 0; fixed[i]; i++)
		argv[n++] = fixed[i];
	if (o->incoming) {
		argv[n++] = "-incoming";
		argv[n++] = "defer";
	}
	for (size_t i = 0; o->more && o->more[i]; i++)
		argv[n++] = o->more[i];
	argv[n] = NULL;
	rig_spawn(&q->rig, o->so, (char *const *)(uintptr_t)argv, listen_fd,
	          (const int[]){ pair[1], -1 });
	close(pair[1]);
	close(listen_fd);
	q->qmp_fd = pair[0];
	qemu_greet(q);
	rig_connect(&q->rig);
}

void qemu_stop(struct qemu *q)
{
	close(q->qmp_fd);
	close(q->bios_fd);
	close(q->dump_fd);
	rig_stop(&q->rig);
}

uint8_t *qemu_memory(struct qemu *q)
{
	uint64_t n = q->rig.mem_bytes;
	uint8_t *mem = malloc(n);
	char cmd[256], path[64];

	if (q->dump_path[0])
		snprintf(path, sizeof(path), "%s", q->dump_path);
	else
		rig_path(q->dump_fd, path);
	snprintf(cmd, sizeof(cmd),
	         "{\"execute\":\"pmemsave\",\"arguments\":{\"val\":0,\"size\":%llu,"
	         "\"filename\":\"%s\"}}\n",
	         (unsigned long long)n, path);
	qemu_qmp(q, cmd, -1);
	if (!mem || pread(q->dump_fd, mem, n, 0) != (ssize_t)n)
		rig_die("read guest memory: %s", strerror(errno));
	return mem;
}
