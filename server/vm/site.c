/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site.c - what guests are told of the site they run at: its authorities, its proxy, its mirrors
 *
 * The operator's settings (PANDO_GUEST_*) become one set with a stamp, a hash of all of it. A guest
 * that comes up is asked for the stamp it has: mostly it is the same, and that is all. Otherwise
 * the agent keeps the variables (agent/environ.c), authorities are trusted as this server's own is
 * (agent/trust.c), and a script writes what apt, npm and pip read, the stamp last. So a snapshot of
 * one site is right at another, and settings that are gone are taken out of guests again, as long
 * as the data directory says that there were any (SITE_MARK).
 *
 * The proxy that guests are told of is their gateway (net/gate_site.c), as it is for mirrors, which
 * may have private addresses.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/io.h"
#include "net/gate.h"
#include "vm/vm_internal.h"
#include "wire/agent.h"

#define SITE_CAS_MAX 8
#define CA_FILE_MAX (128u << 10)
#define GATEWAY "http://10.0.0.1:3128" /* PRIV_SITE_PORT */
#define SITE_MARK "guest-site"         /* a file: guests were given settings once */
#define BEGIN "-----BEGIN CERTIFICATE-----\n"
#define END "-----END CERTIFICATE-----\n"
_Static_assert(PRIV_SITE_PORT == 3128, "GATEWAY has another");

enum { V_PROXY, V_NO_PROXY, V_APT, V_APT_SECURITY, V_APT_HOST, V_NPM, V_PIP, V_STAMP, V_N };
static const char *const var_names[V_N] = { "PANDO_PROXY",        "PANDO_NO_PROXY", "PANDO_APT",
	                                    "PANDO_APT_SECURITY", "PANDO_APT_HOST", "PANDO_NPM",
	                                    "PANDO_PIP",          "PANDO_STAMP" };

struct site {
	char *ca_file;    /* owned; NULL: none */
	struct stat seen; /* the file, when it was read */
	char *pem[SITE_CAS_MAX];
	char hash[SITE_CAS_MAX][9];
	size_t n_cas;
	char *text[V_N]; /* values, all but the stamp; owned */
	char stamp[33];  /* "": there are no settings, and there were some */
};

/* A guest's part of it, copied while the lock is held. */
struct told {
	char *var[V_N + 1]; /* owned */
	char *env[GUEST_SITE_ENV_MAX + 1];
	char *pem[SITE_CAS_MAX];
	char hash[SITE_CAS_MAX][9];
	char stamp[33];
};

