/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.c - libmicrohttpd on one side, routes and handlers on the other
 *
 * The library calls on_request() once when the headers are there, then for
 * each piece of the body, then once more when it is complete. Path, method, caller and
 * size are checked at the first call; a rejected request still has its (bounded) body
 * read and dropped before the reply, because closing a connection with unread data
 * destroys the reply on its way, and a client that never sees the error tries again.
 * Nothing of a body is kept before its caller was admitted.
 *
 * A connection has its own thread: a handler may block. While it does the
 * connection has no deadline; in every other phase it has one (timeouts.c).
 */
#include "http/http_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"

#define HEADER_MS 20000  /* from the connection, or the first byte we wait for, to whole headers */
#define IDLE_MS 60000    /* an open connection between two requests */
#define REFUSED_MS 10000 /* for the rest of a request that is refused anyway */

/* What belongs to a connection. */
struct link {
	struct timeout *timeout;
	struct visitor *visitor;
	int nice;                      /* how much nicer its thread is; heavy.c */
	char origin[HTTP_ORIGIN_SIZE]; /* of an adopted one, or "" */
	char node[HTTP_ORIGIN_SIZE];   /* of one that another node has made, or "" */
};

static void phase(struct request *req, uint64_t deadline_ms)
{
	timeout_set(req->timeout, deadline_ms);
}

/* No lock, because every request passes through here: http_stop() sets draining first and then
 * checks running.
 */
bool http_count_in(struct http *h)
{
	atomic_fetch_add(&h->running, 1);
	if (!atomic_load(&h->draining))
		return true;
	http_count_out(h);
	return false;
}

void http_count_out(struct http *h)
{
	if (atomic_fetch_sub(&h->running, 1) > 1 || !atomic_load(&h->draining))
		return;
	LOCK_SCOPE(&h->lock);
	cond_broadcast(&h->idle);
}

void http_count_out_last(struct http *h)
{
	LOCK_SCOPE(&h->lock);
	atomic_fetch_sub(&h->running, 1);
	cond_broadcast(&h->idle);
}

static void refuse(struct request *req, int r, unsigned status)
{
	if (req->refused)
		return;
	req->refused = r;
	req->refused_status = status;
	if (!req->refusal.msg[0])
		err_set(&req->refusal, r, "the request was rejected");
}

static void find_route(struct request *req, const char *raw_path)
{
	int m = method_parse(req->method_text);
	struct err *e = &req->refusal;
	int r = route_find(req->http->routes, req->http->n_routes,
	                   m < 0 ? METHOD_GET : (enum method)m, raw_path, &req->match);

	if (r == 0 && m < 0)
		r = -EOPNOTSUPP;
	switch (r) {
	case 0:
		return;
	case -ENOENT:
		refuse(req,
		       err_tag(e, r, ERR_NOT_FOUND, "there is no route %s %.200s", req->method_text,
		               req->path),
		       404);
		return;
	case -EOPNOTSUPP:
		refuse(req,
		       err_tag(e, r, ERR_INVALID_REQUEST, "%s is not allowed on %.200s",
		               req->method_text, req->path),
		       405);
		return;
	case -ENAMETOOLONG:
		refuse(req,
		       err_tag(e, r, ERR_INVALID_REQUEST, "the path is longer than %u bytes",
		               ROUTE_PATH_MAX - 1),
		       414);
		return;
	default:
		refuse(req, err_tag(e, r, ERR_INVALID_REQUEST, "the path is not properly encoded"),
		       400);
	}
}

/* Identifies the caller and checks permission. */
static void admit(struct request *req)
{
	int r = req->http->app.admit(req, &req->refusal);

	request_name_holder(req);
	if (r < 0)
		refuse(req, r, req->quiet ? MHD_HTTP_TOO_MANY_REQUESTS : 0);
}

/* What nobody has to be admitted for is counted too, or it would be free to ask for it. */
static void turn_away(struct request *req)
{
	struct err err = { 0 };
	int r = req->http->app.turned_away(req, &err);

	request_name_holder(req);
	if (r == 0)
		return;
	req->refused = 0;
	req->refusal = err;
	refuse(req, r, MHD_HTTP_TOO_MANY_REQUESTS);
}

/* Once it is known who asks. */
static void enter(struct request *req)
{
	int r = limits_enter(req, &req->refusal);

	if (r < 0)
		refuse(req, r, 0);
}

/* Whoever has no key is given little: Git, and what asks about large files, needs no more. */
static uint64_t body_max(const struct request *req)
{
	uint64_t max = req->match.route->body_max;

	return *req->account ? max : MIN(max, HTTP_ANONYMOUS_BODY);
}

