/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c - runs in the jail instead of QEMU and reports what it can do there
 *
 * Writes "name=value" lines to its log (stdout) and ends. Values are errno names
 * or numbers, so that the test states what it expects of each attempt.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *name, int failed)
{
	printf("%s=%s\n", name, failed ? strerrorname_np(errno) : "ok");
}

static void say_open(const char *name, const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	say(name, fd < 0);
	if (fd >= 0)
		close(fd);
}

static void descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *de;

	printf("fds=");
	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.' && strtol(de->d_name, NULL, 10) != dirfd(d))
			printf("%s,", de->d_name);
	printf("\n");
	if (d)
		closedir(d);
}

/* As the layer library does it: a forked child looks which pages became private. */
static void pagemap(const char *name)
{
	uint64_t e = 0;
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	page[0] = 1;
	if (fd < 0 || pread(fd, &e, 8, (off_t)((uintptr_t)page / 4096 * 8)) != 8)
		printf("%s=%s\n", name, strerrorname_np(errno));
	else
		printf("%s=%s\n", name, e >> 63 ? "present" : "absent");
	if (fd >= 0)
		close(fd);
}

static void processes(void)
{
	DIR *d = opendir("/proc");
	struct dirent *de;
	int n = 0;

	while (d && (de = readdir(d)))
		n += de->d_name[0] >= '0' && de->d_name[0] <= '9';
	printf("processes=%d\n", n);
	if (d)
		closedir(d);
}

int main(int argc, char **argv)
{
	char host[65] = "", *raw;
	pid_t pid;
	int fd;

	/* Only for the jail: as root on the host its attempts would succeed. */
	if (getuid() == 0 || geteuid() == 0 || getpid() != 1) {
		fprintf(stderr, "probe: runs only in a jail of pando-priv\n");
		return 99;
	}
	setvbuf(stdout, NULL, _IONBF, 0);
	descriptors();
	printf("uid=%d gid=%d groups=%d pid=%d\n", (int)getuid(), (int)getgid(), getgroups(0, NULL),
	       (int)getpid());
	gethostname(host, sizeof(host));
	printf("hostname=%s\n", host);
	printf("cwd=%s\n", (raw = getcwd(NULL, 0)) ? raw : "?");
	pagemap("pagemap");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		pagemap("child_pagemap");
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	processes();
	say("setuid", setuid(0) < 0);
	say("chroot", chroot("/") < 0);
	say("mount", mount("x", "/dev", "tmpfs", 0, NULL) < 0);
	say("remount", mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL) < 0);
	say("umount", umount2("/proc", MNT_DETACH) < 0);
	say("mknod", mknod("/dev/sda", S_IFBLK | 0600, makedev(8, 0)) < 0);
	say("sethostname", sethostname("x", 1) < 0);
	say("nice", setpriority(PRIO_PROCESS, 0, -5) < 0);
	say("kill_host", kill(2, 0) < 0);
	fd = socket(AF_INET, SOCK_RAW, 1);
	say("raw_socket", fd < 0);
	fd = socket(AF_PACKET, SOCK_RAW, 0);
	say("packet_socket", fd < 0);
	say_open("etc_passwd", "/etc/passwd", O_RDONLY);
	say_open("shell", "/bin/sh", O_RDONLY);
	say_open("tun", "/dev/net/tun", O_RDWR);
	say_open("kvm", "/dev/kvm", O_RDWR);
	say_open("null", "/dev/null", O_RDWR);
	say_open("urandom", "/dev/urandom", O_RDONLY);
	say_open("create_root", "/x", O_RDWR | O_CREAT);
	say_open("create_usr", "/usr/share/qemu/x", O_RDWR | O_CREAT);
	say_open("proc_sys", "/proc/sys/kernel/hostname", O_RDONLY);
	say_open("proc_kcore", "/proc/kcore", O_RDONLY);
	say_open("sysfs", "/sys/kernel", O_RDONLY);
	say_open("oom_score_adj", "/proc/self/oom_score_adj", O_WRONLY);
	say_open("fd_again", "/proc/self/fd/10", O_RDWR);
	printf("done=1\n");
	return 42;
}
