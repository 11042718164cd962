/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.c - the settings, listed once
 *
 * Each entry of settings[] is a name that works in the environment and in pando.conf
 * (PANDO_DATA_DIR=/srv/pando) and, in lower case without its prefix, on the command
 * line (--data-dir /srv/pando). conf_load.c reads them.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/sock.h"
#include "conf_internal.h"

static int check_path(const struct setting *s, const char *v, char *allowed, size_t size)
{
	snprintf(allowed, size, "an absolute path of at most %zu bytes", s->size - 1);
	return v[0] == '/' ? 0 : -EINVAL;
}

static int check_opt_path(const struct setting *s, const char *v, char *allowed, size_t size)
{
	return v[0] ? check_path(s, v, allowed, size) : 0;
}

static int check_listen(const struct setting *s, const char *v, char *allowed, size_t size)
{
	struct sockaddr_storage sa;
	socklen_t len;

	snprintf(allowed, size, "a numeric address and a port, like 127.0.0.1:8787 or [::1]:8787");
	return sock_parse(v, &sa, &len, NULL) < 0 ? -EINVAL : 0;
}

static int check_listen_or_none(const struct setting *s, const char *v, char *allowed, size_t size)
{
	int r = check_listen(s, v, allowed, size);

	if (strcmp(v, "none") == 0)
		return 0;
	snprintf(allowed, size, "a numeric address and a port, like 127.0.0.1:2222, or none");
	return r;
}

static int check_key(const struct setting *s, const char *v, char *allowed, size_t size)
{
	size_t n = strlen(v);

	snprintf(allowed, size, "16 to %zu letters, digits, '-', '_' and '.', or nothing",
	         s->size - 1);
	return n == 0 || (n >= 16 &&
	                  strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                            "0123456789-_.") == n)
	               ? 0
	               : -EINVAL;
}

static int check_url(const struct setting *s, const char *v, char *allowed, size_t size)
{
	snprintf(allowed, size, "an https:// URL, or nothing");
	return !v[0] || strncmp(v, "https://", 8) == 0 ? 0 : -EINVAL;
}

static int check_addresses(const struct setting *s, const char *v, char *allowed, size_t size)
{
	char copy[128], *at = NULL;
	unsigned char addr[16];
	int seen[2] = { 0 };

	snprintf(allowed, size, "an IPv4 address, an IPv6 address, or both separated by a space");
	if (snprintf(copy, sizeof(copy), "%s", v) >= (int)sizeof(copy))
		return -EINVAL;
	for (char *w = strtok_r(copy, " ", &at); w; w = strtok_r(NULL, " ", &at)) {
		int six = strchr(w, ':') != NULL;

		if (inet_pton(six ? AF_INET6 : AF_INET, w, addr) != 1 || seen[six]++)
			return -EINVAL;
	}
	return 0;
}

static int check_server(const struct setting *s, const char *v, char *allowed, size_t size)
{
	size_t n = strlen(v);

	snprintf(allowed, size, "an https:// or http:// URL without a trailing slash");
	return (strncmp(v, "https://", 8) == 0 || strncmp(v, "http://", 7) == 0) && n < s->size &&
	                       v[n - 1] != '/' && !strchr(v, '@') && !strchr(v, ' ')
	               ? 0
	               : -EINVAL;
}

static int check_email(const struct setting *s, const char *v, char *allowed, size_t size)
{
	snprintf(allowed, size, "an e-mail address, or nothing");
	return !v[0] || (v[0] != '-' && strchr(v, '@') && !strchr(v, ' ')) ? 0 : -EINVAL;
}

/* As ports_range_parse() reads it. */
static int check_range(const struct setting *s, const char *v, char *allowed, size_t size)
{
	unsigned a, b;
	char more;

	snprintf(allowed, size, "none, or two ports from 1024 to 65535, like 20000-20999");
	if (strcmp(v, "none") == 0)
		return 0;
	return strspn(v, "0123456789-") == strlen(v) && strlen(v) < s->size &&
	                       sscanf(v, "%5u-%5u%c", &a, &b, &more) == 2 && a >= 1024 &&
	                       b <= 65535 && a <= b && b - a < 10000
	               ? 0
	               : -EINVAL;
}

