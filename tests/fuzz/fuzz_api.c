/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_api.c - requests to any route of the API, through the real checks and handlers
 *
 * An input is requests, separated by lines of "===": each a head and a body: "POST /v1/vms?x=y",
 * lines "Name: value", an empty line, bytes. In it "$R" stands for a repository that is there, "$H"
 * for its last commit, "$K" for the operator's key (which is sent if there is no Authorization, and
 * no line "Anonymous"), "$S" for a session of MCP, and "$1" to "$9" for what the first to ninth
 * reply of this input named: an id, a token, a commit. A part that begins with "GUEST" is no
 * request: the rest of it is what the guest answers from then on (api_guest.h).
 *
 * Everything behind the handlers is real too: the store, accounts, repositories, domains, records,
 * the VM manager with two VMs and a snapshot; only machines never start, because there is no host
 * for them. A handler that asks for the guest of VM gets one that answers as the input says, or
 * each request at once, every third time with an error: a thread, not a machine. What is streamed
 * is read to its end. The process has a network of its own, without a way out of it. The reply is
 * made as it would be sent.
 *
 * The state grows, so it is made anew every so often.
 */
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#include <cmocka.h>

#include "api/call.h"
#include "base/clock.h"
#include "base/io.h"
#include "guest/guest_internal.h"
#include "http/http_internal.h"
#include "tests/unit/api_fx.h"
#include "zone/zone.h"

#include "tests/fuzz/api_guest.h"
#include "tests/fuzz/json_mutate.h"

#define RUNS_MAX 400 /* with the same state */
#define PARTS_MAX 12

static struct fx *fx;
static char dir[64], repo[64];
static unsigned runs;
static bool stale; /* what inputs count on was deleted */

/* Instead of a connection: what is streamed is read to its end, or until nothing more comes. */
#define STREAM_MAX (4u << 20)
#define STREAM_WAIT_MS 50
int __wrap_reply_flow(struct request *req, struct reply *res, const struct outflow_ops *ops,
                      void *ctx_consume, uint64_t len, const char *type, struct err *e);
int __wrap_reply_flow(struct request *req, struct reply *res, const struct outflow_ops *ops,
                      void *ctx_consume, uint64_t len, const char *type, struct err *e)
{
	static char bytes[5000];
	uint64_t all = 0;
	ssize_t k;

	must(type && *type);
	while ((k = ops->next(ctx_consume, bytes, sizeof(bytes), e)) >= 0 && all < STREAM_MAX) {
		must(k <= (ssize_t)sizeof(bytes));
		all += (uint64_t)k;
		if (!k && (!ops->fd ||
		           io_wait(ops->fd(ctx_consume), POLLIN, deadline_in(STREAM_WAIT_MS)) != 1))
			break;
	}
	must(k != -ENODATA || len == OUTFLOW_UNKNOWN || all == len);
	ops->free(ctx_consume);
	return reply_json(res, json_object(), e);
}

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
	zones_free(fx->api->deps.zones);
	fx->api->deps.zones = NULL;
	fx_teardown(&state);
	fx = NULL;
	io_remove_tree(AT_FDCWD, dir, NULL);
}

/* ---- what there is ---- */

static char last_commit[REPO_SHA_SIZE];
static char session[64];
static char named[10][64]; /* by replies; [0] is not used */

static void call(struct in in, struct buf *ret);

/* The first id, token or commit in a reply. */
static const char *name_of(const json_t *j, int depth)
{
	static const char *const keys[] = { "token", "apiKey", "key", "sessionId", "id", "sha" };
	const char *name, *found;
	json_t *v;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		if ((found = json_string_value(json_object_get(j, keys[i]))))
			return found;
	json_object_foreach((json_t *)(uintptr_t)j, name, v)
	{
		size_t n = strlen(name);

		if (json_is_string(v) && n > 2 && strcmp(name + n - 2, "Id") == 0)
			return json_string_value(v);
	}
	json_object_foreach((json_t *)(uintptr_t)j, name, v)
	{
		if (depth < 4 && *(found = name_of(v, depth + 1)))
			return found;
	}
	json_array_foreach(j, i, v)
	{
		if (depth < 4 && *(found = name_of(v, depth + 1)))
			return found;
	}
	return "";
}

static void add_vm(const char *id, const char *name, const char *account, enum vm_persist how)
{
	struct store_layer l = { .kind = LAYER_DISK, .format = "qcow2" };
	struct store_vm v = { .slot = -1,
		              .info = { .state = VM_STOPPED,
		                        .created_ms = clock_wall_ms(),
		                        .idle_timeout_s = -1,
		                        .persistence = { .type = how },
		                        .vcpus = 2,
		                        .mem_mb = 1024,
		                        .disk_mb = 20480,
		                        .count_exec = true } };

	snprintf(l.id, sizeof(l.id), "ly-%s", id);
	snprintf(v.disk_layer, sizeof(v.disk_layer), "%s", l.id);
	snprintf(v.info.id, sizeof(v.info.id), "%s", id);
	snprintf(v.info.instance, sizeof(v.info.instance), "%s", id);
	snprintf(v.info.name, sizeof(v.info.name), "%s", name);
	snprintf(v.info.account, sizeof(v.info.account), "%s", account);
	must(store_vm_add_many(fx->store, &v, 1, &l, 1, NULL, &err) == 0);
}

