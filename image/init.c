/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init.c - the only program of the guest's initramfs
 *
 * Theory of operation: load modules -> wait for the root device -> mount it -> move into it ->
 * where the processor runs nested machines, load KVM -> exec the real init. Debian's cloud kernel
 * has ext4 and virtio_pci built in; what it still lacks to see its disk (and what every guest loads
 * a moment later anyway: network, entropy) lies uncompressed in the initramfs, named in dependency
 * order by /modules. Loading it here spares systemd-udevd the decompression.
 *
 * Understood on the kernel command line: root=/dev/NAME (default /dev/vda), rootfstype=, rootflags=
 * (options of the file system itself), ro, rw, init=. Every failure ends in one line "pando-init:
 * ..." on the console and in the kernel's own panic (PID 1 exits), so panic=-1 decides whether the
 * machine stops. The wait for the device has a deadline and is woken by kernel events.
 */
#include <cpuid.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/netlink.h>

#define CMDLINE_MAX 4096 /* bytes; the kernel's own limit on x86 is 2048 */
#define ROOT_DEADLINE_MS \
	60000 /* a disk that is not there after this long never comes; generous for TCG */
#define ROOT_FLAGS "discard" /* freed blocks leave the disk layer */
#define NEW_ROOT "/root"
#define CPUID_VMX (1u << 5) /* leaf 1, ecx */
#define CPUID_SVM (1u << 2) /* leaf 0x80000001, ecx */

struct boot {
	char cmdline[CMDLINE_MAX]; /* split in place; the fields below point into it */
	const char *root;
	const char *fstype;
	const char *flags;
	const char *init;
	unsigned long mount_flags;
};

