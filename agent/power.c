/* SPDX-License-Identifier: Apache-2.0 */
/* power.c - powers the machine off: with systemd if it runs, else directly */
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/log.h"

static void power_child(void)
{
	char *argv[] = { (char *)(uintptr_t) "systemctl", (char *)(uintptr_t) "poweroff",
		         (char *)(uintptr_t) "--no-block", NULL };
	char *envp[] = { (char *)(uintptr_t) "PATH=/usr/bin:/bin", NULL };

	setsid();
	if (access("/run/systemd/system", F_OK) == 0) {
		pid_t pid = fork();
		int st;

		if (pid == 0) {
			execve("/usr/bin/systemctl", argv, envp);
			_exit(127);
		}
		if (pid > 0 && waitpid(pid, &st, 0) == pid && WIFEXITED(st) && !WEXITSTATUS(st))
			_exit(0);
	}
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}

void power_off(struct agent *a)
{
	struct stream *s;
	struct job_fds fds;
	int r;

	if (a->test_root) {
		identity_record(a, "shutdown");
		return;
	}
	log_info("the host asked to power off");
	s = stream_new(a, 0, AGENT_OP_SHUTDOWN);
	r = s ? job_fork(a, s, 0, &fds) : -1;
	if (r == 1)
		power_child();
	if (r < 0)
		log_error("cannot start a process to power off");
}
