/* SPDX-License-Identifier: Apache-2.0 */
/* api/self_door.h - requests of VMs about themselves; for files of this folder */
#pragma once

#include "api/call.h"

#define SELF_VISITS_MAX 256 /* requests of all VMs at one time, each with a thread here */
#define SELF_VISITS_VM 4    /* of one VM; others wait in its agent */
#define SELF_RINGS_S 50     /* how often a VM may say in a second that some wait, */
#define SELF_RINGS_BURST 200
#define SELF_RINGS_NAMES 4096 /* VMs remembered for that */

/* self_door.c */
struct self_door;
int self_door_new(struct api *a, struct self_door **ret, struct err *err);
void self_door_open(struct self_door *d);  /* the API answers: VMs may ask */
void self_door_close(struct self_door *d); /* no new requests are taken */
/* Ends those that are left, and waits for their threads. NULL is fine. */
struct self_door *self_door_free(struct self_door *d);

/* self_check.c */
/* Instead of checking a key: identifies the VM, and what it may ask for. */
int self_admit(struct request *req, struct err *err);
/* May the VM still do that? */
bool self_allowed(struct request *req);
