/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apply_units.c - the services of a layer: written, enabled, started, checked
 *
 * Everything is started by one systemctl, which knows the order: it returns when every oneshot
 * ended and every service is up. Meanwhile the journal is followed into the build's log, up to a
 * line that we put there ourselves. A service that stays must still be there a moment later.
 *
 * A oneshot with deleteAfterSuccess leaves no unit behind. Others may name it, in this layer or in
 * one further out, and would not start any more after a cold boot; so its name is kept in DONE_DIR
 * and left out of their dependencies. It is not stopped: that would stop those that require it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "build/build_internal.h"
#include "build/service.h"

#define UNIT_DIR "/etc/systemd/system"
#define DONE_DIR "/var/lib/pando/units-done"
#define DONE_MAX (256u << 10) /* bytes of names in DONE_DIR */
#define STATES_MAX (512u << 10)

static const char start_script[] =
        "cursor=$(journalctl -n 1 -o cat --show-cursor 2>/dev/null | "
        "sed -n 's/^-- cursor: //p')\n"
        "end=pando-build-end-$$\n"
        "exec 3> >(exec sed -u \"/^$end\\$/Q\"); follower=$!\n"
        "journalctl -f -q -n all -o cat ${cursor:+--after-cursor=\"$cursor\"} >&3 2>/dev/null & "
        "journal=$!\n"
        "exec 3>&-\n"
        "systemctl start --no-ask-password -- $UNITS; code=$?\n"
        "journalctl --sync\n"
        "echo \"$end\" | systemd-cat -t pando-build\n"
        "timeout 15 tail --pid=$follower -s 0.1 -f /dev/null\n"
        "kill $journal $follower 2>/dev/null\n"
        "exit $code\n";

#define RESTLESS "restless\n"

/*
 * Three looks in a row, half a second apart, must see the same: long enough for a program that
 * cannot start to have ended. One that systemd starts again and again is seen up or down, as it
 * happens; its count of restarts tells.
 */
static const char states_script[] =
        "n=0 same=0 last=\n"
        "while [ -n \"$STAYING\" ] && [ $same -lt 3 ]; do\n"
        "  now=$(systemctl show -p ActiveState,NRestarts -- $STAYING)\n"
        "  case $now in *ActiveState=failed*) break ;; esac\n"
        "  if [ \"$now\" = \"$last\" ]; then same=$((same + 1)); else same=1 last=$now; fi\n"
        "  n=$((n + 1))\n"
        "  if [ $n -gt 30 ]; then echo restless; break; fi\n"
        "  sleep 0.5\n"
        "done\n"
        "exec systemctl show -p ActiveState,SubState,Result,ExecMainStatus,LoadState,NRestarts -- "
        "$UNITS\n";

static int read_done(struct run *run, json_t **ret, struct err *err)
{
	autofree char *names = NULL;
	char *save = NULL;
	int r = step_read(run, "ls " DONE_DIR " 2>/dev/null", NULL, DONE_MAX, &names, err);

	if (r < 0)
		return r;
	*ret = json_array();
	for (char *p = strtok_r(names, "\n", &save); p; p = strtok_r(NULL, "\n", &save))
		json_array_append_new(*ret, json_string(p)); /* a bad name is just not listed */
	return 0;
}

static int write_unit(struct run *run, const json_t *j, bool patch, const json_t *done,
                      struct err *err)
{
	autobuf struct buf b = { 0 };
	char path[SERVICE_NAME_SIZE + 80];
	struct service s;

	service_read(j, &s);
	if (patch)
		unit_patch_text(&s, done, &b);
	else
		unit_text(&s, done, &b);
	if (b.failed)
		return err_set(err, -ENOMEM, "build: out of memory");
	snprintf(path, sizeof(path),
	         patch ? UNIT_DIR "/%s.service.d/50-spec.conf" : UNIT_DIR "/%s.service", s.name);
	record_line(run, "%s %s.service", patch ? "patched" : "wrote", s.name);
	return step_write(run, path, 0644, b.p, b.len, err);
}

