# SPDX-License-Identifier: Apache-2.0
"""github_server.py - a small GitHub on the loopback: Apps made from manifests, installations, tokens, webhooks, Git

Its answers have the fields of GitHub's published schemas (REST API description: `integration`, `installation`,
`installation-token`, `repository`, `integration-from-manifest`; webhook payloads: push, create, installation,
installation_repositories, ping). Repositories are real ones behind `git http-backend`, which a token of an installation opens
if the installation reaches the repository, is not suspended and the token is not over. A JWT is judged by `openssl` and by the
server's own clock, which `skew` moves.
"""
import base64
import datetime
import hashlib
import hmac
import http.client
import http.server
import json
import os
import re
import secrets
import subprocess
import tempfile
import threading
import time
import urllib.parse
import uuid

BACKEND = "/usr/lib/git-core/git-http-backend"


def unpack(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def stamp(t):
    return datetime.datetime.fromtimestamp(t, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class App:
    def __init__(self, hub, number, manifest):
        self.hub, self.id, self.manifest = hub, number, manifest
        self.slug = manifest["name"].lower()
        self.pem = subprocess.run(["openssl", "genrsa", "-traditional", "2048"], check=True, capture_output=True, text=True, timeout=60).stdout
        self.public = os.path.join(hub.top, f"{number}.pem")
        subprocess.run(["openssl", "pkey", "-pubout", "-out", self.public], input=self.pem.encode(), check=True, timeout=30)
        self.client_id, self.client_secret = f"Iv1.{secrets.token_hex(8)}", secrets.token_hex(20)
        self.webhook_secret = secrets.token_hex(20)

    def shape(self):
        return {"id": self.id, "slug": self.slug, "node_id": "MDExOkludGVncmF0aW9uMQ==", "client_id": self.client_id,
                "owner": {"login": "maker", "id": 1, "node_id": "x", "type": "User"}, "name": self.manifest["name"], "description": None,
                "external_url": self.manifest["url"], "html_url": f"{self.hub.url}/apps/{self.slug}", "created_at": stamp(0),
                "updated_at": stamp(0), "permissions": self.manifest["default_permissions"], "events": self.manifest["default_events"]}


class Installation:
    def __init__(self, hub, app, number, login, kind, repos, user):
        self.hub, self.app, self.id, self.login, self.kind, self.repos, self.user = hub, app, number, login, kind, repos, user
        self.suspended = self.gone = False

    def shape(self):
        return {"id": self.id, "account": {"login": self.login, "id": 7, "node_id": "x", "type": self.kind}, "repository_selection": "selected",
                "access_tokens_url": f"{self.hub.api}/app/installations/{self.id}/access_tokens",
                "repositories_url": f"{self.hub.api}/installation/repositories", "html_url": f"{self.hub.url}/settings/installations/{self.id}",
                "app_id": self.app.id, "app_slug": self.app.slug, "target_id": 7, "target_type": self.kind,
                "permissions": self.app.manifest["default_permissions"], "events": self.app.manifest["default_events"],
                "created_at": stamp(0), "updated_at": stamp(0), "single_file_name": None,
                "suspended_at": stamp(0) if self.suspended else None, "suspended_by": None}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def date_time_string(self, timestamp=None):
        return super().date_time_string(time.time() + self.server.hub.skew if timestamp is None else timestamp)

    def log_message(self, *args):
        pass

    def say(self, status, body=None, **headers):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            pass

    def any(self):
        hub = self.server.hub
        self.data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query))
        hub.log.append((self.command, url.path))
        for method, pattern, fn in ROUTES:
            m = re.fullmatch(pattern, url.path)
            if m and method == self.command:
                return fn(self, hub, *m.groups())
        if re.match(r"/[^/]+/[^/]+\.git/", url.path):
            return self.git(hub, url)
        return self.say(404, {"message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404"})

    do_GET = do_POST = do_DELETE = do_PATCH = any

    # ---- who asks ----

    def bearer(self):
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def app(self, hub):
        """The App whose JWT it is; None, with an answer: it is none."""
        parts = self.bearer().split(".")
        why, app = "A JSON web token could not be decoded", None
        if len(parts) == 3:
            head, claims = json.loads(unpack(parts[0])), json.loads(unpack(parts[1]))
            now = time.time() + hub.skew
            app = hub.apps.get(str(claims.get("iss")))
            if not app or head != {"alg": "RS256", "typ": "JWT"}:
                why = "Integration not found"
            elif not claims["iat"] <= now:
                why = "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
            elif not now < claims["exp"] <= now + 600:
                why = "'Expiration time' claim ('exp') is too far in the future"
            else:
                with tempfile.NamedTemporaryFile() as sig:
                    sig.write(unpack(parts[2]))
                    sig.flush()
                    ok = subprocess.run(["openssl", "dgst", "-sha256", "-verify", app.public, "-signature", sig.name],
                                        input=f"{parts[0]}.{parts[1]}".encode(), capture_output=True, timeout=30)
                why = "A JSON web token could not be decoded" if ok.returncode else None
        if why is None:
            return app
        hub.refusals.append(why)
        return self.say(401, {"message": why, "documentation_url": "https://docs.github.com/rest"})

    def installation(self, hub, number, app):
        i = hub.installations.get(int(number))
        return i if i and i.app is app and not i.gone else self.say(404, {"message": "Not Found"})

    def token(self, hub):
        t = hub.tokens.get(self.bearer())
        if t and t["until"] > time.time() + hub.skew and not t["installation"].suspended and not t["installation"].gone:
            return t
        return self.say(401, {"message": "Bad credentials"})

    # ---- pages ----

    def new_app(self, hub, _=None):
        form = dict(urllib.parse.parse_qsl(self.data.decode()))
        code = secrets.token_hex(20)
        with hub.lock:
            app = App(hub, 1000 + len(hub.apps), json.loads(form["manifest"]))
            hub.apps[str(app.id)] = app
            hub.codes[code] = app
        self.say(302, None, Location=f"{app.manifest['redirect_url']}?code={code}&state={self.query['state']}")

    def new_installation(self, hub, slug):
        """What the user `hub.user` chooses is `hub.choice`; then his browser is sent back."""
        app = next(a for a in hub.apps.values() if a.slug == slug)
        i = hub.install(app)
        q = {"installation_id": i.id, "setup_action": "install", "state": self.query.get("state", "")}
        back = app.manifest.get("setup_url")
        if app.manifest.get("request_oauth_on_install"):
            back = app.manifest["callback_urls"][0]
            q["code"] = hub.user_code()
        self.say(302, None, Location=f"{back}?{urllib.parse.urlencode(q)}")

    def oauth(self, hub):
        b = json.loads(self.data)
        user = hub.user_codes.pop(b.get("code"), None)
        app = next((a for a in hub.apps.values() if a.client_id == b.get("client_id")), None)
        if not user or not app or app.client_secret != b.get("client_secret"):
            return self.say(200, {"error": "bad_verification_code", "error_description": "The code passed is incorrect or expired."})
        t = "ghu_" + secrets.token_hex(18)
        hub.user_tokens[t] = user
        self.say(200, {"access_token": t, "expires_in": 28800, "token_type": "bearer", "scope": ""})

    # ---- the API ----

    def conversion(self, hub, code):
        app = hub.codes.pop(code, None)
        if not app:
            return self.say(404, {"message": "Not Found"})
        self.say(201, {**app.shape(), "client_secret": app.client_secret, "webhook_secret": app.webhook_secret, "pem": app.pem})

    def get_app(self, hub):
        app = self.app(hub)
        if app:
            self.say(200, {**app.shape(), "installations_count": 1})

    def get_installation(self, hub, number):
        app = self.app(hub)
        i = app and self.installation(hub, number, app)
        if i:
            self.say(200, i.shape())

    def delete_installation(self, hub, number):
        app = self.app(hub)
        i = app and self.installation(hub, number, app)
        if i:
            i.gone = True
            self.say(204)

    def access_token(self, hub, number):
        app = self.app(hub)
        i = app and self.installation(hub, number, app)
        if not i:
            return
        if i.suspended:
            return self.say(403, {"message": "This installation has been suspended"})
        names = json.loads(self.data or b"{}").get("repositories")
        repos = [r for r in i.repos if names is None or r.split("/")[1] in names]
        if names is not None and len(repos) != len(names):
            return self.say(422, {"message": "There is at least one repository that does not exist or is not accessible"})
        t = "ghs_" + secrets.token_hex(18)
        until = time.time() + hub.skew + hub.life
        hub.tokens[t] = {"installation": i, "repos": repos, "until": until}
        hub.made.append((i.id, names))
        self.say(201, {"token": t, "expires_at": stamp(until), "permissions": app.manifest["default_permissions"],
                       "repository_selection": "selected", "repositories": [hub.repo_shape(r) for r in repos]})

    def paged(self, hub, repos, shape):
        n, page = int(self.query.get("per_page", 30)), int(self.query.get("page", 1))
        self.say(200, {"total_count": len(repos), "repository_selection": "selected", "repositories": [shape(r) for r in repos[(page - 1) * n:page * n]]})

    def installation_repos(self, hub):
        t = self.token(hub)
        if t:
            self.paged(hub, t["installation"].repos, hub.repo_shape)

    def user_repos(self, hub, number):
        user, i = hub.user_tokens.get(self.bearer()), hub.installations.get(int(number))
        if not user:
            return self.say(401, {"message": "Bad credentials"})
        seen = [r for r in i.repos if hub.access.get((user, r))] if i and not i.gone else []
        if not seen:
            return self.say(404, {"message": "Not Found"})

        def shape(r):
            admin = hub.access[(user, r)] == "admin"
            return {**hub.repo_shape(r), "permissions": {"admin": admin, "maintain": admin, "push": admin, "triage": admin, "pull": True}}
        self.paged(hub, seen, shape)

    # ---- Git ----

    def git(self, hub, url):
        name = re.match(r"/([^/]+/[^/]+)\.git/", url.path).group(1)
        user, _, token = base64.b64decode((self.headers.get("Authorization") or "").removeprefix("Basic ")).decode().partition(":")
        t = hub.tokens.get(token)
        why = ("no token" if not t else "over" if t["until"] <= time.time() + hub.skew else "suspended" if t["installation"].suspended else
               "gone" if t["installation"].gone else "another repository" if name not in t["repos"] or name not in t["installation"].repos else None)
        if user != "x-access-token" or why:
            hub.refusals.append(f"git: {why}")
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="GitHub"')
            self.end_headers()
            return
        hub.used.append(token)
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": hub.root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": url.path, "QUERY_STRING": url.query,
               "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""), "REMOTE_USER": "x", "REMOTE_ADDR": "127.0.0.1",
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
               "CONTENT_LENGTH": str(len(self.data)), "GIT_CONFIG_NOSYSTEM": "1", "HOME": hub.root}
        out = subprocess.run([BACKEND], input=self.data, env=env, capture_output=True, timeout=60).stdout
        head, _, rest = out.partition(b"\r\n\r\n")
        lines = [h.split(": ", 1) for h in head.decode().split("\r\n") if ": " in h]
        self.send_response(int(next((v for k, v in lines if k == "Status"), "200").split()[0]))
        for k, v in lines:
            if k != "Status":
                self.send_header(k, v)
        self.end_headers()
        try:
            self.wfile.write(rest)
        except OSError:
            pass


