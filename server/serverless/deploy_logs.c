/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deploy_logs.c - what the servers in instances print
 *
 * It is in the journal of each instance, where it is read while the instance lives; before that is
 * deleted the newest lines go to the account's log, under the deployment's id. What an instance
 * printed that ended by itself is lost.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "events/logs.h"
#include "guest/guest.h"
#include "serverless/deploy_internal.h"
#include "vm/vm.h"

#define LINES_MAX 500

static void line_of(const struct log_line *l, const struct dep *d, struct store_event *e)
{
	*e = (struct store_event){ .at_ms = l->place.at_ms };
	snprintf(e->account, sizeof(e->account), "%s", d->account);
	snprintf(e->level, sizeof(e->level), "%s", l->level);
	snprintf(e->source, sizeof(e->source), "deployment");
	snprintf(e->vm, sizeof(e->vm), "%s", l->vm);
	snprintf(e->request, sizeof(e->request), "%s", d->id);
	snprintf(e->message, sizeof(e->message), "%s", l->message);
}

void deploy_keep_logs(struct serverless *s, const struct inst *i)
{
	AUTO(guest_unrefp) struct guest *guest = NULL;
	AUTO(log_page_done) struct log_page page = { 0 };
	autofree struct store_event *v = NULL;
	struct err err = { 0 };
	struct log_query q = { .account = i->d->account,
		               .vm = i->vm,
		               .instance = "",
		               .build = "",
		               .request = "",
		               .domain = "",
		               .search = "",
		               .service = DEPLOY_SERVICE,
		               .from_ms = i->since_ms,
		               .to_ms = clock_wall_ms() + 1000,
		               .before = LOG_PLACE_END,
		               .limit = LINES_MAX };

	if (!s->conf.logs || vmm_guest_running(s->conf.vmm, i->d->account, i->vm, &guest, NULL) < 0)
		return;
	q.guest = guest;
	if (logs_query(s->conf.logs, &q, &page, &err) == 0 && page.n) {
		v = calloc(page.n, sizeof(*v));
		for (size_t k = 0; v && k < page.n; k++)
			line_of(&page.v[page.n - 1 - k], i->d, &v[k]);
		if (v)
			store_event_add(s->conf.store, v, page.n, &err);
	}
	if (*err.msg)
		log_warn("deployment %s: what an instance printed is not kept: %s", i->d->id,
		         err.msg);
}