static int write_units(struct run *run, const struct spec_layer *l, const json_t *done,
                       struct err *err)
{
	size_t i;
	json_t *j;
	int r;

	json_array_foreach(l->services, i,
	                   j) if ((r = write_unit(run, j, false, done, err)) < 0) return r;
	json_array_foreach(l->patched, i,
	                   j) if ((r = write_unit(run, j, true, done, err)) < 0) return r;
	return 0;
}

enum pick { PICK_STARTED, PICK_ENABLED, PICK_STAYING, PICK_ENABLED_PATCH, PICK_PATCHED, PICK_DONE };

/* "VAR=a.service b.service" of those services that the step is about; caller frees. */
static char *names_of(const struct spec_layer *l, enum pick pick, const char *name)
{
	autobuf struct buf b = { 0 };
	bool patch = pick == PICK_ENABLED_PATCH || pick == PICK_PATCHED;
	size_t i, n = 0;
	json_t *j;

	buf_printf(&b, "%s=", name);
	json_array_foreach(patch ? l->patched : l->services, i, j)
	{
		struct service s;
		bool wanted = false;

		service_read(j, &s);
		switch (pick) {
		case PICK_STARTED:
			wanted = s.enable;
			break;
		case PICK_ENABLED: /* not what is removed as soon as it is done */
			wanted = s.enable && !(s.oneshot && s.delete_after_success);
			break;
		case PICK_STAYING:
			wanted = s.enable && !s.oneshot;
			break;
		case PICK_ENABLED_PATCH:
			wanted = s.enable_given && s.enable;
			break;
		case PICK_PATCHED:
			wanted = true;
			break;
		case PICK_DONE:
			wanted = s.enable && s.oneshot && s.delete_after_success;
			break;
		}
		if (wanted)
			buf_printf(&b, "%s%s.service", n++ ? " " : "", s.name);
	}
	return buf_take_str(&b);
}

static int run_on(struct run *run, const struct spec_layer *l, enum pick pick, const char *script,
                  struct err *err)
{
	autofree char *units = names_of(l, pick, "UNITS");
	int r;

	if (!units)
		return err_set(err, -ENOMEM, "build: out of memory");
	if (!units[strlen("UNITS=")])
		return 0;
	r = step_run(run,
	             &(struct step){ .script = script, .env = (const char *[]){ units, NULL } },
	             err);
	return r < 0 ? r : 0;
}

/* One "Name=value" line of a unit's block, into buf. */
static void prop(const char *block, const char *name, char *buf, size_t size)
{
	size_t n = strlen(name);

	buf[0] = '\0';
	for (const char *p = block; *p; p += strcspn(p, "\n")) {
		p += strspn(p, "\n");
		if (strncmp(p, name, n) == 0 && p[n] == '=') {
			snprintf(buf, size, "%.*s", (int)strcspn(p + n + 1, "\n"), p + n + 1);
			return;
		}
	}
}

/* restless: some service never stayed up; this one is it if it was started again. */
static int judge_unit(struct run *run, const char *unit, const char *line, bool restless,
                      struct err *err)
{
	char active[32], sub[32], result[32], status[16], load[32], restarts[16];

	prop(line, "ActiveState", active, sizeof(active));
	prop(line, "SubState", sub, sizeof(sub));
	prop(line, "Result", result, sizeof(result));
	prop(line, "ExecMainStatus", status, sizeof(status));
	prop(line, "LoadState", load, sizeof(load));
	prop(line, "NRestarts", restarts, sizeof(restarts));
	record_line(run, "%s is %s (%s)", unit, active, sub);
	if (strcmp(active, "failed") != 0 && strcmp(sub, "auto-restart") != 0 &&
	    strcmp(load, "loaded") == 0) {
		if (!restless || !strcmp(restarts, "0"))
			return 0;
		run->setup_failed = true;
		return err_set(err, -EIO,
		               "service '%s' does not stay up: restarted %s times, status %s", unit,
		               restarts, status);
	}
	run->setup_failed = true;
	return err_set(err, -EIO, "service '%s' failed: %s (%s), result %s, status %s", unit,
	               active, strcmp(load, "loaded") == 0 ? sub : load, result, status);
}