static void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void die(const char *fmt, ...)
{
	int err = errno;
	char what[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	dprintf(STDERR_FILENO, "\npando-init: cannot boot: %s: %s\n", what, strerror(err));
	_exit(1); /* PID 1 gone: the kernel panics and says so */
}

static void mount_kernel_fs(void)
{
	static const struct {
		const char *type, *dir;
		unsigned long flags;
	} fs[] = {
		{ "devtmpfs", "/dev", MS_NOSUID },
		{ "proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC },
		{ "sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC },
	};

	for (size_t i = 0; i < sizeof(fs) / sizeof(fs[0]); i++) {
		if (mkdir(fs[i].dir, 0755) < 0 && errno != EEXIST)
			die("make %s", fs[i].dir);
		if (mount(fs[i].type, fs[i].dir, fs[i].type, fs[i].flags, NULL) < 0)
			die("mount %s on %s", fs[i].type, fs[i].dir);
	}
}

/* Whether @word is "@key=value"; then *ret_value points at the value. */
static bool option(const char *word, const char *key, const char **ret_value)
{
	size_t n = strlen(key);

	if (strncmp(word, key, n) != 0 || word[n] != '=' || word[n + 1] == '\0')
		return false;
	*ret_value = word + n + 1;
	return true;
}

static void read_cmdline(struct boot *b)
{
	int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0 || (n = read(fd, b->cmdline, sizeof(b->cmdline) - 1)) < 0)
		die("read the kernel command line");
	close(fd);
	b->cmdline[n] = '\0';

	for (char *save, *w = strtok_r(b->cmdline, " \t\n", &save); w;
	     w = strtok_r(NULL, " \t\n", &save)) {
		if (option(w, "root", &b->root) || option(w, "rootfstype", &b->fstype) ||
		    option(w, "rootflags", &b->flags) || option(w, "init", &b->init))
			continue;
		if (strcmp(w, "ro") == 0)
			b->mount_flags |= MS_RDONLY;
		else if (strcmp(w, "rw") == 0)
			b->mount_flags &= ~(unsigned long)MS_RDONLY;
	}
	if (strncmp(b->root, "/dev/", 5) != 0) {
		errno = EINVAL;
		die("root=%s is not a path below /dev", b->root);
	}
}

/*
 * /modules names one file a line, each after those it needs. A module whose hardware or CPU feature
 * is absent answers ENODEV (crc32c-intel on an old CPU): no reason to stop, the wait for the root
 * device judges.
 */
static void load_modules(void)
{
	char line[256];
	FILE *list = fopen("/modules", "re");

	if (!list)
		die("open the module list");
	while (fgets(line, sizeof(line), list)) {
		int fd;

		line[strcspn(line, "\n")] = '\0';
		fd = open(line, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			die("open module %s", line);
		if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST && errno != ENODEV)
			die("load module %s", line);
		close(fd);
	}
	fclose(list);
}

static int uevent_open(void)
{
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	                NETLINK_KOBJECT_UEVENT);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
		die("listen for kernel events");
	return fd;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* @uevents was opened before the modules were loaded, so no event is missed between the look and
 * the wait. */
static void await_device(const char *path, int uevents)
{
	int64_t deadline = now_ms() + ROOT_DEADLINE_MS;
	char event[8192];
	struct stat st;

	while (stat(path, &st) < 0 || !S_ISBLK(st.st_mode)) {
		struct pollfd p = { .fd = uevents, .events = POLLIN };
		int64_t left = deadline - now_ms();

		if (left <= 0 || poll(&p, 1, (int)left) == 0) {
			errno = ENODEV;
			die("no block device %s after %d s", path, ROOT_DEADLINE_MS / 1000);
		}
		while (recv(uevents, event, sizeof(event), 0) > 0)
			;
	}
}

/* Frees the memory of the initramfs: what is not deleted before the move stays for ever. Best
 * effort. */
static void delete_initramfs(void)
{
	struct dirent *e;
	DIR *d = opendir("/lib");

	while (d && (e = readdir(d)))
		if (e->d_type == DT_REG)
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	unlink("/modules");
	unlink("/init");
}

/*
 * Nested machines: where a processor (not QEMU's emulation of one, where they would be of little
 * use and make the boot longer) can run them, /dev/kvm works from the start. Best effort: a
 * guest without nested machines is a guest.
 */
static void load_kvm(void)
{
	uint32_t a, b, c, d, sign[4] = { 0 };
	const char *name = NULL;
	pid_t pid;

	__cpuid(0x40000000, a, sign[0], sign[1], sign[2]);
	if (memcmp(sign, "TCGTCGTCGTCG", 12) == 0)
		return;
	__cpuid(1, a, b, c, d);
	if (c & CPUID_VMX)
		name = "kvm_intel";
	__cpuid(0x80000000, a, b, c, d);
	if (!name && a > 0x80000000) {
		__cpuid(0x80000001, a, b, c, d);
		if (c & CPUID_SVM)
			name = "kvm_amd";
	}
	if (!name)
		return;
	pid = fork();
	if (pid == 0) {
		execl("/sbin/modprobe", "modprobe", "-q", name, (char *)NULL);
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void switch_root(const struct boot *b)
{
	static const char *const moved[] = { "/dev", "/proc", "/sys" };

	if (mkdir(NEW_ROOT, 0700) < 0 && errno != EEXIST)
		die("make %s", NEW_ROOT);
	if (mount(b->root, NEW_ROOT, b->fstype, b->mount_flags, b->flags) < 0)
		die("mount %s (%s, %s)", b->root, b->fstype, b->flags);
	for (size_t i = 0; i < sizeof(moved) / sizeof(moved[0]); i++) {
		char to[64];

		snprintf(to, sizeof(to), NEW_ROOT "%s", moved[i]);
		if (mount(moved[i], to, NULL, MS_MOVE, NULL) < 0)
			die("move %s to %s", moved[i], to);
	}
	delete_initramfs();
	if (chdir(NEW_ROOT) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
	    chdir("/") < 0)
		die("make %s the root", b->root);
}

int main(void)
{
	struct boot b = { .root = "/dev/vda",
		          .fstype = "ext4",
		          .flags = ROOT_FLAGS,
		          .init = "/sbin/init",
		          .mount_flags = MS_NOATIME }; /* reading must not write */
	int uevents;

	mount_kernel_fs();
	read_cmdline(&b);
	uevents = uevent_open();
	load_modules();
	await_device(b.root, uevents);
	close(uevents);
	switch_root(&b);
	load_kvm();
	execl(b.init, b.init, (char *)NULL);
	die("run %s", b.init);
}