static void refuse_size(struct request *req)
{
	refuse(req,
	       err_tag(&req->refusal, -E2BIG, ERR_INVALID_REQUEST,
	               "the body of %s %s is at most %" PRIu64 " bytes%s",
	               method_name(req->match.route->method), req->match.route->pattern,
	               body_max(req),
	               body_max(req) < req->match.route->body_max ? " without a key" : ""),
	       413);
}

static uint64_t announced_length(struct request *req)
{
	const char *s = request_header(req, MHD_HTTP_HEADER_CONTENT_LENGTH);

	return s ? strtoull(s, NULL, 10)
	         : 0; /* the library rejects anything that is not a number */
}

static enum MHD_Result refuse_now(struct request *req)
{
	struct reply res = { .status = req->refused_status, .close = true };
	enum MHD_Result ok;

	if (req->refused_status == 405)
		res.allow = req->match.allow;
	ok = reply_send(req, &res, req->refused, &req->refusal);
	reply_done(&res);
	return ok;
}

static bool is_streamed(const struct request *req)
{
	return !req->refused && !req->preflight && req->match.route->intake;
}

/* The receiver of the body is opened before the client is told to send it. */
static void open_intake(struct request *req)
{
	int r;

	if (!is_streamed(req))
		return;
	phase(req, /* deadline_ms= */ 0);
	req->taker = req->match.route->intake;
	if (req->http->app.intake)
		req->http->app.intake(req, &req->taker);
	r = req->taker->open(req, &req->refusal);
	if (r < 0)
		refuse(req, r, 0);
}

/* An upload may take long, and the caller may have lost access since it began. */
static int check_allowed(struct request *req)
{
	if (req->http->app.allowed(req))
		return 0;
	return err_tag(&req->refusal, -EACCES, ERR_FORBIDDEN,
	               "the key, token or permission has been revoked");
}

/* The headers are complete. */
static enum MHD_Result on_headers(struct http *h, struct MHD_Connection *conn, const char *url,
                                  const char *method, const char *version, void **ctx)
{
	const union MHD_ConnectionInfo *ci =
	        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct link *l = ci ? ci->socket_context : NULL;
	struct request *req;
	uint64_t len;
	int r;

	if (!l || !lobby_heard(h->lobby, l->visitor) || !(req = request_new(h)))
		return MHD_NO;
	*ctx = req;
	req->conn = conn;
	req->timeout = l->timeout;
	req->visitor = l->visitor;
	req->nice = &l->nice;
	memcpy(req->origin, l->origin, sizeof(req->origin));
	req->method_text = method;
	request_trace(req->trace);
	node_headers_read(req, l->node);
	snprintf(req->path, sizeof(req->path), "%s", url);
	h->app.mask(req->path); /* it is logged */
	req->counted = http_count_in(h);
	req->preflight = strcmp(method, "OPTIONS") == 0;

	if (!req->counted)
		refuse(req,
		       err_tag(&req->refusal, -ESHUTDOWN, ERR_UNAVAILABLE,
		               "the server is shutting down"),
		       503);
	if (!req->refused && (r = framing_check(req, version, &req->refusal)) < 0) {
		/* It is unclear where the next request begins. */
		refuse(req, r, 400);
		turn_away(req);
		return refuse_now(req);
	}
	if (!req->refused && !req->preflight)
		find_route(req, url);
	if (!req->refused && !req->preflight)
		admit(req);
	else if (req->counted)
		turn_away(req);
	else
		request_name_holder(req);
	if (!req->refused && !req->preflight)
		enter(req);
	heavy_begin(req);
	len = announced_length(req);
	if (!req->refused && !req->preflight && len > body_max(req))
		refuse_size(req);
	/* Whoever is refused stays a stranger, and may have to make room. */
	if (!req->refused && !req->preflight && !lobby_busy(h->lobby, req->visitor))
		return MHD_NO;
	open_intake(req);
	if (req->refused && (len > DISCARD_MAX || request_header(req, "Expect")))
		return refuse_now(req);
	phase(req, req->refused       ? deadline_in(REFUSED_MS)
	           : is_streamed(req) ? deadline_in(STALL_MS)
	                              : timeout_for(len));
	return MHD_YES;
}

/* The client has STALL_MS for the next piece; while the guest takes this one, no deadline. */
static int pass_on(struct request *req, const char *p, size_t n)
{
	int r;

	phase(req, /* deadline_ms= */ 0);
	r = check_allowed(req);
	if (r == 0)
		r = req->taker->data(req, p, n, &req->refusal);
	phase(req, deadline_in(STALL_MS));
	return r;
}

static enum MHD_Result on_body(struct request *req, const char *p, size_t n)
{
	int r;