static int check_addr(const struct setting *s, const char *v, char *allowed, size_t size)
{
	struct in6_addr a;

	snprintf(allowed, size, "a numeric address, like 192.0.2.53, or nothing");
	return !v[0] || inet_pton(AF_INET, v, &a) == 1 || inet_pton(AF_INET6, v, &a) == 1 ? 0
	                                                                                  : -EINVAL;
}

static int check_opt_host(const struct setting *s, const char *v, char *allowed, size_t size)
{
	size_t n = strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-");

	snprintf(allowed, size, "empty, a host name or an IPv4 address");
	return v[n] ? -EINVAL : 0;
}

static int check_domain(const struct setting *s, const char *v, char *allowed, size_t size)
{
	size_t label = 0;

	snprintf(allowed, size, "a domain name in lower case, like pando.example.org");
	for (const char *p = v;; p++) {
		if (*p == '.' || *p == '\0') {
			if (label == 0 || label > 63 || p[-1] == '-')
				return -EINVAL;
			label = 0;
			if (!*p)
				return 0;
		} else if (islower((unsigned char)*p) || isdigit((unsigned char)*p) ||
		           (*p == '-' && label > 0)) {
			label++;
		} else {
			return -EINVAL;
		}
	}
}

/* "git.example.org *.example.net" */
static int check_aliases(const struct setting *s, const char *v, char *allowed, size_t size)
{
	char name[256], unused[128];

	for (const char *p = v + strspn(v, " "); *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " "), skip = n > 2 && strncmp(p, "*.", 2) == 0 ? 2 : 0;

		snprintf(name, sizeof(name), "%.*s", (int)(n - skip), p + skip);
		if (n - skip > 250 || !strchr(name, '.') ||
		    check_domain(s, name, unused, sizeof(unused)) < 0) {
			snprintf(allowed, size,
			         "domain names in lower case, separated by spaces, like "
			         "git.example.org *.example.net");
			return -EINVAL;
		}
		p += n;
	}
	return 0;
}

