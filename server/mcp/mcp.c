/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp.c - POST and DELETE /mcp: the Model Context Protocol over streamable HTTP
 *
 * One message in, one reply out: as JSON, or as server-sent events where a call takes long and the
 * client accepts both. The server sends nothing unasked, so there is no stream for GET. Callers are
 * checked as for every route. Web pages are accepted only from this machine or if listed in
 * PANDO_CORS_ORIGINS by name, so that a page that points a name of its own at this server (DNS
 * rebinding) has no access.
 *
 * An error in the HTTP request is an error of the API; an error in a message is an error of
 * JSON-RPC; an error inside a tool is that tool's result.
 */
#include "mcp/mcp_internal.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/log.h"
#include "node/node.h"
#include "peer/peer.h"

#define SESSION_HEADER "Mcp-Session-Id"
#define ORIGIN_MAX 256 /* bytes */

static const char instructions[] =
        "Pando runs code in microVMs that can be suspended, snapshotted and forked with their "
        "memory. "
        "Create a VM with vm_create, then use run_code (a kernel that keeps variables; Python, "
        "JavaScript, "
        "TypeScript, Bash), exec (shell commands) and the file tools with its id. VMs suspend when "
        "idle and "
        "wake with the next call, with everything as it was. Delete VMs that are no longer needed.";

/* A request that is being answered. */
struct exchange {
	struct request *req;
	struct reply *res;
	enum mcp_version version;
	char session[MCP_SESSION_SIZE]; /* "": none */
	char opened[MCP_SESSION_SIZE];  /* by this exchange, or "" */
	bool events;                    /* the reply may be a stream of them */
	bool streamed;                  /* and it is */
};

/* ---- HTTP ---- */

static bool is_loopback(const char *origin)
{
	static const char *const hosts[] = { "localhost", "127.0.0.1", "[::1]" };
	const char *host = strstr(origin, "://");

	for (size_t i = 0; host && i < ARRAY_SIZE(hosts); i++) {
		size_t n = strlen(hosts[i]);

		if (strncasecmp(host + 3, hosts[i], n) == 0 &&
		    (host[3 + n] == ':' || host[3 + n] == '\0'))
			return true;
	}
	return false;
}

static int check_origin(struct request *req, struct err *err)
{
	const char *origin = request_header(req, "Origin");

	if (!origin || is_loopback(origin) ||
	    (strlen(origin) <= ORIGIN_MAX && cors_listed(req->http, origin)))
		return 0;
	return err_tag(
	        err, -EACCES, ERR_FORBIDDEN,
	        "pages of this origin may not use /mcp: PANDO_CORS_ORIGINS lists those that may");
}

static int check_type(struct request *req, struct reply *res, struct err *err)
{
	const char *type = request_header(req, "Content-Type");
	static const char json[] = "application/json";

	if (type && strncasecmp(type, json, sizeof(json) - 1) == 0 &&
	    strchr("; \t", type[sizeof(json) - 1]))
		return 0;
	res->status = 415;
	return err_tag(err, -EINVAL, ERR_INVALID_REQUEST, "Content-Type must be application/json");
}

static int no_session(struct err *err)
{
	return err_tag(err, -ENOENT, ERR_NOT_FOUND,
	               "there is no such session: initialize a new one");
}

/*
 * A session of another node that lives: it is only a name for a version and for calls that may be
 * cancelled, and grants nothing.
 */
static bool is_elsewhere(struct exchange *x, const char *session)
{
	struct err unused = { 0 };

	return strlen(session) > MCP_SESSION_HEX + 1 && deps_of(x->req)->peers &&
	       place_of_node(deps_of(x->req)->peers, session + MCP_SESSION_HEX + 1, &unused).kind ==
	               PLACE_NODE;
}

static int begin(struct exchange *x, struct err *err)
{
	const char *version = request_header(x->req, "MCP-Protocol-Version");
	const char *session = request_header(x->req, SESSION_HEADER);
	const char *accept = request_header(x->req, "Accept");
	int r;

	x->version = MCP_2025_03_26; /* of clients that do not name one */
	if (version && (r = mcp_version_parse(version)) < 0)
		return err_tag(err, -EINVAL, ERR_INVALID_REQUEST,
		               "this server does not support that MCP-Protocol-Version");
	if (version)
		x->version = (enum mcp_version)mcp_version_parse(version);
	x->events = accept && strstr(accept, "text/event-stream");
	if (*x->req->node) /* which has looked at it */
		session = request_header(x->req, NODE_SESSION);
	if (!session)
		return 0;
	if (strlen(session) >= sizeof(x->session) ||
	    (!*x->req->node && !is_elsewhere(x, session) &&
	     mcp_session_use(deps_of(x->req)->mcp, who_of(x->req), session, &x->version) < 0))
		return no_session(err);
	memcpy(x->session, session, strlen(session) + 1);
	return 0;
}