	if (!req->refused && !req->preflight && !is_streamed(req) &&
	    req->body.len + n > body_max(req))
		refuse_size(req);
	if (req->refused || req->preflight) {
		/* Dropped and counted: the library cannot reply in the middle of a body, only
		 * close. */
		body_done(&req->body);
		req->dropped += n;
		return req->dropped <= DISCARD_MAX ? MHD_YES : MHD_NO;
	}
	r = is_streamed(req) ? pass_on(req, p, n) : body_add(&req->body, p, n, &req->refusal);
	if (r < 0)
		refuse(req, r, 0);
	return MHD_YES;
}

static enum MHD_Result on_complete(struct request *req)
{
	struct err err = { 0 };
	struct reply res = { 0 };
	enum MHD_Result ok;
	int r;

	phase(req, /* deadline_ms= */ 0);
	if (is_streamed(req) && (r = check_allowed(req)) < 0)
		refuse(req, r, 0);
	if (req->preflight && !req->refused) {
		res.status = MHD_HTTP_NO_CONTENT;
		r = 0;
	} else if (req->refused) {
		err = req->refusal;
		r = req->refused;
		res.status = req->refused_status;
		res.close = !req->counted || (req->quiet && !*req->account);
		if (res.status == 405)
			res.allow = req->match.allow;
	} else {
		r = req->http->app.run(req, &res, &err);
	}
	ok = reply_send(req, &res, r, &err);
	reply_done(&res);
	return ok;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *conn, const char *url,
                                  const char *method, const char *version, const char *upload_data,
                                  size_t *upload_data_size, void **ctx)
{
	struct request *req = *ctx;

	if (!req)
		return on_headers(cls, conn, url, method, version, ctx);
	if (*upload_data_size) {
		enum MHD_Result ok = on_body(req, upload_data, *upload_data_size);

		*upload_data_size = 0;
		return ok;
	}
	return on_complete(req);
}

/* The reply was sent, or the connection ended: the request is over. */
static void on_request_end(void *cls, struct MHD_Connection *conn, void **ctx,
                           enum MHD_RequestTerminationCode why)
{
	struct request *req = *ctx;

	if (req) {
		heavy_end(req);
		phase(req, deadline_in(IDLE_MS));
		lobby_over(req->http->lobby, req->visitor, *req->account || *req->node);
	}
	*ctx = request_free(req);
}

static enum MHD_Result on_accept(void *cls, const struct sockaddr *sa, socklen_t len)
{
	struct http *h = cls;

	return lobby_admit(h->lobby, sa) ? MHD_YES : MHD_NO;
}

static void link_free(struct http *h, struct link *l)
{
	if (!l)
		return;
	timeout_remove(h->timeouts, l->timeout);
	lobby_leave(h->lobby, l->visitor);
	free(l);
}

/* NULL: out of memory; its first request then ends it. */
static struct link *link_new(struct http *h, struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *fd =
	        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	const union MHD_ConnectionInfo *peer =
	        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	struct link *l = fd && peer ? calloc(1, sizeof(*l)) : NULL;

	if (!l)
		return NULL;
	adopted_take(h, fd->connect_fd, l->origin, l->node);
	l->timeout = timeout_add(h->timeouts, fd->connect_fd);
	l->visitor = lobby_enter(h->lobby, fd->connect_fd, peer->client_addr);
	if (!l->timeout || !l->visitor) {
		link_free(h, l);
		return NULL;
	}
	return l;
}

static void on_connection(void *cls, struct MHD_Connection *conn, void **socket_ctx,
                          enum MHD_ConnectionNotificationCode what)
{
	struct http *h = cls;
	struct link *l;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		link_free(h, *socket_ctx);
		*socket_ctx = NULL;
		return;
	}
	*socket_ctx = l = link_new(h, conn);
	if (l)
		timeout_set(l->timeout,
		            deadline_in(h->conf.header_ms ? h->conf.header_ms : HEADER_MS));
}

/* Paths stay as they came; route.c decodes each segment, request_query() each value. */
static size_t keep_escaped(void *cls, struct MHD_Connection *conn, char *s)
{
	return strlen(s);
}

static void on_library_log(void *cls, const char *fmt, va_list ap)
        __attribute__((format(printf, 2, 0)));
static void on_library_log(void *cls, const char *fmt, va_list ap)
{
	char line[256];

	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = '\0';
	log_debug("http: %s", line);
}

