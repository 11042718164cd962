/* SPDX-License-Identifier: Apache-2.0 */
/* fake_flow.c - the fake guest has no streams; serve_agent.c tests them on a real agent */
#include <errno.h>

#include "base/err.h"
#include "guest/guest.h"
#include "guest/guest_code.h"

static int none(struct err *err)
{
	return err_set(err, -ENOTSUP, "the fake guest has no streams");
}

int guest_flow_fd(const struct guest_flow *f)
{
	return -1;
}

ssize_t guest_flow_read(struct guest_flow *f, int *ret_chan, uint8_t *p, size_t n, struct err *err)
{
	return none(err);
}

ssize_t guest_flow_feed(struct guest_flow *f, const uint8_t *p, size_t n, struct err *err)
{
	return none(err);
}

int guest_flow_feed_eof(struct guest_flow *f, struct err *err)
{
	return none(err);
}

int guest_flow_write(struct guest_flow *f, const uint8_t *p, size_t n, uint64_t deadline_ms,
                     struct err *err)
{
	return none(err);
}

int guest_flow_finish(struct guest_flow *f, uint64_t deadline_ms, struct err *err)
{
	return none(err);
}

int guest_flow_result(struct guest_flow *f, struct err *err)
{
	return none(err);
}

void guest_flow_close(struct guest_flow *f)
{
}

int guest_run(struct guest *g, const struct guest_exec_req *req, bool with_stdin,
              struct guest_flow **ret, struct guest_started *ret_started, struct err *err)
{
	return none(err);
}

int guest_run_result(struct guest_flow *f, struct guest_exec_result *ret, struct err *err)
{
	return none(err);
}

int guest_start(struct guest *g, const struct guest_exec_req *req, bool with_stdin,
                struct guest_started *ret, struct err *err)
{
	return none(err);
}

int guest_procs(struct guest *g, struct guest_proc **ret, size_t *ret_n, struct err *err)
{
	return none(err);
}

int guest_proc(struct guest *g, uint32_t proc, struct guest_proc *ret, struct err *err)
{
	return none(err);
}

int guest_proc_signal(struct guest *g, uint32_t proc, unsigned sig, struct err *err)
{
	return none(err);
}

int guest_proc_forget(struct guest *g, uint32_t proc, struct err *err)
{
	return none(err);
}

int guest_proc_stdin(struct guest *g, uint32_t proc, bool last, struct guest_flow **ret,
                     struct err *err)
{
	return none(err);
}

int guest_output(struct guest *g, uint32_t proc, unsigned chans, uint64_t off, bool follow,
                 struct guest_flow **ret, struct err *err)
{
	return none(err);
}

ssize_t guest_output_read(struct guest_flow *f, int *ret_chan, uint64_t *ret_off, uint8_t *p,
                          size_t n, struct err *err)
{
	return none(err);
}

int guest_output_result(struct guest_flow *f, struct guest_proc *ret, struct err *err)
{
	return none(err);
}

int guest_get_file(struct guest *g, const char *user, const char *path, struct guest_get *get,
                   struct guest_flow **ret, struct err *err)
{
	return none(err);
}

int guest_put_file(struct guest *g, const char *user, const char *path, uint32_t mode,
                   struct guest_flow **ret, struct err *err)
{
	return none(err);
}

int guest_tar(struct guest *g, const char *user, const char *path, bool gzip,
              struct guest_flow **ret, struct err *err)
{
	return none(err);
}

int guest_untar(struct guest *g, const char *user, const char *path, bool gzip, bool owners,
                struct guest_flow **ret, struct err *err)
{
	return none(err);
}

int guest_watch(struct guest *g, const char *user, const char *path, struct guest_flow **ret,
                struct err *err)
{
	return none(err);
}

int guest_watch_next(struct guest_flow *f, struct guest_change *ret, struct err *err)
{
	return none(err);
}

int guest_remove(struct guest *g, const char *user, const char *path, bool recursive,
                 struct err *err)
{
	return none(err);
}

int guest_code_run(struct guest *g, const struct guest_code_req *req, struct guest_flow **ret,
                   struct err *err)
{
	return none(err);
}

int guest_code_next(struct guest_flow *f, struct agent_code_event *ret, struct err *err)
{
	return none(err);
}

int guest_code_result(struct guest_flow *f, struct agent_code_result *ret, struct err *err)
{
	return none(err);
}

int guest_context_create(struct guest *g, const struct guest_context_req *req,
                         struct guest_context *ret, struct err *err)
{
	return none(err);
}

int guest_contexts(struct guest *g, const char *user, struct guest_context **ret, size_t *ret_n,
                   struct err *err)
{
	return none(err);
}

int guest_context_restart(struct guest *g, const char *user, uint32_t context, struct err *err)
{
	return none(err);
}

int guest_context_interrupt(struct guest *g, const char *user, uint32_t context, struct err *err)
{
	return none(err);
}

int guest_context_delete(struct guest *g, const char *user, uint32_t context, struct err *err)
{
	return none(err);
}