API = r"/api/v3"
ROUTES = [
    ("POST", r"/settings/apps/new", Handler.new_app),
    ("POST", r"/organizations/([\w-]+)/settings/apps/new", Handler.new_app),
    ("GET", r"/apps/([\w-]+)/installations/new", Handler.new_installation),
    ("POST", r"/login/oauth/access_token", Handler.oauth),
    ("POST", API + r"/app-manifests/(\w+)/conversions", Handler.conversion),
    ("GET", API + r"/app", Handler.get_app),
    ("GET", API + r"/app/installations/(\d+)", Handler.get_installation),
    ("DELETE", API + r"/app/installations/(\d+)", Handler.delete_installation),
    ("POST", API + r"/app/installations/(\d+)/access_tokens", Handler.access_token),
    ("GET", API + r"/installation/repositories", Handler.installation_repos),
    ("GET", API + r"/user/installations/(\d+)/repositories", Handler.user_repos),
]


class GitHub:
    def __init__(self):
        self.top = tempfile.mkdtemp(prefix="pando-github-")
        self.root = os.path.join(self.top, "repos")
        os.mkdir(self.root)
        self.lock = threading.Lock()
        self.apps, self.codes, self.installations, self.tokens = {}, {}, {}, {}
        self.user_codes, self.user_tokens, self.access = {}, {}, {}
        self.log, self.refusals, self.made, self.used = [], [], [], []
        self.skew, self.life = 0, 3600
        self.user, self.choice = "octocat", ("octocat", "User", [])
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.hub = self
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.api = self.url + "/api/v3"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        subprocess.run(["rm", "-rf", self.top], check=False, timeout=60)

    def repo(self, name, admin="octocat"):
        """A new repository that this user administers; its path."""
        path = os.path.join(self.root, f"{name}.git")
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", path], check=True, timeout=30)
        subprocess.run(["git", "-C", path, "config", "http.receivepack", "true"], check=True, timeout=30)
        self.access[(admin, name)] = "admin"
        return path

    def repo_shape(self, name):
        owner, short = name.split("/")
        return {"id": abs(hash(name)) % 10**9, "node_id": "x", "name": short, "full_name": name, "private": True,
                "owner": {"login": owner, "id": 7, "node_id": "x", "type": "User"}, "html_url": f"{self.url}/{name}", "description": None,
                "fork": False, "url": f"{self.api}/repos/{name}", "clone_url": f"{self.url}/{name}.git", "default_branch": "main"}

    def install(self, app):
        login, kind, repos = self.choice
        with self.lock:
            have = next((i for i in self.installations.values() if i.app is app and i.login == login and not i.gone), None)
            if have:
                return have
            i = Installation(self, app, 5000 + len(self.installations), login, kind, list(repos), self.user)
            self.installations[i.id] = i
            return i

    def user_code(self):
        code = secrets.token_hex(10)
        self.user_codes[code] = self.user
        return code

    # ---- webhooks ----

    def sender(self):
        return {"login": self.user, "id": 7, "node_id": "x", "type": "User"}

    def push_payload(self, installation, name, ref="refs/heads/main", before="0" * 40, after="1" * 40):
        return {"ref": ref, "before": before, "after": after, "created": before == "0" * 40, "deleted": after == "0" * 40, "forced": False,
                "base_ref": None, "compare": f"{self.url}/{name}/compare", "commits": [], "head_commit": None, "repository": self.repo_shape(name),
                "pusher": {"name": self.user, "email": "x@example.org"}, "sender": self.sender(),
                "installation": {"id": installation.id, "node_id": "MDIzOkludGVncmF0aW9uSW5zdGFsbGF0aW9uMQ=="}}

    def installation_payload(self, installation, action, **more):
        return {"action": action, "installation": installation.shape(), "repositories": [self.repo_shape(r) for r in installation.repos],
                "requester": None, "sender": self.sender(), **more}

    def deliver(self, app, event, payload, secret=None, delivery=None, headers=None, url=None):
        """Sends a webhook as GitHub does: status and JSON of the answer."""
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        sig = hmac.new((secret or app.webhook_secret).encode(), body, hashlib.sha256).hexdigest()
        sent = {"Content-Type": "application/json", "User-Agent": "GitHub-Hookshot/044aadd", "X-GitHub-Delivery": delivery or str(uuid.uuid4()),
                "X-GitHub-Event": event, "X-GitHub-Hook-ID": "292430182", "X-GitHub-Hook-Installation-Target-ID": str(app.id),
                "X-GitHub-Hook-Installation-Target-Type": "integration", "X-Hub-Signature-256": f"sha256={sig}", **(headers or {})}
        to = urllib.parse.urlsplit(url or app.manifest["hook_attributes"]["url"])
        c = http.client.HTTPConnection(to.hostname, to.port, timeout=60)
        try:
            c.request("POST", to.path, body=body, headers={k: v for k, v in sent.items() if v is not None})
            r = c.getresponse()
            text = r.read()
            return r.status, json.loads(text) if text[:1] == b"{" else text
        finally:
            c.close()


