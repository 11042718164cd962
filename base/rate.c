/* SPDX-License-Identifier: Apache-2.0 */
/* rate.c - see rate.h */
#include "base/rate.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/lock.h"

#define PROBES 4         /* slots that a name may be in */
#define WAIT_MAX_S 3600u /* nobody is told to wait for longer */
#define DEBT_MAX 10      /* times burst */

struct slot {
	uint64_t name;  /* its hash: two names of one bucket are one in 2^64 */
	uint64_t at_ms; /* of the last change; 0: free */
	double left;
	uint64_t missed;
};

struct rate {
	struct rate_conf conf;
	uint64_t seed;
	struct mutex lock;
	struct slot *slots GUARDED_BY(lock); /* owned */
};

int rate_new(const struct rate_conf *conf, struct rate **ret, struct err *err)
{
	struct rate *r = calloc(1, sizeof(*r));

	assert(conf->per_s > 0 && conf->burst >= 1 && conf->slots >= 1);
	if (!r)
		return err_set(err, -ENOMEM, "out of memory");
	r->conf = *conf;
	mutex_init(&r->lock, "rate");
	random_bytes(&r->seed, sizeof(r->seed));
	mutex_unshared(&r->lock);
	r->slots = calloc(conf->slots, sizeof(*r->slots));
	if (!r->slots) {
		rate_free(r);
		return err_set(err, -ENOMEM, "out of memory");
	}
	*ret = r;
	return 0;
}

void rate_free(struct rate *r)
{
	if (!r)
		return;
	mutex_unshared(&r->lock);
	free(r->slots);
	mutex_destroy(&r->lock);
	free(r);
}

/* The name's slot, or the one of those it may have that was quiet for longest. */
static struct slot *slot_of(struct rate *r, uint64_t name, uint64_t now) REQUIRES(&r->lock)
{
	struct slot *oldest = NULL;

	for (uint64_t i = 0; i < PROBES; i++) {
		struct slot *s = &r->slots[(name + i) % r->conf.slots];

		if (s->at_ms && s->name == name)
			return s;
		if (!oldest || s->at_ms < oldest->at_ms)
			oldest = s;
	}
	*oldest = (struct slot){ .name = name, .at_ms = now, .left = r->conf.burst };
	return oldest;
}

/* Its slot, with what it has by now. */
static struct slot *fill(struct rate *r, const char *name) REQUIRES(&r->lock)
{
	uint64_t now = clock_ms();
	struct slot *s = slot_of(r, hash_text(name, r->seed), now);

	s->left = MIN(s->left + (double)(now - s->at_ms) / 1000 * r->conf.per_s, r->conf.burst);
	s->at_ms = now;
	return s;
}

double rate_spend(struct rate *r, const char *name, double n)
{
	struct slot *s;

	LOCK_SCOPE(&r->lock);
	s = fill(r, name);
	s->left = MAX(s->left - n, -DEBT_MAX * r->conf.burst);
	return s->left;
}

bool rate_take(struct rate *r, const char *name, struct rate_answer *ret)
{
	struct rate_answer a = { 0 };
	struct slot *s;
	bool may;

	mutex_lock(&r->lock);
	s = fill(r, name);
	may = s->left >= 1;
	if (may) {
		s->left -= 1;
		a.missed = s->missed;
		s->missed = 0;
	} else {
		double wait = (1 - s->left) / r->conf.per_s;

		a.wait_s = wait < WAIT_MAX_S ? (unsigned)wait + 1 : WAIT_MAX_S;
		s->missed++;
	}
	mutex_unlock(&r->lock);
	if (ret)
		*ret = a;
	return may;
}
