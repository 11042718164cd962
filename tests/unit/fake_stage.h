/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_stage.h - vm/stage.h in memory, over fake_vmm.h; points are rows of a real store
 *
 * Steps of a build "run" in a guest that says yes to everything, but for variables that
 * are in the script's environment: NAME=exists ends with 66, NAME=bad with 3, NAME=block waits for
 * fake_stage_release(); a service called broken has failed.
 */
#pragma once

#include <stdbool.h>

struct guest_exec_req;
struct guest_exec_result;
struct store;
struct vmm;

void fake_stage_use(struct store *s);
void fake_stage_release(void);
unsigned fake_stage_blocked(void);
/* What happened so far: thaws, freezes, and points that are still held. */
unsigned fake_stage_begun(void);
unsigned fake_stage_frozen(void);
unsigned fake_stage_held(void);
/* Every step's script and variables so far, one after the other. */
const char *fake_stage_steps(void);
void fake_stage_reset(void);
/* The next thaws of that point fail with POINT_DAMAGED; "": of none. */
void fake_stage_damage(const char *point);

/* For fake_vmm.c. */
bool fake_step(const struct guest_exec_req *req, struct guest_exec_result *ret);
struct guest *fake_the_guest(struct vmm *m);
