/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debt.c - machines and slots that could not be given back
 *
 * pando-priv may be slow, started anew or short of something at the moment a machine is to end. The
 * VM goes its way all the same; what the host still has of it is written down here and given back
 * by the keeper, the machine first and then the slot it stood in. What is left when the server ends
 * is found by the next one (recover.c).
 *
 * An answer that was lost is no answer: the slot may have been freed and be somebody else's by
 * now. Whoever is given a slot therefore strikes it off (debt_slot_taken()), and nobody is given
 * one while debts are paid: m->debts_lock, shared by those who take, is the payer's alone.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "vm/vm_internal.h"

void debt_add(struct vmm *m, const char *instance, int slot)
{
	mutex_lock(&m->lock);
	if (m->n_debts < DEBTS_MAX) {
		struct debt *d = &m->debts[m->n_debts++];

		*d = (struct debt){ .slot = slot };
		snprintf(d->instance, sizeof(d->instance), "%s", instance);
	} else {
		log_error("machine %s and slot %d are left to the next start: too many others wait",
		          instance, slot);
	}
	mutex_unlock(&m->lock);
	vmm_collect_soon(m);
}

void debt_slot_taken(struct vmm *m, uint32_t slot)
{
	LOCK_SCOPE(&m->lock);

	for (size_t i = m->n_debts; i-- > 0;)
		if (m->debts[i].slot == (int)slot) {
			m->debts[i].slot = -1;
			if (!*m->debts[i].instance)
				m->debts[i] = m->debts[--m->n_debts];
		}
}

/* True: nothing is left of it. */
static bool pay(struct vmm *m, struct debt *d)
{
	struct err err = { 0 };

	if (*d->instance) {
		if (engine_end(m->engine, d->instance, &err) < 0) {
			log_obj(LOG_LV_WARN, "machine", d->instance, "still not ended: %s",
			        err.msg);
			return false;
		}
		d->instance[0] = '\0';
	}
	if (d->slot < 0)
		return true;
	if (privc_slot_free(m->priv, (uint32_t)d->slot, &err) < 0 && err.code != -ENOENT) {
		log_warn("slot %d is still not free: %s", d->slot, err.msg);
		return false;
	}
	return true;
}

void debts_pay(struct vmm *m)
{
	struct debt mine[DEBTS_MAX];
	size_t n, left = 0;

	mutex_lock(&m->lock);
	n = m->n_debts;
	mutex_unlock(&m->lock);
	if (!n)
		return;
	rwlock_wrlock(&m->debts_lock);
	mutex_lock(&m->lock);
	n = m->n_debts;
	memcpy(mine, m->debts, n * sizeof(*mine));
	m->n_debts = 0;
	mutex_unlock(&m->lock);
	for (size_t i = 0; i < n; i++)
		if (!pay(m, &mine[i]))
			mine[left++] = mine[i];
	mutex_lock(&m->lock);
	for (size_t i = 0; i < left && m->n_debts < DEBTS_MAX; i++)
		m->debts[m->n_debts++] = mine[i];
	mutex_unlock(&m->lock);
	rwlock_unlock(&m->debts_lock);
}