static void add_snapshot(const char *account)
{
	const struct store_layer l[] = {
		{ .id = "ly-mmmmmmmmmmmmmmmmmmmm", .kind = LAYER_MEM, .format = "mem" },
		{ .id = "ly-dddddddddddddddddddd", .kind = LAYER_DISK, .format = "qcow2" },
	};
	struct store_point p = { .id = "pt-aaaaaaaaaaaaaaaaaaaa",
		                 .mem_layer = "ly-mmmmmmmmmmmmmmmmmmmm",
		                 .disk_layer = "ly-dddddddddddddddddddd",
		                 .source_vm = VM,
		                 .vcpus = 2,
		                 .mem_mb = 1024,
		                 .disk_mb = 20480,
		                 .created_ms = clock_wall_ms() };
	struct store_snapshot n = { .point = "pt-aaaaaaaaaaaaaaaaaaaa",
		                    .info = { .id = "sc-aaaaaaaaaaaaaaaaaaaa",
		                              .name = "snap",
		                              .source_vm = VM,
		                              .created_ms = clock_wall_ms(),
		                              .vcpus = 2,
		                              .mem_mb = 1024,
		                              .disk_mb = 20480 } };

	snprintf(n.info.account, sizeof(n.info.account), "%s", account);
	must(store_point_add(fx->store, &p, l, ARRAY_SIZE(l), &err) == 0);
	must(store_snapshot_add(fx->store, &n, &err) == 0);
}

static void add_domain(const char *account)
{
	struct store_verification v = { .id = "ver-aaaaaaaaaaaaaaaa",
		                        .domain = "own.test",
		                        .code = "code",
		                        .created_ms = clock_wall_ms() };
	struct store_mapping m = { .id = "map-aaaaaaaaaaaaaaaa",
		                   .domain = "www.own.test",
		                   .vm = VM,
		                   .port = 80,
		                   .created_ms = clock_wall_ms() };

	snprintf(v.account, sizeof(v.account), "%s", account);
	snprintf(m.account, sizeof(m.account), "%s", account);
	must(store_verification_add(fx->store, &v, &v, &err) == 0);
	must(store_domain_own(fx->store, &v, &err) == 0);
	must(store_mapping_put(fx->store, &m, &m, &err) == 0);
}

static void start_state(void)
{
	void *state = NULL;

	if (fx_setup(&state) < 0) {
		fprintf(stderr, "fuzz_api: %s\n", err.msg);
		exit(1);
	}
	fx = state;
}

/* What the manager finds when it starts: it has no machine, and its files are missing. */
static void fill_state(void)
{
	char account[ACCOUNT_SIZE];
	void *state = NULL;

	start_state();
	must(store_account_first(fx->store, account, &err) == 0);
	add_vm(VM, "vm", account, PERSIST_STICKY);
	add_vm("bbbbbbbbbbbbbbbbbbbb", "other", account, PERSIST_PERSISTENT);
	add_vm("cccccccccccccccccccc", "third", account, PERSIST_EPHEMERAL);
	add_snapshot(account);
	add_domain(account);
	state = fx;
	fx_teardown(&state);
	start_state();
	must(zones_new(fx->store, "ns.own.test", &fx->api->deps.zones, &err) == 0);
	auth_audit(fx->auth, &(struct audit_record){ .at_ms = clock_wall_ms(),
	                                             .method = "POST",
	                                             .route = "/v1/vms",
	                                             .status = 404,
	                                             .remote = "192.0.2.9",
	                                             .repeated = 3 });
	fx->api->deps.public_ipv4 = "192.0.2.1";
	fx->api->deps.public_ipv6 = "2001:db8::1";
}

