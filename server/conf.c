/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.c - the settings, listed once
 *
 * Each entry of settings[] is a name that works in the environment and in pando.conf
 * (PANDO_DATA_DIR=/srv/pando) and, in lower case without its prefix, on the command
 * line (--data-dir /srv/pando). Later sources win: defaults, pando.conf,
 * environment, command line. Which file is read is decided first, from the
 * command line and the environment. A value that is not allowed is an error that says
 * where it stands and what would be right; nothing is ignored silently.
 */
#include "conf.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "conf_internal.h"

#define CONF_FILE_MAX (64u << 10) /* bytes of pando.conf: a few dozen lines */
#define CONF_NAME_MAX 40          /* bytes of a setting's name */

#define MEMBER(m) offsetof(struct conf, m), sizeof(((struct conf *)0)->m)
/* clang-format off */
static const struct setting settings[] = {
	{ "PANDO_DATA_DIR", SET_TEXT, MEMBER(data_dir), check_path, "/var/lib/pando", NULL, 0, 0,
	  "Directory of persistent data: database, layers, keys" },
	{ "PANDO_CACHE_DIR", SET_TEXT, MEMBER(cache_dir), check_path, "/var/cache/pando", NULL, 0, 0,
	  "Directory of built images; can be deleted at any time" },
	{ "PANDO_IMAGE", SET_TEXT, MEMBER(image_dir), check_opt_path, "", NULL, 0, 0,
	  "Directory with vmlinux, initrd and rootfs.raw; empty: the image built into the cache" },
	{ "PANDO_LISTEN", SET_TEXT, MEMBER(listen), check_listen, "127.0.0.1:8787", NULL, 0, 0,
	  "Address of the API; port 0 takes a free one" },
	{ "PANDO_SSH_LISTEN", SET_TEXT, MEMBER(ssh_listen), check_listen_or_none, "127.0.0.1:2222", NULL, 0, 0,
	  "Address of the SSH server; port 0 takes a free one; none: no SSH" },
	{ "PANDO_DOMAIN", SET_TEXT, MEMBER(domain), check_domain, "pando.localhost", NULL, 0, 0,
	  "Base domain; VMs are reachable below it" },
	{ "PANDO_ACCEL", SET_TEXT, MEMBER(accel), check_word, "auto", "auto kvm tcg", 0, 0,
	  "How guests run: kvm (hardware), tcg (software, not a security boundary), auto (try kvm)" },
	{ "PANDO_KVM_PROBE_S", SET_U32, MEMBER(kvm_probe_s), check_u32, "12", NULL, 1, 600,
	  "Seconds for a test guest to boot on KVM; raise it where KVM works but is slow (nested)" },
	{ "PANDO_QEMU", SET_TEXT, MEMBER(qemu), check_path, "/usr/bin/qemu-system-x86_64", NULL, 0, 0,
	  "The QEMU program" },
	{ "PANDO_RESOLVER", SET_TEXT, MEMBER(resolver), check_addr, "", NULL, 0, 0,
	  "Name server for guests' DNS queries and for verifying domains; empty: the host's" },
	{ "PANDO_EGRESS_CA", SET_TEXT, MEMBER(egress_ca), check_opt_path, "", NULL, 0, 0,
	  "File of CA certificates to verify servers with where headers are injected; empty: the system's" },
	{ "PANDO_WG_HOST", SET_TEXT, MEMBER(wg_host), check_opt_host, "", NULL, 0, 0,
	  "Name or address at which WireGuard clients reach this host; empty: the address of its default route" },
	{ "PANDO_WG_PORT", SET_U32, MEMBER(wg_port), check_u32, "51820", NULL, 1024, 64000,
	  "First UDP port of WireGuard; each VPC with a tunnel takes the next free one" },
	{ "PANDO_WG_SESSION_S", SET_U32, MEMBER(wg_session_s), check_u32, "43200", NULL, 1, 31536000,
	  "Seconds after which a WireGuard session ends if it is not closed" },
	{ "PANDO_LOG", SET_TEXT, MEMBER(log_level), check_word, "info", "debug info warn error", 0, 0,
	  "Minimum level to log" },
	{ "PANDO_LOG_FILE", SET_TEXT, MEMBER(log_file), check_opt_path, "", NULL, 0, 0,
	  "File to log to; empty: standard error, which is the journal under systemd" },
	{ "PANDO_LOG_FILE_MB", SET_U32, MEMBER(log_file_mb), check_u32, "64", NULL, 1, 1048576,
	  "MiB after which the log file is renamed to .1, in place of an older one, and a new one begins" },
	{ "PANDO_VM_VCPUS", SET_U32, MEMBER(vcpus), check_pow2, NULL, NULL, 1, 8,
	  "Default vCPUs of a VM" },
	{ "PANDO_VM_MEM_MB", SET_U32, MEMBER(mem_mb), check_pow2, NULL, NULL, 512, 8192,
	  "Default memory of a VM in MiB" },
	{ "PANDO_VM_DISK_GB", SET_U32, MEMBER(disk_gb), check_u32, "20", NULL, 1, 2048,
	  "Default root disk of a VM in GiB" },
	{ "PANDO_POOL", SET_U32, MEMBER(pool), check_u32, "2", NULL, 0, 16,
	  "VMs to keep ready, so that create only hands one over; 0: none, not even of busy snapshots" },
	{ "PANDO_POOL_MEM_MB", SET_U32, MEMBER(pool_mem_mb), check_u32, "512", NULL, 0, 262144,
	  "Total memory that ready VMs may take, in MiB" },
	{ "PANDO_BLANKS", SET_U32, MEMBER(blanks), check_u32, "10", NULL, 0, 16,
	  "QEMU processes started ahead of need, for resume, fork and create" },
	{ "PANDO_QUOTA_VMS", SET_U32, MEMBER(quota_vms), check_u32, "0", NULL, 0, 1000000,
	  "VMs of an account without its own limit; 0: no limit. The operator's account has none" },
	{ "PANDO_QUOTA_RUNNING", SET_U32, MEMBER(quota_running), check_u32, "0", NULL, 0, 1000000,
	  "Likewise: VMs running at the same time" },
	{ "PANDO_QUOTA_VCPUS", SET_U32, MEMBER(quota_vcpus), check_u32, "0", NULL, 0, 1000000,
	  "Likewise: total vCPUs of running VMs" },
	{ "PANDO_QUOTA_MEM_MB", SET_U32, MEMBER(quota_mem_mb), check_u32, "0", NULL, 0, UINT32_MAX,
	  "Likewise: total memory of running VMs in MiB" },
	{ "PANDO_QUOTA_DISK_GB", SET_U32, MEMBER(quota_disk_gb), check_u32, "0", NULL, 0, UINT32_MAX,
	  "Likewise: total size of all root disks in GiB" },
	{ "PANDO_QUOTA_SNAPSHOTS", SET_U32, MEMBER(quota_snapshots), check_u32, "0", NULL, 0, 1000000,
	  "Likewise: snapshots" },
	{ "PANDO_AUDIT_DAYS", SET_U32, MEMBER(audit_days), check_u32, "365", NULL, 0, 36500,
	  "Days to keep audit records; 0: forever" },
	{ "PANDO_PARSE_MB", SET_U32, MEMBER(parse_mb), check_u32, "1536", NULL, 16, 1048576,
	  "MiB of memory for JSON bodies of requests, of all accounts together; one account gets at most three quarters" },
	{ "PANDO_OUTPUT_MB", SET_U32, MEMBER(output_mb), check_u32, "1024", NULL, 16, 1048576,
	  "MiB of memory for output of commands and replies on their way, of all accounts together; one account gets at most three quarters" },
	{ "PANDO_API_STRANGERS", SET_TEXT, MEMBER(strangers), check_strangers, "64:30:128", NULL, 0, 0,
	  "Connections to the API that have shown no key: from START on a newcomer replaces an old one with RATE percent, always at FULL" },
	{ "PANDO_API_STRANGERS_EACH", SET_U32, MEMBER(strangers_each), check_u32, "32", NULL, 1, 4096,
	  "The same from one address, but for this host and PANDO_PROXIES" },
	{ "PANDO_PROXIES", SET_TEXT, MEMBER(proxies), check_nets, "", NULL, 0, 0,
	  "Addresses or networks of reverse proxies in front of the API, separated by spaces; their X-Forwarded-For is believed" },
	{ "PANDO_RATE_KEY", SET_U32, MEMBER(rate_key), check_u32, "500", NULL, 0, 1000000,
	  "Requests a second of one key or token, and ten times as many at once; 0: no limit" },
	{ "PANDO_RATE_ADDRESS", SET_U32, MEMBER(rate_address), check_u32, "100", NULL, 0, 1000000,
	  "Requests a second without a key from one address, and ten times as many at once; 0: no limit" },
	{ "PANDO_CORS_ORIGINS", SET_TEXT, MEMBER(cors_origins), check_origins, "*", NULL, 0, 0,
	  "Web pages that may use the API from a browser: * (any; they still need a key or token), none, or origins separated by spaces" },
	{ "PANDO_BUILD_TIMEOUT_S", SET_U32, MEMBER(build_timeout_s), check_u32, "1800", NULL, 10, 86400,
	  "Seconds for building the layers of one spec" },
	{ "PANDO_SPEC_CACHE_MAX", SET_U32, MEMBER(spec_cache_max), check_u32, "64", NULL, 1, 100000,
	  "Number of built spec layers to keep; the least recently used are dropped first" },
	{ "PANDO_BUSY_WAIT_S", SET_U32, MEMBER(busy_wait_s), check_u32, "120", NULL, 1, 600,
	  "Seconds a call waits for another operation on the same VM before it is answered 409" },
	{ "PANDO_DISK_BUDGET_MB", SET_U32, MEMBER(disk_budget_mb), check_u32, "0", NULL, 0, UINT32_MAX,
	  "MiB that layers and points may take before sticky VMs and snapshots are evicted; 0: no limit" },
	{ "PANDO_DISK_FREE_MB", SET_U32, MEMBER(disk_free_mb), check_u32, "1024", NULL, 0, UINT32_MAX,
	  "MiB of the data directory's file system to keep free; below that, the same happens" },
	{ "PANDO_VM_RESERVE_MB", SET_U32, MEMBER(vm_reserve_mb), check_u32, "48", NULL, 1, 262144,
	  "Host memory in MiB that must be available for a new VM; otherwise create and fork fail" },
	{ "PANDO_QUOTA_GIT_REPOS", SET_U32, MEMBER(quota_git_repos), check_u32, "0", NULL, 0, 10000000,
	  "Repositories of an account; 0: no limit. The operator's account has none" },
	{ "PANDO_QUOTA_GIT_MB", SET_U32, MEMBER(quota_git_mb), check_u32, "0", NULL, 0, UINT32_MAX,
	  "Likewise: total MiB of its repositories and their large files" },
	{ "PANDO_GIT_ALLOW_PRIVATE", SET_U32, MEMBER(git_private), check_u32, "0", NULL, 0, 1,
	  "1: repositories may be imported from loopback, private and link-local addresses" },
	{ "PANDO_GIT_SEARCH_S", SET_U32, MEMBER(git_search_s), check_u32, "20", NULL, 1, 600,
	  "Seconds for a search in a repository" },
	{ "PANDO_GIT_SEARCH_MB", SET_U32, MEMBER(git_search_mb), check_u32, "512", NULL, 0, 1048576,
	  "MiB of disk for cached texts of searched repositories; 0: no cache" },
	{ "PANDO_GITHUB_URL", SET_TEXT, MEMBER(github_url), check_server, "https://github.com", NULL, 0, 0,
	  "Server of repositories mirrored by owner and name" },
	{ "PANDO_SYNC_POLL_S", SET_U32, MEMBER(sync_poll_s), check_u32, "300", NULL, 1, 86400,
	  "Seconds between polls of a mirrored repository; pushes here and webhooks from there start a sync at once" },
	{ "PANDO_WEBHOOK_ALLOW_PRIVATE", SET_U32, MEMBER(webhook_private), check_u32, "0", NULL, 0, 1,
	  "1: webhooks may be sent to loopback, private and link-local addresses" },
	{ "PANDO_TRIGGER_TIMEOUT_S", SET_U32, MEMBER(trigger_timeout_s), check_u32, "3600", NULL, 1, 86400,
	  "Seconds for the command of a trigger" },
	{ "PANDO_WEBHOOK_RETRY_S", SET_U32, MEMBER(webhook_retry_s), check_u32, "10", NULL, 1, 3600,
	  "Seconds before a webhook is retried; each of ten retries waits longer, with 10 the last is a day later" },
	{ "PANDO_EDGE_LISTEN", SET_TEXT, MEMBER(edge_listen), check_listen_or_none, "127.0.0.1:8443", NULL, 0, 0,
	  "Address of the edge (public names of VMs), TLS; none: no edge" },
	{ "PANDO_EDGE_HTTP_LISTEN", SET_TEXT, MEMBER(edge_http_listen), check_listen_or_none, "127.0.0.1:8080", NULL, 0, 0,
	  "Address of the edge, plain HTTP; or none" },
	{ "PANDO_DNS_LISTEN", SET_TEXT, MEMBER(dns_listen), check_listen_or_none, "none", NULL, 0, 0,
	  "Address of the name server for verified domains, UDP and TCP; or none" },
	{ "PANDO_DNS_NAME", SET_TEXT, MEMBER(dns_name), check_opt_host, "", NULL, 0, 0,
	  "Name of that name server, for NS and SOA records; empty: ns below the base domain" },
	{ "PANDO_EDGE_WAIT_S", SET_U32, MEMBER(edge_wait_s), check_u32, "60", NULL, 1, 600,
	  "Seconds a request waits for its VM to start and its port to open" },
	{ "PANDO_EDGE_HSTS_S", SET_U32, MEMBER(edge_hsts_s), check_u32, "0", NULL, 0, 63072000,
	  "Seconds for Strict-Transport-Security over TLS; 0: do not send the header" },
	{ "PANDO_ACME_URL", SET_TEXT, MEMBER(acme_url), check_url, "", NULL, 0, 0,
	  "Directory URL of an ACME server for certificates of verified domains; empty: the local CA signs them" },
	{ "PANDO_ACME_EMAIL", SET_TEXT, MEMBER(acme_email), check_email, "", NULL, 0, 0,
	  "Contact for the ACME account" },
	{ "PANDO_ACME_DNS_HOOK", SET_TEXT, MEMBER(acme_dns_hook), check_opt_path, "", NULL, 0, 0,
	  "Program that sets TXT records for wildcard certificates; called like a uacme hook" },
	{ "PANDO_ACME_RENEW_DAYS", SET_U32, MEMBER(acme_renew_days), check_u32, "30", NULL, 1, 1000,
	  "Days before expiry at which ACME certificates are renewed; short-lived ones after two thirds of their lifetime" },
};
/* clang-format on */

