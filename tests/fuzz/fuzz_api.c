/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_api.c - a request to any route of the API, through the real checks and handlers
 *
 * An input is a head and a body: "POST /v1/vms?x=y", lines "Name: value", an empty line, bytes.
 * "$R" in it stands for a repository that is there, "$K" for the operator's key (which is sent if
 * there is no Authorization). Everything behind the handlers is real too: the store, accounts,
 * repositories, domains, the VM manager; only machines never start, because there is no host for
 * them. A handler that asks for the guest of "aaaaaaaaaaaaaaaaaaaa" gets one that answers each
 * request at once, every third time with an error: a thread, not a machine. The process has a
 * network of its own, without a way out of it. The reply is made as it would be sent.
 *
 * The state grows, so it is made anew every so often.
 */
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#include <cmocka.h>

#include "api/call.h"
#include "base/io.h"
#include "guest/guest_internal.h"
#include "http/http_internal.h"
#include "tests/unit/api_fx.h"

#include "tests/fuzz/json_mutate.h"

#define RUNS_MAX 400 /* with the same state */

static struct fx *fx;
static char dir[64], repo[64];
static unsigned runs;

/* ---- a guest without a machine ---- */

#define VM "aaaaaaaaaaaaaaaaaaaa"

static struct {
	struct guest *g;
	int fd;
	pthread_t thread;
} guest = { .fd = -1 };

static void answer(int fd, uint32_t stream, unsigned nth)
{
	static const uint8_t body[9]; /* a command that ended with 0 */
	struct agent_result m = { .status = nth % 3 ? 0 : ENOENT,
		                  .msg = nth % 3 ? "" : "it is not there",
		                  .body = body,
		                  .body_len = nth % 3 == 1 ? sizeof(body) : 0 };
	autobuf struct buf b = { 0 }, result = { 0 };

	agent_result_put(&result, &m);
	agent_frame_put(&b, AGENT_F_OPENED, 0, stream, "\0\0\0\1\0\0\0\2", 8);
	agent_frame_put(&b, AGENT_F_DATA, AGENT_OUT, stream, "output", 6);
	agent_frame_put(&b, AGENT_F_RESULT, 0, stream, result.p, result.len);
	(void)!send(fd, b.p, b.len, MSG_NOSIGNAL);
}

static void *guest_main(void *arg)
{
	struct agent_rx rx = { 0 };
	struct agent_frame f;
	unsigned nth = 0;

	must(agent_rx_init(&rx) == 0);
	for (;;) {
		size_t room;
		uint8_t *p = agent_rx_space(&rx, &room);
		ssize_t n = recv(guest.fd, p, room, 0);

		if (n <= 0)
			break;
		agent_rx_added(&rx, (size_t)n);
		while (agent_rx_next(&rx, &f) == 1)
			if (f.type == AGENT_F_OPEN && !(f.flags & AGENT_OPEN_MORE))
				answer(guest.fd, f.stream, nth++);
	}
	agent_rx_done(&rx);
	return NULL;
}

static void guest_over(void)
{
	if (!guest.g)
		return;
	guest_close(guest.g);
	pthread_join(guest.thread, NULL);
	guest_unref(guest.g);
	close(TAKE_FD(guest.fd));
	guest.g = NULL;
}

static void guest_begin(void)
{
	int pair[2];

	guest_over();
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	must(guest_new("fuzz", pair[0], &guest.g, &err) == 0);
	guest.g->hello_begun = guest.g->greeted = true;
	must(reader_start(guest.g, &err) == 0);
	guest.fd = pair[1];
	must(pthread_create(&guest.thread, NULL, guest_main, NULL) == 0);
}

static int guest_of(const char *id, struct guest **ret)
{
	if (strcmp(id, VM) != 0)
		return -ENOENT;
	if (!guest.g || !guest_alive(guest.g))
		guest_begin();
	*ret = guest_ref(guest.g);
	return 0;
}

/* Before the manager's own, all three of them. */
#define WRAPPED(name)                                                                             \
	int __real_##name(struct vmm *m, const char *account, const char *id, struct guest **ret, \
	                  struct err *e);                                                         \
	int __wrap_##name(struct vmm *m, const char *account, const char *id, struct guest **ret, \
	                  struct err *e);                                                         \
	int __wrap_##name(struct vmm *m, const char *account, const char *id, struct guest **ret, \
	                  struct err *e)                                                          \
	{                                                                                         \
		return guest_of(id, ret) == 0 ? 0 : __real_##name(m, account, id, ret, e);        \
	}
WRAPPED(vmm_guest)
WRAPPED(vmm_guest_thawed)
WRAPPED(vmm_guest_running)

/* A network that is empty but for its loopback. */
static void leave_network(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	autofd int fd = -1;

	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		fprintf(stderr, "fuzz_api: no network namespace: %s\n", strerror(errno));
		exit(1);
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	must(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0);
}

static void remove_state(void)
{
	void *state = fx;

	if (!fx)
		return;
	guest_over();
	fx_teardown(&state);
	fx = NULL;
	io_remove_tree(AT_FDCWD, dir, NULL);
}

static void call(struct in in, struct buf *ret);

