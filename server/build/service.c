/* SPDX-License-Identifier: Apache-2.0 */
/* service.c - a single service, outside a layer */
#include "build/service.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "build/build_internal.h"
#include "build/spec_internal.h"

int service_name(const char *s, char ret[SERVICE_NAME_SIZE], struct err *err)
{
	static const char suffix[] = ".service";
	size_t n = strlen(s), k = sizeof(suffix) - 1;

	if (n >= k && strcmp(s + n - k, suffix) == 0)
		n -= k;
	if (n == 0)
		return err_tag(err, -EINVAL, ERR_SERVICE_NAME_EMPTY, "a service needs a name");
	if (n >= SERVICE_NAME_SIZE)
		return err_tag(err, -EINVAL, ERR_SERVICE_NAME_TOO_LONG,
		               "service name '%.40s...' is longer than %d bytes", s,
		               SERVICE_NAME_SIZE - 1);
	if (strchr("-.@", s[0]))
		return err_tag(err, -EINVAL, ERR_SERVICE_NAME_INVALID_PREFIX,
		               "service name '%.40s' begins with '%c'", s, s[0]);
	if (strspn(s, UNIT_CHARS) < n)
		return err_tag(err, -EINVAL, ERR_SERVICE_NAME_INVALID_CHARS,
		               "service name '%.40s' may only have letters, digits and :_.@-", s);
	snprintf(ret, SERVICE_NAME_SIZE, "%.*s", (int)n, s);
	return 0;
}

void unit_done(struct unit *u)
{
	buf_done(&u->text);
}

int unit_make(const json_t *spec, struct unit *ret, struct err *err)
{
	struct spec_ctx c = { .tag = ERR_BAD_REQUEST };
	autojson json_t *checked = NULL;
	struct service s;
	int r = spec_service(spec, "", /* patch= */ false, &c, &checked, err);

	if (r < 0)
		return r;
	service_read(checked, &s);
	snprintf(ret->name, sizeof(ret->name), "%s", s.name);
	ret->enable = s.enable;
	ret->oneshot = s.oneshot;
	ret->delete_after_success = s.delete_after_success;
	unit_text(&s, NULL, &ret->text);
	return ret->text.failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}
