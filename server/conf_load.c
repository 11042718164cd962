/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf_load.c - reads the settings that conf.c lists
 *
 * Later sources win: defaults, pando.conf, environment, command line. Which file is read is decided
 * first, from the command line and the environment. An invalid value is an error that
 * says where it is and what is allowed; nothing is ignored silently.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "conf_internal.h"

#define CONF_FILE_MAX (64u << 10) /* bytes of pando.conf: a few dozen lines */
#define CONF_NAME_MAX 40          /* bytes of a setting's name */

#define QUOTA_VCPUS_PER_CPU 4 /* of the host, for one account */
#define QUOTA_VCPUS_MIN 16    /* so that a small host can still try things */
#define QUOTA_MEM_MIN_MB 4096u
#define AHEAD_MEM_PART 16 /* of the host's memory may be taken ahead of need */
#define AHEAD_MEM_MIN_MB 512u
#define AHEAD_MEM_MAX_MB 8192u

static uint32_t pow2_floor(uint64_t n)
{
	uint32_t p = 1;

	while ((uint64_t)p * 2 <= n && p < (1u << 31))
		p *= 2;
	return p;
}

/* What the host can carry: a smaller VM is better than a host that swaps. */
static void set_host_defaults(struct conf *c)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	uint64_t mib = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page >> 20 : 0;

	c->vcpus = pow2_floor((uint64_t)MIN(MAX(cpus, 1), 4));
	c->mem_mb = MIN(MAX(pow2_floor(mib / 8), 512u), 8192u);
	c->ahead_mem_mb =
	        (uint32_t)MIN(MAX(mib / AHEAD_MEM_PART, AHEAD_MEM_MIN_MB), AHEAD_MEM_MAX_MB);
	/* Of one account: vCPUs share cores, and most of a guest's memory is shared or never used.
	 */
	c->quota_vcpus = (uint32_t)MAX(cpus * QUOTA_VCPUS_PER_CPU, QUOTA_VCPUS_MIN);
	c->quota_mem_mb = (uint32_t)MIN(MAX(mib / 4 * 3, QUOTA_MEM_MIN_MB), UINT32_MAX);
}

/* Former names of settings still work; the present name wins if both are set. */
static const struct {
	const char *was, *is;
} aliases[] = { { "PANDO_SHELLS", "PANDO_BLANKS" } };

static const struct setting *find_setting(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		if (strcmp(aliases[i].was, name) == 0)
			name = aliases[i].is;
	for (size_t i = 0; i < conf_n_settings; i++)
		if (strcmp(conf_settings[i].name, name) == 0)
			return &conf_settings[i];
	return NULL;
}

/* "PANDO_DATA_DIR" -> "data-dir" */
static void option_name(const struct setting *s, char dst[CONF_NAME_MAX])
{
	size_t n = 0;

	for (const char *p = s->name + strlen("PANDO_"); *p && n + 1 < CONF_NAME_MAX; p++)
		dst[n++] = (char)(*p == '_' ? '-' : tolower((unsigned char)*p));
	dst[n] = '\0';
}

/* where: "pando.conf:3: " or "environment: " */
static int apply(struct conf *c, const struct setting *s, const char *value, const char *where,
                 struct err *err)
{
	char allowed[128];
	char *p = (char *)c + s->off;

	for (const char *q = value; *q; q++)
		if (iscntrl((unsigned char)*q))
			return err_set(err, -EINVAL, "%s%s has a control character", where,
			               s->name);
	if (s->check(s, value, allowed, sizeof(allowed)) < 0)
		return err_set(err, -EINVAL, "%s%s='%.80s' is not allowed: it must be %s", where,
		               s->name, value, allowed);
	if (s->type == SET_U32)
		return conf_parse_u32(value, (uint32_t *)(void *)p);
	if (strlen(value) >= s->size)
		return err_set(err, -EINVAL, "%s%s is too long: at most %zu bytes", where, s->name,
		               s->size - 1);
	snprintf(p, s->size, "%s", value);
	return 0;
}

static char *trim(char *s)
{
	char *end;

	while (isspace((unsigned char)*s))
		s++;
	end = s + strlen(s);
	while (end > s && isspace((unsigned char)end[-1]))
		end--;
	*end = '\0';
	return s;
}

static int apply_line(struct conf *c, char *line, const char *where, bool inside_data,
                      struct err *err)
{
	const struct setting *s;
	char *value, *name = trim(line);
	size_t n;

	if (!*name || *name == '#')
		return 0;
	value = strchr(name, '=');
	if (!value)
		return err_set(err, -EINVAL, "%s'%.60s' is not a NAME=value line", where, name);
	*value++ = '\0';
	name = trim(name);
	value = trim(value);
	n = strlen(value);
	if (n >= 2 && value[0] == '"' && value[n - 1] == '"') {
		value[n - 1] = '\0';
		value++;
	}
	s = find_setting(name);
	if (!s)
		return err_set(err, -EINVAL,
		               "%sunknown setting '%.60s': 'pandod --help' lists all settings",
		               where, name);
	if (inside_data && s->off == offsetof(struct conf, data_dir))
		return err_set(err, -EINVAL,
		               "%sthe data directory cannot be moved from inside it: set "
		               "PANDO_DATA_DIR in the environment",
		               where);
	return apply(c, s, value, where, err);
}

