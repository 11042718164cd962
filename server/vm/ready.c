/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ready.c - waits until the services of a VM are up, not only its agent
 *
 * systemd's own answer: the system is up when the jobs of its boot are done, and the job of a
 * service that signals its readiness (Type=notify) is done when READY=1 came. In a VM that was
 * thawed this was so before, and the answer is there at once.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "vm/vm_internal.h"

#define GRACE_MS 10000 /* for the answer itself, beyond the client's time */

/* Status 3: the time is over; 4: a service that was named is not active. */
static const char script[] =
        "[ -d /run/systemd/system ] || exit 0\n" /* another init: nobody to ask */
        "timeout \"$PANDO_S\" systemctl is-system-running --wait >/dev/null 2>&1\n"
        "case $(systemctl is-system-running) in running|degraded) ;; *) systemctl list-jobs "
        "--no-legend 2>/dev/null | awk '{print $2}' | head -5 | tr '\\n' ' ' >&2; exit 3 ;; esac\n"
        "for u in $PANDO_UNITS; do\n"
        "  while [ \"$(systemctl is-active \"$u\")\" = activating ] && [ \"$PANDO_S\" -gt 0 ]; do\n"
        "    sleep 1; PANDO_S=$((PANDO_S - 1))\n"
        "  done\n"
        "  systemctl is-active -q \"$u\" || { echo \"$u is $(systemctl is-active \"$u\")\" >&2; "
        "exit 4; }\n"
        "done\n";

int vmm_ready(struct vmm *m, const char *account, const char *id, const char *const *services,
              unsigned timeout_s, struct err *err)
{
	AUTO(guest_exec_result_done) struct guest_exec_result out = { 0 };
	AUTO(guest_unrefp) struct guest *g = NULL;
	autofree char *units = NULL;
	autobuf struct buf b = { 0 };
	char seconds[32];
	int r = vmm_guest(m, account, id, &g, err);

	if (r < 0)
		return r;
	buf_printf(&b, "PANDO_UNITS=");
	for (size_t i = 0; services && services[i]; i++)
		buf_printf(&b, "%s%s.service", i ? " " : "", services[i]);
	units = buf_take_str(&b);
	if (!units)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(seconds, sizeof(seconds), "PANDO_S=%u", timeout_s);
	r = guest_exec(
	        g,
	        &(struct guest_exec_req){ .command = script,
	                                  .env = (const char *const[]){ units, seconds, NULL },
	                                  .timeout_ms = timeout_s * 1000 + GRACE_MS },
	        &out, err);
	if (r < 0)
		return r;
	if (out.timed_out || out.exit_code == 3)
		return err_tag(
		        err, -ETIMEDOUT, ERR_VM_START_TIMEOUT,
		        "VM %s runs, but was not ready within readySignalTimeoutSeconds (%u): "
		        "still starting: %.200s",
		        id, timeout_s, out.errout ? out.errout : "");
	if (out.exit_code)
		return err_tag(err, -EIO, ERR_VM_START_TIMEOUT,
		               "VM %s runs, but a service did not signal that it is ready: %.200s",
		               id, out.errout ? out.errout : "");
	return 0;
}