/* What the node that it goes to has to know of the session. */
static void session_field(const struct exchange *x, struct buf *out)
{
	if (*x->session)
		buf_printf(out, NODE_SESSION ": %s\r\n", x->session);
}

/* The reply's message or messages; NULL: only an acknowledgement. */
static int send_json(struct exchange *x, unsigned status, json_t *j_consume, struct err *err)
{
	autojson json_t *j = j_consume;
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	if (j && !text)
		return err_set(err, -ENOMEM, "out of memory");
	if (*x->opened)
		reply_header(x->res, SESSION_HEADER, x->opened);
	x->res->status = status;
	return reply_bytes(x->res, text ? "application/json" : NULL, text, text ? strlen(text) : 0,
	                   err);
}

/* ---- methods ---- */

static json_t *initialize(struct exchange *x, const struct mcp_msg *m)
{
	const char *wanted = json_string_value(json_object_get(m->params, "protocolVersion"));
	int v = wanted ? mcp_version_parse(wanted) : -EINVAL;
	struct err err = { 0 };

	if (!wanted)
		return mcp_error(m->id, MCP_INVALID_PARAMS, "'protocolVersion' must be a string");
	if (v < 0)
		v = MCP_VERSIONS - 1;
	if (mcp_session_open(deps_of(x->req)->mcp, who_of(x->req), (enum mcp_version)v,
	                     node_id(deps_of(x->req)->node), x->opened, &err) < 0)
		return mcp_error(m->id, MCP_BUSY, "%s", err.msg);
	return mcp_result(
	        m->id,
	        json_pack("{s:s, s:{s:{s:b}, s:{s:b, s:b}, s:{s:b}}, s:{s:s, s:s, s:s}, s:s}",
	                  "protocolVersion", mcp_version_name((enum mcp_version)v), "capabilities",
	                  "tools", "listChanged", 0, "resources", "subscribe", 0, "listChanged", 0,
	                  "prompts", "listChanged", 0, "serverInfo", "name", "pando", "title",
	                  "Pando", "version", PANDO_VERSION, "instructions", instructions));
}

static json_t *tools_list(const struct mcp_msg *m)
{
	if (json_object_get(m->params, "cursor"))
		return mcp_error(m->id, MCP_INVALID_PARAMS, "there is no such 'cursor'");
	return mcp_result(m->id, mcp_tools_list());
}

/* NULL: the reply is a stream. */
static json_t *start_job(struct exchange *x, const struct mcp_msg *m, struct mcp_work *work,
                         struct mcp_running *running_consume, const struct auth_lease *lease,
                         bool may_stream)
{
	struct err err = { 0 };
	struct mcp_job *j;

	if (mcp_job_new(x->req, m->id, may_stream ? mcp_progress_token(m) : NULL, work,
	                running_consume, lease, &j, &err) < 0)
		return mcp_error(m->id, MCP_INTERNAL, "%s", err.msg);
	if (!may_stream)
		return mcp_job_run(x->req, j);
	if (mcp_job_reply(x->req, x->res, j, &err) < 0)
		return mcp_error(m->id, MCP_INTERNAL, "%s", err.msg);
	x->streamed = true;
	return NULL;
}