/* Nobody has called rig_main_begin(): there is no host that could start a machine. */
static void make_state(void)
{
	static const char create[] = "POST /git/v1/repo\n\n{\"name\":\"r\",\"public\":true}";
	static const char commit[] =
	        "POST /git/v1/repo/$R/commits\n\n{\"message\":\"m\",\"branch\":\"main\","
	        "\"files\":[{\"path\":\"a.txt\",\"content\":\"hello\"}]}";
	autobuf struct buf reply = { 0 };
	autojson json_t *j = NULL;
	void *state = NULL;

	snprintf(dir, sizeof(dir), "/tmp/pando-fuzz-XXXXXX");
	must(mkdtemp(dir) && setenv("FX_DATA", dir, 1) == 0);
	if (fx_setup(&state) < 0) {
		fprintf(stderr, "fuzz_api: %s\n", err.msg);
		exit(1);
	}
	fx = state;
	call((struct in){ (const uint8_t *)create, sizeof(create) - 1 }, &reply);
	j = json_loadb((const char *)reply.p, reply.len, 0, NULL);
	snprintf(repo, sizeof(repo), "%s", fx_str(j, "repoId"));
	must(uuid_valid(repo));
	buf_reset(&reply);
	call((struct in){ (const uint8_t *)commit, sizeof(commit) - 1 }, &reply);
}

/* "$R" and "$K" */
static char *expand(struct in in, size_t *ret_n)
{
	autobuf struct buf b = { 0 };
	char *s;

	while (in.n) {
		struct in plain = in_until(&in, '$');

		buf_put(&b, plain.p, plain.n);
		if (in.p == plain.p + plain.n)
			break; /* no $ */
		if (in.n && (*in.p == 'R' || *in.p == 'K')) {
			const char *with = *in.p == 'R' ? repo : fx->key;

			buf_put(&b, with, strlen(with));
			in_u8(&in);
		} else {
			buf_put_u8(&b, '$');
		}
	}
	*ret_n = b.len;
	s = buf_take_str(&b);
	must(s != NULL);
	return s;
}

/* What http.c and the library do with a path: false if it has no route. */
static bool find_route(struct request *req, char *line)
{
	const struct http *h = req->http;
	char *path = strchr(line, ' '), *query;
	int m;

	if (!path)
		return false;
	*path++ = '\0';
	m = method_parse(line);
	query = strchr(path, '?');
	if (query)
		*query++ = '\0';
	snprintf(req->path, sizeof(req->path), "%s", path);
	h->app.mask(req->path);
	if (m < 0 || route_find(h->routes, h->n_routes, (enum method)m, path, &req->match) < 0)
		return false;
	for (char *at = NULL, *v = query ? strtok_r(query, "&", &at) : NULL; v;
	     v = strtok_r(NULL, "&", &at)) {
		char *value = strchr(v, '=');

		if (value)
			*value++ = '\0';
		must(request_add_value(req, VALUE_QUERY, v, value ? value : "", NULL) == 0);
	}
	req->method_text = method_name((enum method)m);
	return true;
}

static void add_headers(struct request *req, char *lines)
{
	char key[AUTH_KEY_SIZE + 16];

	for (char *at = NULL, *v = strtok_r(lines, "\n", &at); v; v = strtok_r(NULL, "\n", &at)) {
		char *value = strstr(v, ": ");

		if (value)
			*value = '\0';
		must(request_add_value(req, VALUE_HEADER, v, value ? value + 2 : "", NULL) == 0);
	}
	snprintf(key, sizeof(key), "Bearer %s", fx->key);
	if (!request_header(req, "Authorization"))
		must(request_add_value(req, VALUE_HEADER, "Authorization", key, NULL) == 0);
}

static int handle(struct request *req, const char *body, size_t n, struct reply *res, struct err *e)
{
	const struct route *route = req->match.route;
	int r = req->http->app.admit(req, e);

	request_name_holder(req);
	if (r < 0 || (r = limits_enter(req, e)) < 0)
		return r;
	if (route->intake) {
		if ((r = route->intake->open(req, e)) < 0 ||
		    (n && (r = route->intake->data(req, body, n, e)) < 0))
			return r;
	} else {
		body_begin(req, &req->body);
		if (n > route->body_max)
			n = route->body_max;
		if (n && (r = body_add(&req->body, body, n, e)) < 0)
			return r;
	}
	return route->handler(req, res, e);
}

/* ret: the reply's JSON, or nothing. */
static void call(struct in in, struct buf *ret)
{
	struct http *h = fx->api->http;
	struct request *req = request_new(h);
	struct reply res = { 0 };
	struct err e = { 0 };
	unsigned status = 0;
	json_t *j;
	size_t n, n_line, n_head;
	const uint8_t *end = in.n ? memmem(in.p, in.n, "\n\n", 2) : NULL;
	struct in head = in_take(&in, end ? (size_t)(end - in.p) : in.n);
	autofree char *line = expand(in_until(&head, '\n'), &n_line);
	autofree char *lines = expand(head, &n_head), *body = NULL;
	int r;

	must(req != NULL);
	in_take(&in, 2);
	body = expand(in, &n);
	memcpy(req->trace, "0123456789abcdef0123456789abcdef", 33);
	if (find_route(req, line)) {
		add_headers(req, lines);
		r = handle(req, body, n, &res, &e);
		must(r >= 0 || e.msg[0]);
		if (!res.stream) {
			j = reply_render(req, &res, r, &e, &status);
			must((j || r >= 0) && status >= 200 && status < 600);
			if (ret && j) {
				autofree char *text = json_dumps(j, 0);

				buf_put(ret, text, strlen(text));
			}
			json_decref(j);
		}
	}
	reply_done(&res);
	request_free(req);
}

static size_t json_begins(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memmem(data, size, "\n\n", 2) : NULL;

	return end ? (size_t)(end - data) + 2 : size + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool begun;

	if (!begun) {
		leave_network();
		atexit(remove_state);
		begun = true;
	}
	if (!fx || runs++ % RUNS_MAX == 0) {
		remove_state();
		make_state();
	}
	call((struct in){ data, size }, NULL);
	return 0;
}
