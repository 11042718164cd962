/* SPDX-License-Identifier: Apache-2.0 */
/* fake_journal.c - see fake_vmm.h: guests that are not woken, and what their journal says */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "guest/guest.h"
#include "tests/unit/fake_vmm.h"
#include "vm/vm.h"

static char journal[4096], journal_command[1024];

#ifndef FAKE_REAL_GUEST
extern struct guest the_guest; /* of fake_vmm.c */

static int fake_guest(struct guest **ret, struct err *err)
{
	*ret = &the_guest;
	return 0;
}

void guest_exec_result_done(struct guest_exec_result *r)
{
	free(r->out);
	free(r->errout);
}
#endif

int vmm_guest_thawed(struct vmm *m, const char *account, const char *id, struct guest **ret,
                     struct err *err)
{
	struct vm_info v;
	int r = vmm_get(m, account, id, &v, err);

	if (r == 0 && v.state == VM_STOPPED)
		return err_tag(err, -EHOSTDOWN, ERR_VM_NOT_RUNNING, "it is stopped");
	return r < 0 ? r : vmm_guest(m, account, id, ret, err);
}

int vmm_guest_running(struct vmm *m, const char *account, const char *id, struct guest **ret,
                      struct err *err)
{
	struct vm_info v;
	int r = vmm_get(m, account, id, &v, err);

	if (r < 0)
		return r;
	if (v.state != VM_RUNNING)
		return err_tag(err, -ENOTCONN, ERR_VM_NOT_RUNNING, "it is not running");
	return fake_guest(ret, err);
}

void fake_journal(const char *text)
{
	snprintf(journal, sizeof(journal), "%s", text);
}

const char *fake_journal_command(void)
{
	return journal_command;
}

bool fake_journal_reply(const char *command, char **ret_out, size_t *ret_n)
{
	if (strncmp(command, "journalctl ", 11) != 0)
		return false;
	snprintf(journal_command, sizeof(journal_command), "%s", command);
	*ret_out = strdup(journal);
	*ret_n = strlen(journal);
	return true;
}