class Browser:
    """Follows links as a browser does: cookies, one form, redirects until there is a page."""

    def __init__(self):
        self.cookies = {}

    def go(self, url, form=None):
        for _ in range(10):
            u = urllib.parse.urlsplit(url)
            c = http.client.HTTPConnection(u.hostname, u.port, timeout=60)
            headers = {"Accept": "text/html"}
            jar = self.cookies.get(u.netloc, {})
            if jar and u.path.startswith("/git/v1/github"):
                headers["Cookie"] = "; ".join(f"{k}={v}" for k, v in jar.items())
            body = None
            if form is not None:
                body, form = urllib.parse.urlencode(form), None
                headers["Content-Type"] = "application/x-www-form-urlencoded"
            c.request("POST" if body else "GET", u.path + ("?" + u.query if u.query else ""), body=body, headers=headers)
            r = c.getresponse()
            self.status, self.page, self.headers, self.url = r.status, r.read().decode(), r.headers, url
            c.close()
            for line in r.headers.get_all("Set-Cookie") or []:
                k, _, v = line.split(";")[0].partition("=")
                jar = self.cookies.setdefault(u.netloc, {})
                jar.pop(k, None) if "Max-Age=0" in line else jar.update({k: v})
            if r.status not in (301, 302, 303):
                return self.page
            url = urllib.parse.urljoin(url, r.headers["Location"])
        raise AssertionError("too many redirects")