static json_t *tools_call(struct exchange *x, const struct mcp_msg *m, bool alone)
{
	const char *name = json_string_value(json_object_get(m->params, "name"));
	const struct mcp_tool *t = name ? mcp_tool_find(name) : NULL;
	autojson json_t *args = json_incref(json_object_get(m->params, "arguments"));
	struct mcp_running *running = NULL;
	struct mcp_work work = { 0 };
	struct auth_lease lease;
	struct err err = { 0 };
	json_t *result;

	if (!name)
		return mcp_error(m->id, MCP_INVALID_PARAMS, "'name' must be a string");
	if (!t)
		return mcp_error(m->id, MCP_INVALID_PARAMS, "there is no tool '%.100s'", name);
	if (!args || json_is_null(args)) {
		json_decref(args);
		args = json_object();
	}
	if (!json_is_object(args))
		return mcp_error(m->id, MCP_INVALID_PARAMS, "'arguments' must be an object");
	if (mcp_check_args(t, args, &err) < 0)
		return mcp_result(m->id, mcp_failed(&err));
	if (mcp_running_begin(deps_of(x->req)->mcp, who_of(x->req), x->session, m->id, &running,
	                      &err) < 0)
		return mcp_error(m->id, MCP_BUSY, "%s", err.msg);
	result = mcp_call(x->req, t, args, &work, &lease);
	if (work.ops)
		return start_job(x, m, &work, running, &lease, alone && x->events);
	mcp_running_end(running);
	return result ? mcp_result(m->id, result) : mcp_error(m->id, MCP_INTERNAL, "out of memory");
}

static json_t *answer(struct exchange *x, const struct mcp_msg *m, bool alone)
{
	json_t *j;

	if (strcmp(m->method, "initialize") == 0) {
		if (alone)
			return initialize(x, m);
		return mcp_error(m->id, MCP_INVALID_REQUEST, "initialize must be the only message");
	}
	if (strcmp(m->method, "ping") == 0)
		return mcp_result(m->id, json_object());
	if (strcmp(m->method, "tools/list") == 0)
		return tools_list(m);
	if (strcmp(m->method, "tools/call") == 0)
		return tools_call(x, m, alone);
	if ((j = mcp_resources(x->req, m)) || (j = mcp_prompts(m)))
		return j;
	return mcp_error(m->id, MCP_NO_METHOD, "there is no method '%.100s'", m->method);
}