static const char script[] =
        "set -e\n"
        "g=" GATEWAY "\n"
        "mkdir -p /etc/pando\n"
        "f=/etc/apt/apt.conf.d/95pando-site\n"
        "if [ ! -d /etc/apt/apt.conf.d ]; then :\n"
        "elif [ -n \"$PANDO_PROXY\" ]; then\n"
        "  printf 'Acquire::http::Proxy \"%s\";\\nAcquire::https::Proxy \"%s\";\\n' $g $g >$f\n"
        "elif [ -n \"$PANDO_APT\" ]; then\n"
        "  for h in $PANDO_APT_HOST; do\n"
        "    printf 'Acquire::http::Proxy::%s \"%s\";\\nAcquire::https::Proxy::%s \"%s\";\\n' $h "
        "$g $h $g\n"
        "  done >$f\n"
        "else rm -f $f; fi\n"
        "s=/etc/apt/sources.list.d/debian.sources\n"
        "o=/usr/lib/pando/debian.sources\n"
        "if [ -f $o ] && [ -n \"$PANDO_APT\" ]; then\n"
        "  awk -v a=\"$PANDO_APT\" -v b=\"$PANDO_APT_SECURITY\" '/^URIs:/ { n++; if (n == 1) $0 = "
        "\"URIs: \" a; "
        "else if (b != \"\") $0 = \"URIs: \" b } { print }' $o >$s\n"
        "elif [ -f $o ] && [ -f /etc/pando/site ]; then cp $o $s; fi\n"
        "f=/etc/npmrc\n"
        "[ ! -f $f ] || sed -i '/^# pando-site begin$/,/^# pando-site end$/d' $f\n"
        "if [ -n \"$PANDO_PROXY$PANDO_NPM\" ]; then\n"
        "  { echo '# pando-site begin'; echo proxy=$g; echo https-proxy=$g\n"
        "    [ -z \"$PANDO_NO_PROXY\" ] || echo \"noproxy=$PANDO_NO_PROXY\"\n"
        "    [ -z \"$PANDO_NPM\" ] || echo \"registry=$PANDO_NPM\"\n"
        "    echo '# pando-site end'; } >>$f\n"
        "fi\n"
        "f=/etc/xdg/pip/pip.conf\n"
        "if [ -n \"$PANDO_PROXY$PANDO_PIP\" ]; then\n"
        "  mkdir -p /etc/xdg/pip\n"
        "  { echo '[global]'; echo proxy = $g\n"
        "    [ -z \"$PANDO_PIP\" ] || echo \"index-url = $PANDO_PIP\"\n"
        "    h=${PANDO_PIP#http://}\n"
        "    [ \"$h\" = \"$PANDO_PIP\" ] || echo \"trusted-host = ${h%%/*}\"; } >$f\n"
        "else rm -f $f; fi\n"
        "if [ -d /run/systemd/system ]; then\n"
        "  v='http_proxy https_proxy HTTP_PROXY HTTPS_PROXY no_proxy NO_PROXY NODE_USE_ENV_PROXY'\n"
        "  if [ -n \"$PANDO_PROXY\" ]; then systemctl import-environment $v; else systemctl "
        "unset-environment $v; fi\n"
        "fi\n"
        "if [ -n \"$PANDO_STAMP\" ]; then echo \"$PANDO_STAMP\" >/etc/pando/site; else rm -f "
        "/etc/pando/site; fi\n";

static void told_done(struct told *t)
{
	for (size_t i = 0; i < V_N; i++)
		free(t->var[i]);
	for (size_t i = 0; i < GUEST_SITE_ENV_MAX; i++)
		free(t->env[i]);
	for (size_t i = 0; i < SITE_CAS_MAX; i++)
		free(t->pem[i]);
}

static void cas_drop(struct site *s)
{
	while (s->n_cas)
		free(s->pem[--s->n_cas]);
}

void site_free(struct site *s)
{
	if (!s)
		return;
	cas_drop(s);
	for (size_t i = 0; i < V_N; i++)
		free(s->text[i]);
	free(s->ca_file);
	free(s);
}

/* ---- the set ---- */

static int make_stamp(struct site *s, struct err *err)
{
	autobuf struct buf b = { 0 };
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	bool any = s->n_cas > 0;

	for (size_t i = 0; i < V_STAMP; i++) {
		buf_printf(&b, "%s=%s\n", var_names[i], s->text[i]);
		any |= i != V_NO_PROXY && *s->text[i];
	}
	for (size_t i = 0; i < s->n_cas; i++)
		buf_printf(&b, "%s", s->pem[i]);
	s->stamp[0] = '\0';
	if (b.failed || EVP_Digest(b.p, b.len, sum, &n, EVP_sha256(), NULL) != 1)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; any && i < 16; i++)
		snprintf(s->stamp + 2 * i, 3, "%02x", sum[i]);
	return 0;
}

static void drop_crs(char *text)
{
	char *out = text;

	for (const char *p = text; *p; p++)
		if (*p != '\r')
			*out++ = *p;
	*out = '\0';
}

