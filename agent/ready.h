/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/ready.h - protocol between the agent and its preloaded shell
 *
 * The shell has its pipes from the beginning: out and err in their places, the result pipe as
 * READY_RESULT_FD. READY_FD is a SOCK_SEQPACKET: the shell sends one byte when it waits, and gets
 * one message, an exec request as the host sent it, with the descriptor of stdin if there is one.
 */
#pragma once

#define READY_LIB "/usr/lib/pando/libpando-ready.so"
#define READY_FD 3
#define READY_RESULT_FD 4
#define READY_REQ_MAX (32u << 10) /* bytes; longer requests take the ordinary way */
#define READY_THAW_MS 1500        /* after a thaw: the user's request comes first */