/* The call may run on any of them, and its client may be connected to several. */
static void tell_others(struct exchange *x)
{
	autofree struct node_seen *v = NULL;
	autobuf struct buf more = { 0 };
	autofree char *text = NULL;
	struct err err = { 0 };
	size_t n = 0;

	session_field(x, &more);
	text = buf_take_str(&more);
	if (!text || node_list(deps_of(x->req)->node, &v, &n, &err) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (v[i].health != NODE_DEAD &&
		    strcmp(v[i].row.id, node_id(deps_of(x->req)->node)) != 0 &&
		    cross_tell(x->req, v[i].row.id, text, SESSION_HEADER, &err) < 0)
			log_debug("node %s does not hear of a cancelled call: %s", v[i].row.name,
			          err.msg);
}

/* Notifications and responses; unknown ones get no reply. */
static void notice(struct exchange *x, const struct mcp_msg *m, bool alone)
{
	const json_t *id = json_object_get(m->params, "requestId");

	if (m->kind != MCP_NOTIFICATION || strcmp(m->method, "notifications/cancelled") != 0 || !id)
		return;
	mcp_cancel(deps_of(x->req)->mcp, who_of(x->req), x->session, id);
	if (alone && *x->session && deps_of(x->req)->peers && !*x->req->node)
		tell_others(x);
}

static json_t *take(struct exchange *x, const struct mcp_msg *m, bool alone)
{
	if (m->kind == MCP_REQUEST && m->method)
		return answer(x, m, alone);
	if (m->kind == MCP_INVALID)
		return mcp_error(m->id, MCP_INVALID_REQUEST, "%s", m->fault);
	notice(x, m, alone);
	return NULL;
}

static int take_batch(struct exchange *x, const struct mcp_batch *b, struct err *err)
{
	json_t *replies;

	if (x->version > MCP_2025_03_26)
		return send_json(x, 400,
		                 mcp_error(NULL, MCP_INVALID_REQUEST,
		                           "this version of the protocol has no batches"),
		                 err);
	replies = json_array();
	for (size_t i = 0; i < b->n; i++) {
		json_t *j = take(x, &b->msg[i], /* alone= */ false);

		if (j)
			json_array_append_new(replies, j);
	}
	if (json_array_size(replies))
		return send_json(x, 200, replies, err);
	json_decref(replies);
	return send_json(x, 202, NULL, err);
}

/* The node that has the VM of a message, if that is another. Resources are pando://vm/{id}... */
static bool owner_of(struct exchange *x, const struct mcp_msg *m, struct place *ret)
{
	static const char scheme[] = "pando://vm/";
	const json_t *args = json_object_get(m->params, "arguments");
	const char *vm = json_string_value(json_object_get(args, "vmId"));
	const char *uri = json_string_value(json_object_get(m->params, "uri"));
	struct err unused = { 0 };
	char id[ID_SIZE];

	if (!deps_of(x->req)->peers || *x->req->node || m->kind != MCP_REQUEST || !m->method)
		return false;
	if (uri && strncmp(uri, scheme, strlen(scheme)) == 0)
		vm = uri + strlen(scheme);
	if (!vm)
		return false;
	snprintf(id, sizeof(id), "%.*s", (int)strcspn(vm, "/"), vm);
	*ret = place_of_vm(deps_of(x->req)->peers, id, &unused);
	return ret->kind == PLACE_NODE;
}

/* The owner does not know its session, and only has it as a name. */
static int pass_on(struct exchange *x, const char *node, struct err *err)
{
	autobuf struct buf more = { 0 };
	autofree char *text = NULL;

	if (!request_header(x->req, "MCP-Protocol-Version"))
		buf_printf(&more, "MCP-Protocol-Version: %s\r\n", mcp_version_name(x->version));
	session_field(x, &more);
	text = buf_take_str(&more);
	return text ? cross_to(x->req, x->res, node, text, SESSION_HEADER, err)
	            : err_set(err, -ENOMEM, "out of memory");
}

static int take_messages(struct request *req, struct reply *res, struct err *err)
{
	AUTO(mcp_batch_done) struct mcp_batch b = { 0 };
	struct exchange x = { .req = req, .res = res };
	struct err fault = { 0 };
	struct place owner;
	const char *text;
	json_t *j;
	size_t n;
	int r;

	if ((r = check_origin(req, err)) < 0 || (r = check_type(req, res, err)) < 0 ||
	    (r = begin(&x, err)) < 0)
		return r;
	r = request_text(req, &text, &n, &fault);
	if (r == -EAGAIN) { /* told as HTTP, so that the client sees when to come again */
		*err = fault;
		return r;
	}
	if (r == 0)
		r = mcp_parse(text, n, &b, &fault);
	if (r < 0)
		return send_json(&x, 400,
		                 mcp_error(NULL,
		                           r == -EBADMSG || r == -E2BIG ? MCP_PARSE_ERROR
		                           : r == -EINVAL               ? MCP_INVALID_REQUEST
		                                                        : MCP_INTERNAL,
		                           "%s", fault.msg),
		                 err);
	if (!b.array && owner_of(&x, &b.msg[0], &owner))
		return pass_on(&x, owner.node, err);
	if (b.array)
		return take_batch(&x, &b, err);
	j = take(&x, &b.msg[0], /* alone= */ true);
	if (x.streamed)
		return 0;
	return send_json(&x, !j ? 202 : b.msg[0].kind == MCP_INVALID ? 400 : 200, j, err);
}

static int end_session(struct request *req, struct reply *res, struct err *err)
{
	const char *session = request_header(req, SESSION_HEADER);
	int r = check_origin(req, err);

	if (r < 0)
		return r;
	if (!session)
		return err_tag(err, -EINVAL, ERR_INVALID_REQUEST, SESSION_HEADER " is missing");
	if (is_elsewhere(&(struct exchange){ .req = req }, session))
		return cross_to(req, res, session + MCP_SESSION_HEX + 1, "", NULL, err);
	if (mcp_session_end(deps_of(req)->mcp, who_of(req), session) < 0)
		return no_session(err);
	return reply_json(res, json_object(), err);
}

/* clang-format off */
static const struct route mcp_routes[] = {
	{ METHOD_POST,   "/mcp", SCOPE_SELF, MIB(8),       take_messages,
	  "Messages of an MCP client: its tools are calls of this API", .flags = ROUTE_NO_TRAIL },
	{ METHOD_DELETE, "/mcp", SCOPE_SELF, BODY_IGNORED, end_session,
	  "End an MCP session", .flags = ROUTE_NO_TRAIL },
};
/* clang-format on */

void mcp_deps(struct mcp *m, struct api_deps *deps)
{
	deps->mcp = m;
	deps->more_routes = mcp_routes;
	deps->n_more_routes = ARRAY_SIZE(mcp_routes);
}