static int check_word(const struct setting *s, const char *v, char *allowed, size_t size)
{
	size_t n = strlen(v);
	const char *p = s->words;

	snprintf(allowed, size, "one of: %s", s->words);
	while (n && (p = strstr(p, v))) {
		if ((p == s->words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
			return 0;
		p += n;
	}
	return -EINVAL;
}

int conf_parse_u32(const char *v, uint32_t *ret)
{
	char *end;
	unsigned long long n;

	if (!isdigit((unsigned char)v[0]))
		return -EINVAL;
	errno = 0;
	n = strtoull(v, &end, 10);
	if (errno || *end || n > UINT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)n;
	return 0;
}

static int check_u32(const struct setting *s, const char *v, char *allowed, size_t size)
{
	uint32_t n;

	snprintf(allowed, size, "a number from %" PRIu32 " to %" PRIu32, s->min, s->max);
	return conf_parse_u32(v, &n) < 0 || n < s->min || n > s->max ? -EINVAL : 0;
}

static int check_pow2(const struct setting *s, const char *v, char *allowed, size_t size)
{
	uint32_t n;

	snprintf(allowed, size, "a power of two from %" PRIu32 " to %" PRIu32, s->min, s->max);
	return conf_parse_u32(v, &n) < 0 || n < s->min || n > s->max || (n & (n - 1)) ? -EINVAL : 0;
}

/* The next "4x8192" of a list; 0: there is none, or -EINVAL. */
static int next_size(const char **p, uint32_t *ret_vcpus, uint32_t *ret_mem_mb)
{
	char word[24], *x;
	size_t n;

	*p += strspn(*p, " ,");
	if (!**p)
		return 0;
	n = strcspn(*p, " ,");
	if (n >= sizeof(word))
		return -EINVAL;
	memcpy(word, *p, n);
	word[n] = '\0';
	*p += n;
	x = strchr(word, 'x');
	if (!x)
		return -EINVAL;
	*x = '\0';
	if (conf_parse_u32(word, ret_vcpus) < 0 || conf_parse_u32(x + 1, ret_mem_mb) < 0 ||
	    *ret_vcpus < 1 || *ret_vcpus > CONF_VCPUS_MAX || *ret_mem_mb < CONF_MEM_MIN_MB ||
	    *ret_mem_mb > CONF_MEM_MAX_MB || (*ret_vcpus & (*ret_vcpus - 1)) ||
	    (*ret_mem_mb & (*ret_mem_mb - 1)))
		return -EINVAL;
	return 1;
}

int conf_sizes(const struct conf *c, struct conf_size ret[CONF_SIZES_MAX])
{
	const char *p = c->sizes;
	int n = 0;

	if (strcmp(p, "none") == 0)
		return 0;
	while (n < CONF_SIZES_MAX && next_size(&p, &ret[n].vcpus, &ret[n].mem_mb) == 1)
		n++;
	return n;
}

static int check_sizes(const struct setting *s, const char *v, char *allowed, size_t size)
{
	struct conf_size z;
	int r = 1;

	(void)s;
	snprintf(allowed, size,
	         "none, or up to %d sizes like 4x8192: vCPUs from 1 to %u, MiB from %u to %u, "
	         "powers of two",
	         CONF_SIZES_MAX, CONF_VCPUS_MAX, CONF_MEM_MIN_MB, CONF_MEM_MAX_MB);
	if (strcmp(v, "none") == 0)
		return 0;
	for (int n = 0; r == 1; n++) {
		r = next_size(&v, &z.vcpus, &z.mem_mb);
		if (r == 1 && n == CONF_SIZES_MAX)
			return -EINVAL;
	}
	return r;
}

/* start:rate:full, as OpenSSH's MaxStartups */
static int check_strangers(const struct setting *s, const char *v, char *allowed, size_t size)
{
	unsigned start = 0, rate = 0, full = 0;
	int end = 0;

	snprintf(allowed, size, "start:rate:full, like 64:30:128; full from 2 to 4096");
	return sscanf(v, "%4u:%3u:%4u%n", &start, &rate, &full, &end) == 3 && !v[end] &&
	                       rate <= 100 && start <= full && full >= 2 && full <= 4096
	               ? 0
	               : -EINVAL;
}

#define MEMBER(m) offsetof(struct conf, m), sizeof(((struct conf *)0)->m)
/* clang-format off */
static const struct setting settings[] = {
	{ "PANDO_DATA_DIR", SET_TEXT, MEMBER(data_dir), check_path, "/var/lib/pando", NULL, 0, 0,
	  "Directory of persistent data: database, layers, keys" },
	{ "PANDO_CACHE_DIR", SET_TEXT, MEMBER(cache_dir), check_path, "/var/cache/pando", NULL, 0, 0,
	  "Directory of built images; can be deleted at any time" },
	{ "PANDO_IMAGE", SET_TEXT, MEMBER(image_dir), check_opt_path, "", NULL, 0, 0,
	  "Directory with vmlinux, initrd and rootfs.raw; empty: the image built into the cache" },
	{ "PANDO_DATABASE", SET_TEXT, MEMBER(database), check_database, "", NULL, 0, 0,
	  "PostgreSQL database for this machine's state, like postgresql://user:password@host/database; empty: SQLite in the data directory. docs/CLUSTER.md" },
	{ "PANDO_NODE_ADDRESS", SET_TEXT, MEMBER(node_address), conf_check_node_address, "", NULL, 0, 0,
	  "Address and port at which the other machines of PANDO_DATABASE reach this one, like 192.0.2.7:8790; empty: the database is this machine's alone" },
	{ "PANDO_NODE_NAME", SET_TEXT, MEMBER(node_name), conf_check_node_name, "", NULL, 0, 0,
	  "Name of this machine among them; empty: the host's name" },
	{ "PANDO_OBJECTS", SET_TEXT, MEMBER(objects), check_objects, "", NULL, 0, 0,
	  "S3-compatible object storage that layers are uploaded to, like s3://bucket?endpoint=https://s3.example.org&region=us-east-1; empty: layers are in the data directory only. docs/CLUSTER.md" },
	{ "PANDO_OBJECTS_CREDENTIALS", SET_TEXT, MEMBER(objects_credentials), check_opt_path, "", NULL, 0, 0,
	  "File with the lines aws_access_key_id = ... and aws_secret_access_key = ...; empty: PANDO_OBJECTS_KEY and PANDO_OBJECTS_SECRET" },
	{ "PANDO_OBJECTS_KEY", SET_TEXT, MEMBER(objects_key), check_text, "", NULL, 0, 0,
	  "Access key id for the object storage" },
	{ "PANDO_OBJECTS_SECRET", SET_TEXT, MEMBER(objects_secret), check_text, "", NULL, 0, 0,
	  "Secret access key for the object storage; in the environment or the settings file, where others cannot read it" },
	{ "PANDO_OBJECTS_CACHE_MB", SET_U32, MEMBER(objects_cache_mb), check_u32, "0", NULL, 0, 1073741824,
	  "MiB that layers may take in the data directory before stored ones that nothing uses are dropped; 0: no bound" },
	{ "PANDO_OBJECTS_KEEP_S", SET_U32, MEMBER(objects_keep_s), check_u32, "3600", NULL, 0, 31536000,
	  "Seconds that objects of deleted layers stay; longer than the age of the database backups you may restore" },
	{ "PANDO_OBJECTS_TRANSFERS", SET_U32, MEMBER(objects_transfers), check_u32, "8", NULL, 2, 64,
	  "Chunks of 8 MiB transferred at a time; each takes about 16 MiB of memory meanwhile" },
	{ "PANDO_SECRET_KEY", SET_TEXT, MEMBER(secret_key), check_opt_path, "", NULL, 0, 0,
	  "File of the key that secrets in the database are sealed with; empty: systemd's credential pando.secret-key, or secret.key in the data directory" },
	{ "PANDO_LISTEN", SET_TEXT, MEMBER(listen), check_listen, "127.0.0.1:8787", NULL, 0, 0,
	  "Address of the API; port 0 takes a free one" },
	{ "PANDO_SSH_LISTEN", SET_TEXT, MEMBER(ssh_listen), check_listen_or_none, "127.0.0.1:2222", NULL, 0, 0,
	  "Address of the SSH server; port 0 takes a free one; none: no SSH" },
	{ "PANDO_METRICS_KEY", SET_TEXT, MEMBER(metrics_key), check_key, "", NULL, 0, 0,
	  "Key with which GET /metrics can be read and nothing else; empty: only with a key of the operator" },
	{ "PANDO_METRICS_LISTEN", SET_TEXT, MEMBER(metrics_listen), check_listen_or_none, "none", NULL, 0, 0,
	  "Second address for /metrics, /healthz and /readyz, where no key is needed; none: only at the API's" },
	{ "PANDO_DOMAIN", SET_TEXT, MEMBER(domain), check_domain, "pando.localhost", NULL, 0, 0,
	  "Base domain; VMs are reachable below it" },
	{ "PANDO_ACCEL", SET_TEXT, MEMBER(accel), check_word, "auto", "auto kvm tcg", 0, 0,
	  "How guests run: kvm (hardware), tcg (software, not a security boundary), auto (try kvm)" },
	{ "PANDO_KVM_PROBE_S", SET_U32, MEMBER(kvm_probe_s), check_u32, "12", NULL, 1, 600,
	  "Seconds for a test guest to boot on KVM; raise it where KVM works but is slow (nested)" },
	{ "PANDO_BOOT_S", SET_U32, MEMBER(boot_s), check_u32, "300", NULL, 30, 7200,
	  "Seconds for a guest to boot; raise it where this host is itself emulated" },
	{ "PANDO_QEMU", SET_TEXT, MEMBER(qemu), check_path, "/usr/bin/qemu-system-x86_64", NULL, 0, 0,
	  "The QEMU program" },
	{ "PANDO_RESOLVER", SET_TEXT, MEMBER(resolver), check_addr, "", NULL, 0, 0,
	  "Name server for guests' DNS queries and for verifying domains; empty: the host's" },
	{ "PANDO_EGRESS_CA", SET_TEXT, MEMBER(egress_ca), check_opt_path, "", NULL, 0, 0,
	  "File of CA certificates to verify servers with where headers are injected; empty: the system's" },
	{ "PANDO_GUEST_CA", SET_TEXT, MEMBER(guest_ca), check_opt_path, "", NULL, 0, 0,
	  "File of certificates (PEM, at most 8) that guests trust besides the usual ones; read again when it changes" },
	{ "PANDO_GUEST_PROXY", SET_TEXT, MEMBER(guest_proxy), conf_check_proxy, "", NULL, 0, 0,
	  "HTTP proxy of this site for guests, http://user:password@host:port; guests reach it through their gateway and do not see the password" },
	{ "PANDO_GUEST_APT_MIRROR", SET_TEXT, MEMBER(guest_apt), conf_check_mirrors, "", NULL, 1, 2,
	  "Debian mirror that guests use, and after a space that of security updates; empty: those the image was built with" },
	{ "PANDO_GUEST_NPM_REGISTRY", SET_TEXT, MEMBER(guest_npm), conf_check_mirrors, "", NULL, 1, 1,
	  "npm registry that guests use" },
	{ "PANDO_GUEST_PIP_INDEX", SET_TEXT, MEMBER(guest_pip), conf_check_mirrors, "", NULL, 1, 1,
	  "Index of Python packages that guests use" },
	{ "PANDO_WG_HOST", SET_TEXT, MEMBER(wg_host), check_opt_host, "", NULL, 0, 0,
	  "Name or address at which WireGuard clients reach this host; empty: the address of its default route" },
	{ "PANDO_WG_PORT", SET_U32, MEMBER(wg_port), check_u32, "51820", NULL, 1024, 64000,
	  "First UDP port of WireGuard; each VPC with a tunnel takes the next free one" },
	{ "PANDO_WG_SESSION_S", SET_U32, MEMBER(wg_session_s), check_u32, "43200", NULL, 1, 31536000,
	  "Seconds after which a WireGuard session ends if it is not closed" },
	{ "PANDO_LOG", SET_TEXT, MEMBER(log_level), check_word, "info", "debug info warn error", 0, 0,
	  "Minimum level to log" },
	{ "PANDO_WALLS", SET_TEXT, MEMBER(walls), check_word, "on", "off log on", 0, 0,
	  "What the server forbids itself: on (system calls and files), log (writes them to the kernel's log), off" },
	{ "PANDO_LOG_FILE", SET_TEXT, MEMBER(log_file), check_opt_path, "", NULL, 0, 0,
	  "File to log to; empty: standard error, which is the journal under systemd" },
	{ "PANDO_LOG_FILE_MB", SET_U32, MEMBER(log_file_mb), check_u32, "64", NULL, 1, 1048576,
	  "MiB after which the log file is renamed to .1, in place of an older one, and a new one begins" },
	{ "PANDO_VM_VCPUS", SET_U32, MEMBER(vcpus), check_pow2, NULL, NULL, 1, CONF_VCPUS_MAX,
	  "Default vCPUs of a VM" },
	{ "PANDO_VM_MEM_MB", SET_U32, MEMBER(mem_mb), check_pow2, NULL, NULL, CONF_MEM_MIN_MB, CONF_MEM_MAX_MB,
	  "Default memory of a VM in MiB" },
	{ "PANDO_VM_DISK_GB", SET_U32, MEMBER(disk_gb), check_u32, "20", NULL, 1, 2048,
	  "Default root disk of a VM in GiB" },
	{ "PANDO_AHEAD_MEM_MB", SET_U32, MEMBER(ahead_mem_mb), check_u32, NULL, NULL, 0, 262144,
	  "MiB that all that is made ahead of need may take: ready VMs, blank processes, seeds; 0: nothing is" },
	{ "PANDO_POOL", SET_U32, MEMBER(pool), check_u32, "32", NULL, 0, 32,
	  "At most so many VMs of one template or snapshot are kept ready, so that create only hands one over; 0: none" },
	{ "PANDO_POOL_MEM_MB", SET_U32, MEMBER(pool_mem_mb), check_u32, "0", NULL, 0, 262144,
	  "MiB of PANDO_AHEAD_MEM_MB that ready VMs may take at most; 0: all of it" },
	{ "PANDO_SIZES", SET_TEXT, MEMBER(sizes), check_sizes, "1x1024 2x4096 4x8192", NULL, 0, 0,
	  "Other sizes of VMs (vCPUs x MiB, separated by spaces) whose templates are made ahead of need; none: no" },
	{ "PANDO_SIZES_DISK_MB", SET_U32, MEMBER(sizes_disk_mb), check_u32, "4096", NULL, 512, 1048576,
	  "MiB of disk for templates of other sizes; those used longest ago are dropped first" },
	{ "PANDO_BLANKS", SET_U32, MEMBER(blanks), check_u32, "32", NULL, 0, 32,
	  "At most so many QEMU processes of one size are started ahead of need, for resume, fork and create; 0: none" },
	{ "PANDO_SEEDS", SET_U32, MEMBER(seeds), check_u32, "4", NULL, 0, 4,
	  "At most so many sizes have a warm process that their emulated VMs are forked from instead of thawed; 0: none" },
	{ "PANDO_QUOTA_VMS", SET_U32, MEMBER(quota_vms), check_u32, "100", NULL, 0, 1000000,
	  "VMs of an account without its own limit; 0: no limit. The operator's account has none" },
	{ "PANDO_QUOTA_RUNNING", SET_U32, MEMBER(quota_running), check_u32, "50", NULL, 0, 1000000,
	  "Likewise: VMs running at the same time" },
	{ "PANDO_QUOTA_VCPUS", SET_U32, MEMBER(quota_vcpus), check_u32, NULL, NULL, 0, 1000000,
	  "Likewise: total vCPUs of running VMs" },
	{ "PANDO_QUOTA_MEM_MB", SET_U32, MEMBER(quota_mem_mb), check_u32, NULL, NULL, 0, UINT32_MAX,
	  "Likewise: total memory of running VMs in MiB" },
	{ "PANDO_QUOTA_DISK_GB", SET_U32, MEMBER(quota_disk_gb), check_u32, "1000", NULL, 0, UINT32_MAX,
	  "Likewise: total size of all root disks in GiB" },
	{ "PANDO_QUOTA_SNAPSHOTS", SET_U32, MEMBER(quota_snapshots), check_u32, "200", NULL, 0, 1000000,
	  "Likewise: snapshots" },
	{ "PANDO_AUDIT_DAYS", SET_U32, MEMBER(audit_days), check_u32, "365", NULL, 0, 36500,
	  "Days to keep audit records; 0: forever" },
	{ "PANDO_PARSE_MB", SET_U32, MEMBER(parse_mb), check_u32, "1536", NULL, 16, 1048576,
	  "MiB of memory for JSON bodies of requests, of all accounts together; one account gets at most three quarters" },
	{ "PANDO_OUTPUT_MB", SET_U32, MEMBER(output_mb), check_u32, "1024", NULL, 16, 1048576,
	  "MiB of memory for output of commands and replies on their way, of all accounts together; one account gets at most three quarters" },
	{ "PANDO_BACKGROUND", SET_U32, MEMBER(background), check_u32, "256", NULL, 8, 4096,
	  "Requests in the background at a time, of all accounts together; one account gets at most three quarters" },
	{ "PANDO_CREATE_GRACE_S", SET_U32, MEMBER(create_grace_s), check_u32, "120", NULL, 1, 3600,
	  "Seconds that a VM is kept whose client left before the answer; a repeat of the request gets it, otherwise it is deleted" },
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
	{ "PANDO_QUOTA_GIT_REPOS", SET_U32, MEMBER(quota_git_repos), check_u32, "1000", NULL, 0, 10000000,
	  "Repositories of an account; 0: no limit. The operator's account has none" },
	{ "PANDO_QUOTA_GIT_MB", SET_U32, MEMBER(quota_git_mb), check_u32, "20480", NULL, 0, UINT32_MAX,
	  "Likewise: total MiB of its repositories and their large files" },
	{ "PANDO_GIT_ALLOW_PRIVATE", SET_U32, MEMBER(git_private), check_u32, "0", NULL, 0, 1,
	  "1: repositories may be imported from loopback, private and link-local addresses" },
	{ "PANDO_GIT_SEARCH_S", SET_U32, MEMBER(git_search_s), check_u32, "20", NULL, 1, 600,
	  "Seconds for a search in a repository" },
	{ "PANDO_GIT_SEARCH_MB", SET_U32, MEMBER(git_search_mb), check_u32, "512", NULL, 0, 1048576,
	  "MiB of disk for cached texts of searched repositories; 0: no cache" },
	{ "PANDO_GIT_SLOW_S", SET_U32, MEMBER(git_slow_s), check_u32, "60", NULL, 1, 3600,
	  "Seconds of waiting for a client of Git in which it must take 256 KiB; slower ones are cut off" },
	{ "PANDO_GIT_UNJAILED", SET_U32, MEMBER(git_unjailed), check_u32, "0", NULL, 0, 1,
	  "1: where the kernel allows no namespaces, Git's programs run without a jail; else Git is not served there" },
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
	{ "PANDO_ALIAS_NAMES", SET_TEXT, MEMBER(alias_names), check_aliases, "", NULL, 0, 0,
	  "Further names that lead to this server from inside VMs, and only there, separated by spaces: git.example.org *.example.net" },
	{ "PANDO_PORT_RANGE", SET_TEXT, MEMBER(port_range), check_range, "none", NULL, 0, 0,
	  "Ports that can be mapped to ports of VMs, byte for byte: FIRST-LAST, above 1023, at most 10000; none: no such ports" },
	{ "PANDO_PORT_LISTEN", SET_TEXT, MEMBER(port_listen), check_addr, "127.0.0.1", NULL, 0, 0,
	  "Numeric address on which those ports listen" },
	{ "PANDO_PORT_IDLE_S", SET_U32, MEMBER(port_idle_s), check_u32, "3600", NULL, 1, 86400,
	  "Seconds after which a connection to such a port on which nothing moves is cut" },
	{ "PANDO_DEPLOYMENTS", SET_U32, MEMBER(deployments), check_u32, "100", NULL, 0, 100000,
	  "Deployments an account may have; each keeps a snapshot" },
	{ "PANDO_DEPLOY_INSTANCES", SET_U32, MEMBER(deploy_instances), check_u32, "10", NULL, 1, 1000,
	  "VMs that one deployment may have at a time" },
	{ "PANDO_DEPLOY_ACCOUNT_INSTANCES", SET_U32, MEMBER(account_instances), check_u32, "20",
	  NULL, 1, 100000, "VMs that all deployments of an account may have at a time" },
	{ "PANDO_DEPLOY_REQUESTS", SET_U32, MEMBER(deploy_requests), check_u32, "20", NULL, 1, 1000,
	  "Requests that one instance has at a time before another one is started, unless the deployment says" },
	{ "PANDO_DEPLOY_IDLE_S", SET_U32, MEMBER(deploy_idle_s), check_u32, "60", NULL, 1, 3600,
	  "Seconds without a request after which an instance ends, unless the deployment says" },
	{ "PANDO_EDGE_WAIT_S", SET_U32, MEMBER(edge_wait_s), check_u32, "60", NULL, 1, 600,
	  "Seconds a request waits for its VM to start and its port to open" },
	{ "PANDO_EDGE_ANSWER_S", SET_U32, MEMBER(edge_answer_s), check_u32, "600", NULL, 1, 86400,
	  "Seconds for a program in a VM to begin its response; then 504" },
	{ "PANDO_EDGE_STALL_S", SET_U32, MEMBER(edge_stall_s), check_u32, "60", NULL, 1, 3600,
	  "Seconds in which a client must take or send something of what is waiting (1 KiB at least); then it is cut" },
	{ "PANDO_EDGE_IDLE_S", SET_U32, MEMBER(edge_idle_s), check_u32, "3600", NULL, 10, 604800,
	  "Seconds for which nothing may move on a response or a WebSocket; then it is cut" },
	{ "PANDO_EDGE_ADDR_CONNS", SET_U32, MEMBER(edge_addr_conns), check_u32, "1000", NULL, 0, 1048576,
	  "Connections to the edge from one address (IPv6: a /64); 0: no limit, for an edge behind another proxy" },
	{ "PANDO_EDGE_ADDR_REQUESTS", SET_U32, MEMBER(edge_addr_requests), check_u32, "1000", NULL, 0, 1048576,
	  "Likewise: requests that are open at the same time; more are answered 429" },
	{ "PANDO_EDGE_FD_RESERVE", SET_U32, MEMBER(edge_fd_reserve), check_u32, "0", NULL, 0, 1048576,
	  "The limit of descriptors less so many is the limit of the edge's process; 0: a quarter of it" },
	{ "PANDO_EDGE_MEM_MB", SET_U32, MEMBER(edge_mem_mb), check_u32, "2048", NULL, 0, 1048576,
	  "MiB of memory that the edge's process may have; 0: no limit. Beyond it connections are refused" },
	{ "PANDO_EDGE_HSTS_S", SET_U32, MEMBER(edge_hsts_s), check_u32, "0", NULL, 0, 63072000,
	  "Seconds for Strict-Transport-Security over TLS; 0: do not send the header" },
	{ "PANDO_PUBLIC_ADDRESS", SET_TEXT, MEMBER(public_address), check_addresses, "", NULL, 0, 0,
	  "IPv4 and IPv6 address at which the world reaches the edge, separated by a space; empty: the address the edge listens on, or that of the default route" },
	{ "PANDO_TLS_CERT", SET_TEXT, MEMBER(tls_cert), check_opt_path, "", NULL, 0, 0,
	  "File of a certificate with its chain (PEM), used for the names it is valid for; read again when it changes" },
	{ "PANDO_TLS_KEY", SET_TEXT, MEMBER(tls_key), check_opt_path, "", NULL, 0, 0,
	  "File of that certificate's private key (PEM)" },
	{ "PANDO_ACME_URL", SET_TEXT, MEMBER(acme_url), check_url, "", NULL, 0, 0,
	  "Directory URL of an ACME server for certificates of the base domain and of verified domains; empty: the local CA signs them" },
	{ "PANDO_ACME_EMAIL", SET_TEXT, MEMBER(acme_email), check_email, "", NULL, 0, 0,
	  "Contact for the ACME account" },
	{ "PANDO_ACME_DNS_HOOK", SET_TEXT, MEMBER(acme_dns_hook), check_opt_path, "", NULL, 0, 0,
	  "Program that sets TXT records for wildcard certificates; called like a uacme hook" },
	{ "PANDO_ACME_RENEW_DAYS", SET_U32, MEMBER(acme_renew_days), check_u32, "30", NULL, 1, 1000,
	  "Days before expiry at which ACME certificates are renewed; short-lived ones after two thirds of their lifetime" },
};
/* clang-format on */

const struct setting *const conf_settings = settings;
const size_t conf_n_settings = ARRAY_SIZE(settings);