/* Nobody has called rig_main_begin(): there is no host that could start a machine. */
static void make_state(void)
{
	static const char create[] = "POST /git/v1/repo\n\n{\"name\":\"r\",\"public\":true}";
	static const char commit[] =
	        "POST /git/v1/repo/$R/commits\n\n{\"message\":\"m\",\"branch\":\"main\","
	        "\"files\":[{\"path\":\"a.txt\",\"content\":\"hello\"}]}";
	autobuf struct buf reply = { 0 };
	autojson json_t *j = NULL;

	snprintf(dir, sizeof(dir), "/tmp/pando-fuzz-XXXXXX");
	must(mkdtemp(dir) && setenv("FX_DATA", dir, 1) == 0);
	fill_state();
	call((struct in){ (const uint8_t *)create, sizeof(create) - 1 }, &reply);
	j = json_loadb((const char *)reply.p, reply.len, 0, NULL);
	snprintf(repo, sizeof(repo), "%s", fx_str(j, "repoId"));
	must(uuid_valid(repo));
	buf_reset(&reply);
	call((struct in){ (const uint8_t *)commit, sizeof(commit) - 1 }, &reply);
	json_decref(j);
	j = json_loadb((const char *)reply.p, reply.len, 0, NULL);
	snprintf(last_commit, sizeof(last_commit), "%s", name_of(j, 0));
	must(strlen(last_commit) == REPO_SHA_SIZE - 1);
}

/* "$R", "$H", "$K", "$1" ... */
static const char *value_of(uint8_t c)
{
	if (c >= '1' && c <= '9')
		return named[c - '0'];
	return c == 'R'   ? repo
	       : c == 'K' ? fx->key
	       : c == 'H' ? last_commit
	       : c == 'S' ? session
	                  : NULL;
}

/* With those replaced. */
static char *expand(struct in in, size_t *ret_n)
{
	autobuf struct buf b = { 0 };
	char *s;

	while (in.n) {
		struct in plain = in_until(&in, '$');

		buf_put(&b, plain.p, plain.n);
		if (in.p == plain.p + plain.n)
			break; /* no $ */
		if (in.n && value_of(*in.p)) {
			const char *with = value_of(*in.p);

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
	if (!request_header(req, "Authorization") && !request_header(req, "Anonymous"))
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
		req->taker = route->intake;
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

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && strcmp(s + n - k, end) == 0;
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
		stale |= req->match.route->method == METHOD_DELETE &&
		         (ends_with(req->path, repo) || ends_with(req->path, VM));
		add_headers(req, lines);
		r = handle(req, body, n, &res, &e);
		must(r >= 0 || e.msg[0]);
		for (size_t i = 0; i < res.n_headers; i++)
			if (strcmp(res.headers[i].name, "Mcp-Session-Id") == 0)
				snprintf(session, sizeof(session), "%s", res.headers[i].value);
		if (!res.stream) {
			j = reply_render(req, &res, r, &e, &status);
			must((j || r >= 0) && status >= 200 && status < 600);
			if (ret && j) {
				autofree char *text = json_dumps(j, JSON_ENCODE_ANY);

				if (getenv("FUZZ_SHOW")) /* whoever writes seeds wants to know */
					fprintf(stderr, "%s %s: %u %s\n", req->method_text,
					        req->path, status, text);
				buf_put(ret, text, strlen(text));
			}
			json_decref(j);
		}
	}
	reply_done(&res);
	request_free(req);
}

#define BETWEEN "\n===\n"
#define BETWEEN_N (sizeof(BETWEEN) - 1)

static struct in next_part(struct in *in)
{
	const uint8_t *end = in->n ? memmem(in->p, in->n, BETWEEN, BETWEEN_N) : NULL;
	struct in r = in_take(in, end ? (size_t)(end - in->p) : in->n);

	in_take(in, end ? BETWEEN_N : 0);
	return r;
}

/* The body of the last request: those before it make what it needs. */
static size_t json_begins(const uint8_t *data, size_t size)
{
	struct in in = { data, size }, part = { data, size };
	const uint8_t *end;

	while (in.n)
		part = next_part(&in);
	end = part.n ? memmem(part.p, part.n, "\n\n", 2) : NULL;
	return end ? (size_t)(end - data) + 2 : size + 1;
}

static void begin(void)
{
	static bool begun;

	if (begun)
		return;
	begun = true;
	mutex_init(&guest.lock, "fuzz: script");
	leave_network();
	atexit(remove_state);
	make_state();
	runs = 1;
}

/* Before the time of the first input begins: on a busy machine this takes long. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	begin();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct in in = { data, size };

	begin();
	if (!fx || stale || runs++ % RUNS_MAX == 0) {
		stale = false;
		remove_state();
		make_state();
	}
	memset(named, 0, sizeof(named));
	set_script((struct in){ 0 });
	for (int i = 1; in.n && i <= PARTS_MAX; i++) {
		struct in part = next_part(&in);
		autobuf struct buf reply = { 0 };
		autojson json_t *j = NULL;

		if (part.n >= 6 && memcmp(part.p, "GUEST\n", 6) == 0) {
			set_script((struct in){ part.p + 6, part.n - 6 });
			i--;
			continue;
		}
		call(part, &reply);
		j = json_loadb((const char *)reply.p, reply.len, 0, NULL);
		if (i < (int)ARRAY_SIZE(named))
			snprintf(named[i], sizeof(named[i]), "%s", name_of(j, 0));
	}
	set_script((struct in){ 0 });
	return 0;
}
