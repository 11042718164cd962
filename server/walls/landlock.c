/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walls/landlock.c - where files may be changed
 *
 * Landlock rules are put up by a process for itself, without privileges. Reading stays allowed: the
 * user of pandod has no more than its own files and the public ones. What is taken away: changing
 * anything outside a few directories, making device nodes anywhere, executing programs.
 *
 * The first ABI could not move files between directories at all, so the second (Linux 5.19) is
 * needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "walls/walls.h"

#define ABI_LEAST 2
/* Newer than some headers. */
#define ACCESS_TRUNCATE (UINT64_C(1) << 14)  /* ABI 3 */
#define ACCESS_IOCTL_DEV (UINT64_C(1) << 15) /* ABI 5 */

#define CHANGE_FILE (LANDLOCK_ACCESS_FS_WRITE_FILE)
#define CHANGE_TREE                                                                     \
	(CHANGE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |                    \
	 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |                  \
	 LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)
#define NEVER (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)

int landlock_abi(const char **ret_why)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1u /* the version */);

	*ret_why = abi >= ABI_LEAST      ? NULL
	           : abi > 0             ? "the kernel's Landlock is too old"
	           : errno == EOPNOTSUPP ? "Landlock is switched off"
	           : errno == ENOSYS     ? "the kernel has no Landlock"
	                                 : "Landlock is not allowed";
	return abi > 0 ? (int)abi : 0;
}

/* A path that is not there has nothing to write. */
static int allow(int rules, const char *path, uint64_t access, struct err *err)
{
	struct landlock_path_beneath_attr at = { .allowed_access = access };
	autofd int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(err, -errno, "Landlock: open '%s'", path);
	if (fstat(fd, &st) < 0)
		return err_sys(err, -errno, "Landlock: '%s'", path);
	if (!S_ISDIR(st.st_mode))
		at.allowed_access &= CHANGE_FILE | ACCESS_TRUNCATE;
	at.parent_fd = fd;
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &at, 0u) < 0)
		return err_sys(err, -errno, "Landlock: rule for '%s'", path);
	return 0;
}

int landlock_rules(const char *const *write, bool execute, struct err *err)
{
	const char *why;
	int abi = landlock_abi(&why);
	uint64_t change = CHANGE_TREE | (abi >= 3 ? ACCESS_TRUNCATE : 0);
	struct landlock_ruleset_attr attr = {
		.handled_access_fs = change | NEVER | (abi >= 5 ? ACCESS_IOCTL_DEV : 0) |
		                     (execute ? 0 : LANDLOCK_ACCESS_FS_EXECUTE),
	};
	autofd int rules = -1;
	int r = 0;

	if (why)
		return err_set(err, -ENOTSUP, "%s", why);
	rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs),
	                     0u);
	if (rules < 0)
		return err_sys(err, -errno, "Landlock: make rules");
	fcntl(rules, F_SETFD, FD_CLOEXEC);
	for (size_t i = 0; r == 0 && i < WALLS_DIRS && write[i]; i++)
		r = allow(rules, write[i], change, err);
	if (r == 0)
		r = allow(rules, "/dev/null", CHANGE_FILE, err);
	return r < 0 ? r : TAKE_FD(rules);
}

int landlock_restrict(int rules)
{
	return syscall(SYS_landlock_restrict_self, rules, 0u) < 0 ? -errno : 0;
}
