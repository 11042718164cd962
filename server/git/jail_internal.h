/* SPDX-License-Identifier: Apache-2.0 */
/* git/jail_internal.h - what jail.c asks for and jail_child.c does: the fields of a starter_job */
#pragma once

#include "git/jail.h"

enum jail_number { JAIL_FLAGS, JAIL_CPU_S };
enum jail_flag { JAIL_JAILED = 1, JAIL_WRITE = 2, JAIL_NETWORK = 4 };
enum jail_text { JAIL_DIR, JAIL_UID_MAP, JAIL_GID_MAP, JAIL_REPO, JAIL_WORK };

#define GIT_PROGRAM "/usr/bin/git"
#define BSDTAR "/usr/bin/bsdtar"
