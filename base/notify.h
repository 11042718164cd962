/* SPDX-License-Identifier: Apache-2.0 */
/* base/notify.h - tell the service manager how a start or an end comes along */
#pragma once

/*
 * Sends lines such as "READY=1" or "STATUS=..." to the socket that NOTIFY_SOCKET names, as
 * sd_notify(3) describes. 1: sent, 0: there is no service manager that wants to know, -errno.
 */
int notify_send(const char *state);
