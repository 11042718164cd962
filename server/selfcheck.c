/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selfcheck.c - one VM, one line of Python, one fork, as a first user would
 *
 * The line leaves a value in a file in memory (tmpfs), and the fork must have it: a copy
 * without memory would fail.
 */
#include "selfcheck.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest.h"
#include "vm/vm.h"

static int run_in(struct vmm *m, const char *account, const char *id, const char *command,
                  const char *expect, struct err *err)
{
	struct guest_exec_req req = { .command = command, .timeout_ms = 60000 };
	struct guest_exec_result res = { 0 };
	struct guest *g = NULL;
	int r = vmm_guest(m, account, id, &g, err);

	if (r < 0)
		return r;
	r = guest_exec(g, &req, &res, err);
	if (r == 0 && (res.exit_code != 0 || !res.out || strcmp(res.out, expect) != 0))
		r = err_set(err, -EIO, "'%s' gave status %d and '%.100s' instead of '%s': %.100s",
		            command, res.exit_code, res.out ? res.out : "", expect,
		            res.errout ? res.errout : "");
	guest_exec_result_done(&res);
	guest_unref(g);
	return r;
}

int selfcheck_run(struct vmm *m, const char *account, struct err *err)
{
	struct vm_create_opts o = { .account = account,
		                    .name = "self-check",
		                    .idle_timeout_s = -1,
		                    .persistence = { .type = PERSIST_EPHEMERAL } };
	autofree struct vm_info *forks = NULL;
	struct vm_info vm;
	uint64_t t[4];
	int r;

	t[0] = clock_ms();
	r = vmm_create(m, &o, &vm, err);
	if (r < 0)
		return r;
	t[1] = clock_ms();
	r = run_in(m, account, vm.id,
	           "python3 -c \"import sys; open('/dev/shm/check','w').write('42'); print(6*7)\"",
	           "42\n", err);
	t[2] = clock_ms();
	if (r == 0) {
		r = vmm_fork(m, account, vm.id, 1, &(struct vm_fork_opts){ 0 }, &forks, err);
		t[3] = clock_ms();
	}
	if (r == 0)
		r = run_in(m, account, forks[0].id, "cat /dev/shm/check", "42", err);
	if (r == 0)
		printf("  self-check   create %llu ms, exec python3 %llu ms, fork %llu ms: ok\n",
		       (unsigned long long)(t[1] - t[0]), (unsigned long long)(t[2] - t[1]),
		       (unsigned long long)(t[3] - t[2]));
	if (forks)
		vmm_delete(m, account, forks[0].id, NULL, NULL);
	vmm_delete(m, account, vm.id, NULL, NULL);
	return r;
}