/* The certificates of a file, and nothing that is between them. */
static int read_cas(struct site *s, struct err *err)
{
	autofree char *text = NULL;
	struct stat st;
	int r;

	if (stat(s->ca_file, &st) < 0)
		return err_sys(err, -errno, "PANDO_GUEST_CA: read '%s'", s->ca_file);
	s->seen = st;
	if ((r = io_read_file(AT_FDCWD, s->ca_file, CA_FILE_MAX, &text, NULL)) < 0)
		return err_sys(err, r, "PANDO_GUEST_CA: read '%s'", s->ca_file);
	drop_crs(text);
	for (char *at = strstr(text, BEGIN); at; at = strstr(at, BEGIN)) {
		char *end = strstr(at, END);

		if (!end || s->n_cas == SITE_CAS_MAX ||
		    end + strlen(END) - at >= (ptrdiff_t)AGENT_CA_MAX)
			return err_set(err, -EINVAL,
			               "PANDO_GUEST_CA: '%s' has more than %d certificates, one "
			               "that is too large, or one without an end",
			               s->ca_file, SITE_CAS_MAX);
		end += strlen(END);
		s->pem[s->n_cas] = strndup(at, (size_t)(end - at));
		if (!s->pem[s->n_cas])
			return err_set(err, -ENOMEM, "out of memory");
		s->n_cas++;
		if ((r = gate_ca_hash(s->pem[s->n_cas - 1], s->hash[s->n_cas - 1], err)) < 0)
			return err_wrap(err, r, "PANDO_GUEST_CA: '%s'", s->ca_file);
		at = end;
	}
	return s->n_cas ? 0
	                : err_set(err, -EINVAL, "PANDO_GUEST_CA: '%s' has no certificate in PEM",
	                          s->ca_file);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Its file has changed: what cannot be read leaves the old ones in place. */
static void refresh(struct vmm *m, struct site *s) REQUIRES(&m->lock)
{
	struct site fresh = { .ca_file = s->ca_file };
	struct err err = { 0 };
	struct stat st;

	if (!s->ca_file || (stat(s->ca_file, &st) == 0 && is_same_file(&st, &s->seen)))
		return;
	if (read_cas(&fresh, &err) < 0) {
		if (!is_same_file(&fresh.seen, &s->seen))
			log_warn("%s; guests trust what it had before", err.msg);
		cas_drop(&fresh);
		s->seen = fresh.seen;
		return;
	}
	cas_drop(s);
	s->seen = fresh.seen;
	s->n_cas = fresh.n_cas;
	memcpy(s->pem, fresh.pem, sizeof(s->pem));
	memcpy(s->hash, fresh.hash, sizeof(s->hash));
	if (make_stamp(s, &err) == 0)
		log_info("PANDO_GUEST_CA: %zu certificates were read again", s->n_cas);
	cond_broadcast(&m->cond); /* this server's own template is another now */
}

/* The hosts of up to two URLs, separated by a space. */
static char *hosts_of(const char *a, const char *b)
{
	const char *urls[] = { a, b };
	autobuf struct buf out = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		const char *p = strstr(urls[i], "://");

		if (p)
			buf_printf(&out, "%s%.*s", out.len ? " " : "", (int)strcspn(p + 3, ":/"),
			           p + 3);
	}
	buf_put(&out, "", 1);
	return out.failed ? NULL : (char *)TAKE_PTR(out.p);
}

/* 1: settings were there once, 0: never. */
static int marked(const struct vmm *m, bool now, struct err *err)
{
	char path[512];
	autofd int fd = -1;

	snprintf(path, sizeof(path), "%s/" SITE_MARK, m->conf.data_dir);
	if (!now)
		return access(path, F_OK) == 0;
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? err_sys(err, -errno, "make '%s'", path) : 1;
}

int vmm_site(struct vmm *m, const struct vm_site *in, struct err *err)
{
	struct site *s = calloc(1, sizeof(*s));
	int r = s ? 0 : err_set(err, -ENOMEM, "out of memory");
	const char *texts[V_STAMP] = {
		in->proxy ? "1" : "", in->no_proxy, in->apt, in->apt_security, "", in->npm, in->pip
	};

	for (size_t i = 0; r == 0 && i < V_STAMP; i++) {
		s->text[i] =
		        i == V_APT_HOST ? hosts_of(in->apt, in->apt_security) : strdup(texts[i]);
		r = s->text[i] ? 0 : err_set(err, -ENOMEM, "out of memory");
	}
	if (r == 0 && *in->ca_file) {
		s->ca_file = strdup(in->ca_file);
		r = s->ca_file ? read_cas(s, err) : err_set(err, -ENOMEM, "out of memory");
	}
	if (r == 0 && (r = make_stamp(s, err)) == 0)
		r = marked(m, *s->stamp, err);
	if (r <= 0) {
		site_free(s);
		return r;
	}
	LOCK_SCOPE(&m->lock);
	m->site = s;
	cond_broadcast(&m->cond);
	return 0;
}

