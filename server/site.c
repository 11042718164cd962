/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site.c - PANDO_GUEST_*: what guests get of the site this server runs at
 *
 * Hosts and ports go to the gates, which connect to them; guests (vm/site.c) are told URLs of
 * mirrors, and that there is a proxy, but neither its name nor its password.
 */
#include "site.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "conf.h"
#include "net/gate.h"
#include "vm/vm.h"

/* "http://user:password@host:8080/path": p is behind the user, if there is one. */
static int read_host(const char *setting, const char *p, uint16_t port, struct gate_host *ret,
                     struct err *err)
{
	size_t n = strcspn(p, ":/ ");
	char *end = NULL;
	unsigned long k = port;

	if (p[n] == ':')
		k = strtoul(p + n + 1, &end, 10);
	if (!n || n >= sizeof(ret->name) || k == 0 || k > 65535 ||
	    (end && *end && *end != '/' && *end != ' '))
		return err_set(err, -EINVAL, "%s: it names no host and port", setting);
	snprintf(ret->name, sizeof(ret->name), "%.*s", (int)n, p);
	for (char *s = ret->name; *s; s++)
		*s = (char)tolower((unsigned char)*s);
	ret->port = (uint16_t)k;
	return 0;
}

static int hex(char c)
{
	return isdigit((unsigned char)c)    ? c - '0'
	       : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10
	                                    : -1;
}

/* "user:pass%21word" as a header's value */
static int read_auth(const char *p, size_t n, struct gate_site *ret, struct err *err)
{
	unsigned char plain[256];
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		int hi = p[i] == '%' && i + 2 < n ? hex(p[i + 1]) : -1;
		int lo = hi >= 0 ? hex(p[i + 2]) : -1;

		if (len == sizeof(plain))
			return err_set(err, -EINVAL,
			               "PANDO_GUEST_PROXY: user and password have more than %zu "
			               "characters",
			               sizeof(plain));
		plain[len++] = (unsigned char)(lo >= 0 ? hi * 16 + lo : p[i]);
		i += lo >= 0 ? 2 : 0;
	}
	n = (size_t)snprintf(ret->auth, sizeof(ret->auth), "Basic ");
	EVP_EncodeBlock((unsigned char *)ret->auth + n, plain, (int)len);
	explicit_bzero(plain, sizeof(plain));
	return 0;
}

static int read_proxy(const char *url, struct gate_site *ret, struct err *err)
{
	const char *p, *at;
	int r;

	if (!*url)
		return 0;
	p = url + strlen("http://");
	at = strrchr(p, '@');
	if (at && (r = read_auth(p, (size_t)(at - p), ret, err)) < 0)
		return r;
	return read_host("PANDO_GUEST_PROXY", at ? at + 1 : p, 80, &ret->proxy, err);
}

static int read_mirrors(const char *setting, const char *urls, struct gate_site *ret,
                        struct err *err)
{
	int r = 0;

	for (const char *p = urls + strspn(urls, " "); r == 0 && *p; p += strspn(p, " ")) {
		bool tls = strncmp(p, "https", 5) == 0;

		if (ret->n_mirrors == GATE_MIRRORS_MAX)
			return err_set(err, -E2BIG, "%s: too many mirrors", setting);
		r = read_host(setting, strstr(p, "://") + 3, tls ? 443 : 80,
		              &ret->mirrors[ret->n_mirrors++], err);
		p += strcspn(p, " ");
	}
	return r;
}

/* Names of this server are not the proxy's: they lead to the gateway. */
static char *no_proxy(const struct conf *c)
{
	autobuf struct buf b = { 0 };

	buf_printf(&b, "localhost,127.0.0.1,::1,10.0.0.1,.internal,%s,.%s", c->domain, c->domain);
	for (const char *p = c->alias_names + strspn(c->alias_names, " "); *p;
	     p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");

		buf_printf(&b, ",%.*s", (int)(n - (*p == '*')), p + (*p == '*'));
		p += n;
	}
	buf_put(&b, "", 1);
	return b.failed ? NULL : (char *)TAKE_PTR(b.p);
}

int site_start(const struct conf *c, struct gates *g, struct vmm *m, struct err *err)
{
	autofree char *direct = no_proxy(c);
	struct gate_site s = { 0 };
	struct vm_site v = { .ca_file = c->guest_ca, .npm = c->guest_npm, .pip = c->guest_pip };
	char apt[sizeof(c->guest_apt)];
	char *second;
	int r;

	if (!direct)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = read_proxy(c->guest_proxy, &s, err)) < 0 ||
	    (r = read_mirrors("PANDO_GUEST_APT_MIRROR", c->guest_apt, &s, err)) < 0 ||
	    (r = read_mirrors("PANDO_GUEST_NPM_REGISTRY", c->guest_npm, &s, err)) < 0 ||
	    (r = read_mirrors("PANDO_GUEST_PIP_INDEX", c->guest_pip, &s, err)) < 0)
		return r;
	snprintf(apt, sizeof(apt), "%s", c->guest_apt + strspn(c->guest_apt, " "));
	second = apt + strcspn(apt, " ");
	if (*second)
		*second++ = '\0';
	second += strspn(second, " ");
	second[strcspn(second, " ")] = '\0';
	v.apt = apt;
	v.apt_security = second;
	v.proxy = *s.proxy.name != '\0';
	v.no_proxy = v.proxy ? direct : "";
	gates_set_site(g, &s);
	explicit_bzero(s.auth, sizeof(s.auth));
	return vmm_site(m, &v, err);
}