static int make_url(struct http *h, struct err *err)
{
	char host[INET6_ADDRSTRLEN], port[8];
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	if (getsockname(h->listen_fd, (struct sockaddr *)&sa, &len) < 0)
		return err_sys(err, -errno, "get the listening address");
	if (getnameinfo((struct sockaddr *)&sa, len, host, sizeof(host), port, sizeof(port),
	                NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return err_set(err, -EAFNOSUPPORT, "the listening address cannot be printed");
	snprintf(h->url, sizeof(h->url), strchr(host, ':') ? "http://[%s]:%s" : "http://%s:%s",
	         host, port);
	return 0;
}

static void http_free(struct http *h)
{
	if (!h)
		return;
	if (h->daemon)
		MHD_stop_daemon(h->daemon);
	if (h->listen_fd >= 0)
		close(h->listen_fd);
	if (h->drain_fd >= 0)
		close(h->drain_fd);
	timeouts_free(h->timeouts);
	lobby_free(h->lobby);
	limits_free(h);
	cond_destroy(&h->idle);
	mutex_destroy(&h->lock);
	free(h->routes);
	free(h);
}

static void http_freep(struct http **h)
{
	http_free(*h);
}

static struct http *http_new(const struct http_conf *conf, const struct http_app *app)
{
	struct http *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->conf = *conf;
	h->app = *app;
	if (!h->conf.limits.strangers.full)
		h->conf.limits.strangers = HTTP_STRANGERS_DEFAULT;
	h->listen_fd = conf->listen_fd;
	h->drain_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	mutex_init(&h->lock, "http");
	adopted_init(h);
	cond_init(&h->idle);
	return h;
}

int http_route_index(const struct request *req)
{
	const struct route *r = req->match.route;
	const struct http *h = req->http;

	return r >= h->routes && r < h->routes + h->n_routes ? (int)(r - h->routes) : -1;
}

static int copy_routes(struct http *h, struct err *err)
{
	const struct http_app *app = &h->app;

	h->n_routes = app->n_routes + app->n_more_routes;
	h->routes = calloc(h->n_routes, sizeof(*h->routes));
	if (!h->routes)
		return err_set(err, -ENOMEM, "out of memory");
	memcpy(h->routes, app->routes, app->n_routes * sizeof(*h->routes));
	if (app->n_more_routes)
		memcpy(h->routes + app->n_routes, app->more_routes,
		       app->n_more_routes * sizeof(*h->routes));
	return 0;
}

int http_start(const struct http_conf *conf, const struct http_app *app, struct http **ret,
               struct err *err)
{
	AUTO(http_freep) struct http *h = http_new(conf, app);
	int r;

	if (!h) {
		close(conf->listen_fd);
		return err_set(err, -ENOMEM, "out of memory");
	}
	if (h->drain_fd < 0)
		return err_set(err, -EMFILE, "cannot create an event descriptor");
	/* A client that disconnects between poll and accept must not block the accepting thread. */
	if (fcntl(h->listen_fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(err, -errno, "listen without blocking");
	if ((r = make_url(h, err)) < 0 || (r = copy_routes(h, err)) < 0 ||
	    (r = timeouts_new(&h->timeouts, err)) < 0 || (r = malformed_init(err)) < 0 ||
	    (r = limits_new(h, err)) < 0 || (r = lobby_new(h, &h->lobby, err)) < 0)
		return r;
	h->daemon = MHD_start_daemon(
	        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
	                MHD_USE_ITC | MHD_USE_ERROR_LOG | MHD_ALLOW_UPGRADE,
	        0, on_accept, h, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_library_log, NULL,
	        MHD_OPTION_LISTEN_SOCKET, h->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
	        (unsigned)CONNECTIONS_MAX(h), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
	        (size_t)CONN_MEMORY, MHD_OPTION_UNESCAPE_CALLBACK, keep_escaped, NULL,
	        MHD_OPTION_NOTIFY_COMPLETED, on_request_end, NULL, MHD_OPTION_NOTIFY_CONNECTION,
	        on_connection, h, MHD_OPTION_END);
	if (!h->daemon)
		return err_set(err, -EIO, "cannot start the HTTP server on %s", h->url);
	*ret = TAKE_PTR(h);
	return 0;
}

int http_stop(struct http *h, unsigned drain_ms, struct err *err)
{
	uint64_t until = deadline_in(drain_ms);
	unsigned left;

	if (!h)
		return 0;
	mutex_lock(&h->lock);
	if (!h->draining) {
		h->draining = true;
		eventfd_write(h->drain_fd, 1);
		mutex_unlock(&h->lock);
		lobby_stop(h->lobby);
		/* The socket is ours again, but may only be closed once the threads are gone. */
		MHD_quiesce_daemon(h->daemon);
		shutdown(h->listen_fd, SHUT_RDWR);
		mutex_lock(&h->lock);
	}
	while (h->running && cond_wait_until(&h->idle, &h->lock, until))
		;
	left = h->running;
	mutex_unlock(&h->lock);
	if (left)
		return err_set(err, -EBUSY, "%u requests are still running", left);
	http_free(h);
	return 0;
}

const char *http_url(const struct http *h)
{
	return h->url;
}
