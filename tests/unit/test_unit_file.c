/* SPDX-License-Identifier: Apache-2.0 */
/* test_unit_file.c - services of a spec as unit files and drop-ins, against the text they must be
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "build/build_internal.h"
#include "tests/unit/check.h"

static char *text_of(const char *service, bool patch, const char *done)
{
	static const struct spec_limits limits = { 2, 2048, 20480, 32, 65536, 204800, 256 };
	autojson json_t *extra = json_object(), *body = NULL, *names = NULL;
	struct spec_ctx c = { .limits = &limits, .tag = ERR_BAD_REQUEST, .extra = extra };
	autofree char *text = NULL;
	autobuf struct buf b = { 0 };
	autospec struct spec s;
	struct service v;

	if (asprintf(&text, "{\"systemd\":{\"%s\":[%s]}}", patch ? "patchedServices" : "services",
	             service) < 0)
		abort();
	OK(json_text_parse(text, strlen(text), &body, &err));
	OK(spec_parse(body, &c, &s, &err));
	names = done ? json_loads(done, 0, NULL) : NULL;
	service_read(json_array_get(patch ? s.layers[0].patched : s.layers[0].services, 0), &v);
	if (patch)
		unit_patch_text(&v, names, &b);
	else
		unit_text(&v, names, &b);
	return buf_take_str(&b);
}

static void is(const char *service, bool patch, const char *done, const char *want)
{
	autofree char *text = text_of(service, patch, done);

	assert_string_equal(text, want);
}

static void small_service(void **state)
{
	is("{\"name\":\"web.service\",\"exec\":[\"/bin/sleep 1\"]}", false, NULL,
	   "[Unit]\nDescription=web\n\n[Service]\nType=exec\nExecStart=/bin/sleep 1\n\n"
	   "[Install]\nWantedBy=multi-user.target\n");
}

static void full_service(void **state)
{
	is("{\"name\":\"web\",\"mode\":\"service\",\"exec\":[\"/bin/prepare\",\"/bin/run $X\"],"
	   "\"env\":{\"A\":\"1 2\",\"Q\":\"a\\\"b\\\\c "
	   "100%\\nnext\"},\"user\":\"www\",\"group\":\"www\","
	   "\"workdir\":\"/srv/50%\",\"after\":[\"db\",\"network.target\"],\"requires\":[\"db\"],"
	   "\"onFailure\":[\"alarm\"],\"wantedBy\":[\"graphical.target\"],\"timeoutSec\":0,"
	   "\"readySignal\":true,\"watchdogSec\":30,\"restartPolicy\":{\"policy\":\"on-failure\","
	   "\"restartSec\":2,\"startLimitBurst\":3,\"startLimitIntervalSec\":60}}",
	   false, NULL,
	   "[Unit]\nDescription=web\nAfter=db.service network.target\nRequires=db.service\n"
	   "OnFailure=alarm.service\nStartLimitIntervalSec=60\nStartLimitBurst=3\n\n"
	   "[Service]\nType=notify\nNotifyAccess=all\nExecStartPre=/bin/prepare\n"
	   "ExecStart=/bin/run $X\nUser=www\nGroup=www\nWorkingDirectory=/srv/50%%\n"
	   "Environment=\"A=1 2\"\nEnvironment=\"Q=a\\\"b\\\\c 100%%\\nnext\"\n"
	   "TimeoutStartSec=infinity\nWatchdogSec=30\nRestart=on-failure\nRestartSec=2\n\n"
	   "[Install]\nWantedBy=graphical.target\n");
}

static void oneshots(void **state)
{
	is("{\"name\":\"a\",\"mode\":\"oneshot\",\"exec\":[\"x\",\"y\"],\"timeoutSec\":5}", false,
	   NULL,
	   "[Unit]\nDescription=a\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=x\n"
	   "ExecStart=y\nTimeoutStartSec=5\n\n[Install]\nWantedBy=multi-user.target\n");
	is("{\"name\":\"a\",\"mode\":\"oneshot\",\"exec\":[\"x\"],\"remainAfterExit\":false}",
	   false, NULL,
	   "[Unit]\nDescription=a\n\n[Service]\nType=oneshot\nExecStart=x\n\n"
	   "[Install]\nWantedBy=multi-user.target\n");
}

static void units_that_are_gone_are_not_named(void **state)
{
	is("{\"name\":\"a\",\"exec\":[\"x\"],\"after\":[\"gone\",\"db\"],\"requires\":[\"gone\"]}",
	   false, "[\"gone.service\"]",
	   "[Unit]\nDescription=a\nAfter=db.service\n\n[Service]\nType=exec\nExecStart=x\n\n"
	   "[Install]\nWantedBy=multi-user.target\n");
}

static void patches(void **state)
{
	is("{\"name\":\"ssh\",\"env\":{\"A\":\"b\"}}", true, NULL,
	   "[Unit]\n\n[Service]\nEnvironment=\"A=b\"\n");
	is("{\"name\":\"ssh\",\"exec\":[\"/bin/other\"],\"restartPolicy\":{\"policy\":\"no\"},"
	   "\"after\":[\"x.target\"]}",
	   true, NULL,
	   "[Unit]\nAfter=x.target\n\n[Service]\nExecStartPre=\nExecStart=\nExecStart=/bin/other\n"
	   "Restart=no\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_service),
		cmocka_unit_test(full_service),
		cmocka_unit_test(oneshots),
		cmocka_unit_test(units_that_are_gone_are_not_named),
		cmocka_unit_test(patches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