const char *site_stamp(struct vmm *m)
{
	if (m->site)
		refresh(m, m->site);
	return m->site ? m->site->stamp : "-";
}

/* ---- a guest ---- */

static int set_env(struct told *t, const char *no_proxy)
{
	static const char *const proxied[] = { "http_proxy", "https_proxy", "HTTP_PROXY",
		                               "HTTPS_PROXY" };
	static const char *const direct[] = { "no_proxy", "NO_PROXY" };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(proxied); i++, n++)
		if (asprintf(&t->env[n], "%s=" GATEWAY, proxied[i]) < 0)
			return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(direct); i++, n++)
		if (asprintf(&t->env[n], "%s=%s", direct[i], no_proxy) < 0)
			return -ENOMEM;
	t->env[n] = strdup("NODE_USE_ENV_PROXY=1");
	return t->env[n] ? 0 : -ENOMEM;
}

/* 1: it is filled; 0: there is nothing to tell. */
static int tell(struct vm *vm, struct told *t)
{
	struct vmm *m = vm->m;
	struct site *s;
	LOCK_SCOPE(&m->lock);

	s = m->site;
	if (!s || vm->template) /* the template is shared by servers */
		return 0;
	refresh(m, s);
	for (size_t i = 0; i < V_N; i++)
		if (asprintf(&t->var[i], "%s=%s", var_names[i],
		             i == V_STAMP ? s->stamp : s->text[i]) < 0) {
			t->var[i] = NULL;
			return -ENOMEM;
		}
	for (size_t i = 0; i < s->n_cas; i++)
		if (!(t->pem[i] = strdup(s->pem[i])))
			return -ENOMEM;
	memcpy(t->hash, s->hash, sizeof(t->hash));
	memcpy(t->stamp, s->stamp, sizeof(t->stamp));
	return *s->text[V_PROXY] && set_env(t, s->text[V_NO_PROXY]) < 0 ? -ENOMEM : 1;
}

/* Those of earlier settings are trusted no more. */
static int give_cas(struct vm *vm, const struct told *t, struct err *err)
{
	for (size_t i = 0; i < SITE_CAS_MAX; i++) {
		char name[] = "pando-site-a";
		struct guest_ca ca = { .name = name,
			               .hash = t->pem[i] ? t->hash[i] : "00000000",
			               .pem = t->pem[i] ? t->pem[i] : "",
			               .domain = "" };
		int r;

		name[sizeof(name) - 2] = (char)('a' + i);
		r = t->pem[i] ? vm_trust_ca(vm, &ca, err)
		              : guest_trust(vm->guest, &ca, deadline_in(vm->m->t.guest_step), NULL);
		if (r < 0 && t->pem[i])
			return r;
	}
	return 0;
}

static int apply(struct vm *vm, const struct told *t, struct err *err)
{
	int r = vm->guest ? guest_set_site(vm->guest, t->stamp, (const char *const *)t->env,
	                                   deadline_in(vm->m->t.guest_step), err)
	                  : err_set(err, -ENOTCONN, "its agent cannot be reached");

	if (r != -ESTALE && r != -EOPNOTSUPP)
		return r;
	*err = (struct err){ 0 };
	r = give_cas(vm, t, err);
	return r < 0 ? r : vm_run_script(vm, script, (const char *const *)t->var, NULL, err);
}

int vm_site_apply(struct vm *vm)
{
	AUTO(told_done) struct told t = { 0 };
	struct err err = { 0 };
	uint64_t t0 = clock_us();
	int r = vm->sited ? 0 : tell(vm, &t);

	if (r == 0)
		return 0;
	vm->sited = true;
	if (r < 0)
		err_set(&err, r, "out of memory");
	else
		r = apply(vm, &t, &err);
	if (r == 0) {
		vm_log(vm, LOG_LV_DEBUG, "has the site's settings after %.1f ms",
		       (double)(clock_us() - t0) / 1e3);
		return 0;
	}
	vm->untold = true;
	vm_log(vm, LOG_LV_WARN, "has not the site's settings (PANDO_GUEST_*): %s", err.msg);
	vm_tell(vm, EVENT_WARN,
	        "proxy, mirrors and certificates of the site are not set in the VM: %s", err.msg);
	return r;
}
