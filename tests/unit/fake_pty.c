/* SPDX-License-Identifier: Apache-2.0 */
/* fake_pty.c - the fake guest has no terminals; serve_agent.c tests them on a real agent */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "guest/guest_pty.h"
#include "wire/agent_pty.h"

static int none(struct err *err)
{
	return err_set(err, -ENOTSUP, "the fake guest has no terminals");
}

bool guest_pty_id_valid(const char *id)
{
	return agent_pty_id_valid(id);
}

bool guest_pty_size_valid(unsigned cols, unsigned rows)
{
	return agent_pty_size_valid(cols, rows);
}

int guest_pty_open(struct guest *g, const struct guest_pty_req *req, uint64_t deadline_ms,
                   struct guest_pty **ret, struct guest_pty_info *ret_info, struct err *err)
{
	return none(err);
}

int guest_pty_attach(struct guest *g, const struct guest_pty_req *req, uint64_t deadline_ms,
                     struct guest_pty **ret, struct guest_pty_info *ret_info, struct err *err)
{
	return none(err);
}

void guest_pty_detach(struct guest_pty *t)
{
}

int guest_pty_fd(const struct guest_pty *t)
{
	return -1;
}

ssize_t guest_pty_read(struct guest_pty *t, enum guest_pty_piece *ret_kind, const uint8_t **ret,
                       struct err *err)
{
	return none(err);
}

int guest_pty_exit_code(struct guest_pty *t, struct err *err)
{
	return none(err);
}

ssize_t guest_pty_write(struct guest_pty *t, const void *p, size_t n, struct err *err)
{
	return none(err);
}

int guest_pty_resize(struct guest_pty *t, unsigned cols, unsigned rows, struct err *err)
{
	return none(err);
}

int guest_pty_signal(struct guest_pty *t, unsigned sig, struct err *err)
{
	return none(err);
}

int guest_pty_list(struct guest *g, struct guest_pty_info **ret, size_t *ret_n, struct err *err)
{
	return none(err);
}

int guest_pty_close(struct guest *g, const char *id, const char *user, int *ret_exit,
                    struct err *err)
{
	return none(err);
}