static int apply_file(struct conf *c, const char *path, bool named, struct err *err)
{
	autofree char *text = NULL;
	char *save = NULL;
	unsigned line_no = 1;
	int r = io_read_file(AT_FDCWD, path, CONF_FILE_MAX, &text, err);

	if (r == -ENOENT && !named)
		return 0;
	if (r < 0)
		return r;
	for (char *p = text; p; p = save, line_no++) {
		char where[384];

		save = strchr(p, '\n');
		if (save)
			*save++ = '\0';
		snprintf(where, sizeof(where), "%.300s:%u: ", path, line_no);
		if ((r = apply_line(c, p, where, !named, err)) < 0)
			return r;
	}
	return 0;
}

/*
 * One argument. If it is the option `name`: 1 and its value, which may be the
 * next argument (then *i moves on). 0 if it is not; -EINVAL without a value.
 */
static int match_option(const char *name, int argc, char **argv, int *i, const char **ret_value,
                        struct err *err)
{
	const char *a = argv[*i];
	size_t n = strlen(name);

	if (strncmp(a, "--", 2) != 0 || strncmp(a + 2, name, n) != 0)
		return 0;
	if (a[2 + n] == '=') {
		*ret_value = a + 2 + n + 1;
		return 1;
	}
	if (a[2 + n] != '\0')
		return 0;
	if (*i + 1 >= argc)
		return err_set(err, -EINVAL, "--%s needs a value", name);
	*ret_value = argv[++*i];
	return 1;
}

/* 1 if the argument is the option of this setting, by its present or former name. */
static int apply_option(struct conf *c, const char *setting, int argc, char **argv, int *i,
                        struct err *err)
{
	const char *value = NULL;
	char name[CONF_NAME_MAX];
	int r;

	option_name(&(struct setting){ .name = setting }, name);
	r = match_option(name, argc, argv, i, &value, err);
	return r > 0 && (r = apply(c, find_setting(setting), value, "", err)) == 0 ? 1 : r;
}

static int apply_argv(struct conf *c, int argc, char **argv, const char **ret_file, struct err *err)
{
	for (int i = 1; i < argc && argv[i]; i++) {
		int r;

		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			conf_help(stdout);
			return 1;
		}
		if (strcmp(argv[i], "--version") == 0) {
			printf("pandod %s\n", PANDO_VERSION);
			return 1;
		}
		if (strcmp(argv[i], "--self-check") == 0) {
			c->self_check = true;
			continue;
		}
		r = match_option("conf", argc, argv, &i, ret_file, err);
		for (size_t k = 0; r == 0 && k < conf_n_settings; k++)
			r = apply_option(c, conf_settings[k].name, argc, argv, &i, err);
		for (size_t k = 0; r == 0 && k < ARRAY_SIZE(aliases); k++)
			r = apply_option(c, aliases[k].was, argc, argv, &i, err);
		if (r < 0)
			return r;
		if (r == 0)
			return err_set(err, -EINVAL,
			               "unknown option '%.60s': 'pandod --help' lists all options",
			               argv[i]);
	}
	return 0;
}

static int apply_env(struct conf *c, struct err *err)
{
	size_t n = ARRAY_SIZE(aliases);

	for (size_t i = 0; i < n + conf_n_settings; i++) {
		const char *name = i < n ? aliases[i].was : conf_settings[i - n].name;
		const char *v = getenv(name);
		int r;

		if (v && (r = apply(c, find_setting(name), v, "environment: ", err)) < 0)
			return r;
	}
	return 0;
}

static void set_defaults(struct conf *c)
{
	*c = (struct conf){ 0 };
	for (size_t i = 0; i < conf_n_settings; i++)
		if (conf_settings[i].def)
			apply(c, &conf_settings[i], conf_settings[i].def, "", NULL);
	set_host_defaults(c);
}

int conf_load(struct conf *c, int argc, char **argv, struct err *err)
{
	const char *file = getenv("PANDO_CONF");
	char path[sizeof(c->data_dir) + 16];
	struct conf probe, full;
	int r;

	/* The file's place can only come from the environment or the command line. */
	set_defaults(&probe);
	if ((r = apply_env(&probe, err)) < 0 ||
	    (r = apply_argv(&probe, argc, argv, &file, err)) != 0)
		return r;
	snprintf(path, sizeof(path), "%s/pando.conf", probe.data_dir);

	set_defaults(&full);
	if ((r = apply_file(&full, file && *file ? file : path, file && *file, err)) < 0 ||
	    (r = apply_env(&full, err)) < 0 || (r = apply_argv(&full, argc, argv, &file, err)) != 0)
		return r;
	*c = full;
	return 0;
}

void conf_help(FILE *f)
{
	struct conf def;

	set_defaults(&def);
	fprintf(f, "Usage: pandod [--conf FILE] [--SETTING VALUE]... [--self-check] [--version] "
	           "[--help]\n\n"
	           "Settings, from the environment, from pando.conf (NAME=value lines in "
	           "PANDO_CONF or\n<data directory>/pando.conf) and from the command line; later "
	           "ones win:\n\n");
	for (size_t i = 0; i < conf_n_settings; i++) {
		const struct setting *s = &conf_settings[i];
		const char *p = (const char *)&def + s->off;
		char name[CONF_NAME_MAX];

		option_name(s, name);
		fprintf(f, "  %s, --%s\n      %s\n", s->name, name, s->help);
		if (s->type == SET_U32)
			fprintf(f, "      default: %" PRIu32 "\n",
			        *(const uint32_t *)(const void *)p);
		else
			fprintf(f, "      default: %s\n", *p ? p : "(empty)");
	}
	fprintf(f, "\n  --self-check  once ready, create a VM, use it and delete it; exit if that "
	           "fails\n");
}
