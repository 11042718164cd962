/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/ready.h - between the agent and the shell it loaded ahead
 *
 * READY_FD of the shell is a SOCK_SEQPACKET: it sends one byte when it waits, and gets one
 * message, an exec request as the host sent it, with the descriptors out, err, result
 * and, if it has one, in.
 */
#pragma once

#define READY_LIB "/usr/lib/pando/libpando-ready.so"
#define READY_FD 3
#define READY_FDS_MAX 4u
#define READY_REQ_MAX (32u << 10) /* bytes; longer requests take the ordinary way */
#define READY_THAW_MS 1500        /* after a thaw: what was asked for comes first */