static uint32_t pow2_floor(uint64_t n)
{
	uint32_t p = 1;

	while ((uint64_t)p * 2 <= n && p < (1u << 31))
		p *= 2;
	return p;
}

/* What the host carries: half of what a VM may have at most is better than a host that swaps. */
static void set_host_defaults(struct conf *c)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	uint64_t mib = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page >> 20 : 0;

	c->vcpus = pow2_floor((uint64_t)MIN(MAX(cpus, 1), 4));
	c->mem_mb = MIN(MAX(pow2_floor(mib / 8), 512u), 8192u);
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
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (strcmp(settings[i].name, name) == 0)
			return &settings[i];
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
		return parse_u32(value, (uint32_t *)(void *)p);
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
		return err_set(err, -EINVAL, "--%s wants a value", name);
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
		for (size_t k = 0; r == 0 && k < ARRAY_SIZE(settings); k++)
			r = apply_option(c, settings[k].name, argc, argv, &i, err);
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

	for (size_t i = 0; i < n + ARRAY_SIZE(settings); i++) {
		const char *name = i < n ? aliases[i].was : settings[i - n].name;
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
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (settings[i].def)
			apply(c, &settings[i], settings[i].def, "", NULL);
	set_host_defaults(c);
}

int conf_load(struct conf *c, int argc, char **argv, struct err *err)
{
	const char *file = getenv("PANDO_CONF");
	char path[sizeof(c->data_dir) + 16];
	struct conf probe, full;
	int r;

	/* Where is the file? Only the environment and the command line can say. */
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
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		const struct setting *s = &settings[i];
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