static int judge(struct run *run, const struct spec_layer *l, struct err *err)
{
	autofree char *units = names_of(l, PICK_STARTED, "UNITS");
	autofree char *staying = names_of(l, PICK_STAYING, "STAYING");
	autofree char *states = NULL;
	char *unit_save = NULL, *block;
	bool restless;
	int r;

	if (!units || !staying)
		return err_set(err, -ENOMEM, "build: out of memory");
	r = step_read(run, states_script, (const char *[]){ units, staying, NULL }, STATES_MAX,
	              &states, err);
	if (r < 0)
		return r;
	restless = strncmp(states, RESTLESS, strlen(RESTLESS)) == 0;
	block = restless ? states + strlen(RESTLESS) : states;
	for (char *u = strtok_r(units + strlen("UNITS="), " ", &unit_save); u;
	     u = strtok_r(NULL, " ", &unit_save)) {
		char *end = strstr(block, "\n\n"); /* blocks come in the order of the names */

		if (end)
			*end = '\0';
		if ((r = judge_unit(run, u, block, restless, err)) < 0)
			return r;
		block = end ? end + 2 : block + strlen(block);
	}
	return 0;
}

/* Units that did their work go, with every mention of them. */
static int remove_done(struct run *run, const struct spec_layer *l, struct err *err)
{
	autofree char *units = names_of(l, PICK_DONE, "UNITS");
	autojson json_t *done = NULL;
	size_t i;
	json_t *j;
	int r;

	if (!units)
		return err_set(err, -ENOMEM, "build: out of memory");
	if (!units[strlen("UNITS=")])
		return 0;
	if ((r = run_on(run, l, PICK_DONE,
	                "set -e\n"
	                "mkdir -p " DONE_DIR "\n"
	                "for u in $UNITS; do rm -f " UNIT_DIR "/\"$u\"; : >" DONE_DIR
	                "/\"$u\"; done\n",
	                err)) < 0 ||
	    (r = read_done(run, &done, err)) < 0)
		return r;
	json_array_foreach(l->services, i, j)
	{
		struct service s;

		service_read(j, &s);
		if (s.enable && s.oneshot && s.delete_after_success)
			continue;
		if ((r = write_unit(run, j, false, done, err)) < 0)
			return r;
	}
	r = step_run(run, &(struct step){ .script = "systemctl daemon-reload" }, err);
	return r < 0 ? r : 0;
}

/* enable reads all units again by itself; a reload more would cost seconds on an emulated CPU */
static int load_units(struct run *run, const struct spec_layer *l, struct err *err)
{
	autofree char *units = names_of(l, PICK_ENABLED, "UNITS");
	int r;

	if (!units)
		return err_set(err, -ENOMEM, "build: out of memory");
	r = step_run(run,
	             &(struct step){ .script = "[ -n \"$UNITS\" ] || exec systemctl daemon-reload\n"
	                                       "exec systemctl enable -q -- $UNITS\n",
	                             .env = (const char *[]){ units, NULL } },
	             err);
	return r < 0 ? r : 0;
}

int apply_units(struct run *run, const struct spec_layer *l, struct err *err)
{
	autojson json_t *done = NULL;
	struct err started = { 0 };
	int r, start;

	snprintf(run->step, sizeof(run->step), "services");
	if ((r = read_done(run, &done, err)) < 0 || (r = write_units(run, l, done, err)) < 0 ||
	    (r = load_units(run, l, err)) < 0 ||
	    (r = run_on(run, l, PICK_PATCHED, "systemctl try-restart -- $UNITS", err)) < 0 ||
	    (r = run_on(run, l, PICK_ENABLED_PATCH, "systemctl enable --now -- $UNITS", err)) < 0)
		return r;
	start = run_on(run, l, PICK_STARTED, start_script, &started);
	if (start < 0 && start != -EIO) {
		*err = started;
		return start;
	}
	/* The failed units say more than systemctl's status. */
	if ((r = judge(run, l, err)) < 0)
		return r;
	if (start < 0) {
		*err = started;
		return start;
	}
	return remove_done(run, l, err);
}
