/* SPDX-License-Identifier: Apache-2.0 */
/* base/notify.h - notify the service manager about start-up and shutdown */
#pragma once

/*
 * Sends lines such as "READY=1" or "STATUS=..." to the socket that NOTIFY_SOCKET names, as
 * sd_notify(3) describes. 1: sent, 0: no service manager asked for it, -errno.
 */
int notify_send(const char *state);
