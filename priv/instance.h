/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/instance.h - which instance we are, and its directory below /run/pando
 *
 * /run/pando/<tag>/   lock     held by the one pando-priv of this data directory
 *                     data     canonical path of the data directory
 *                     boot     boot id: records of an earlier boot are void
 *                     fence    when the VMs of a node have to end (fence.c)
 *                     vm/<id>  one record per running VM (records.c)
 *                     netns/<n>  bind mounts that keep the slots' namespaces
 *                     vpc/<n>    the same of VPCs
 * /run/pando/net/     who has which address block (hostnet.c)
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

struct err;

#define RUN_DIR "/run/pando"

struct instance {
	char data[PATH_MAX]; /* canonical */
	char tag[16];        /* 8 hex digits of data: part of every name created on the host */
	char dir[64];        /* RUN_DIR/<tag> */
	int dirfd;           /* owned */
	int lock_fd;         /* owned */
};

#define INSTANCE_NONE ((struct instance){ .dirfd = -1, .lock_fd = -1 })

/* Creates the directory, takes the lock (-EBUSY: another process has it), discards records of an
 * earlier boot. */
int instance_open(const char *data, struct instance *ret, struct err *err);
/* The files may be removed only when nothing on the host carries the tag any more. */
void instance_close(struct instance *i, bool remove);
