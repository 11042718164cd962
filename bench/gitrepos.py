# SPDX-License-Identifier: Apache-2.0
"""gitrepos.py - repositories beside what everyone has: git http-backend behind nginx, git grep; and a long list of them

Both servers are asked by the same git client for the same repositories, one after the other in each round; who is first changes
with the round. Two repositories: 100 MB in a few files that do not compress, and 20000 small files. A push is of the whole repository
into an empty one; both sides want a password, check what they get (receive.fsckObjects) and flush the same things to the disk (core.fsync).
Rounds end when a kind has had its time, after at least three.
"""
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
import urllib.parse
import uuid

import harness
import host
from kinds import Clock

BIG_FILES, BIG_BYTES = 20, 5 << 20
SMALL_FILES, SMALL_DIRS = 20000, 200
NEEDLE = "needle in a haystack"
REPOS = int(os.environ.get("PANDO_BENCH_REPOS", "10000"))
LISTS, OPENS, SEARCHES, SMALL_TURNS = 5, 20, 3, 3
ROUNDS_MIN = 3
BUDGET_S = {"wire": 75, "search": 10, "first": 10}  # of rounds; preparing takes as long again
FSYNC = "loose-object,pack,pack-metadata,reference"  # as server/git/jail.c has it

NGINX = """
daemon off; worker_processes 2; pid {dir}/nginx.pid; error_log {dir}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off; client_max_body_size 0; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
    server {{
        listen 127.0.0.1:{port}; auth_basic "git"; auth_basic_user_file {dir}/users;
        location / {{
            fastcgi_pass unix:{dir}/fcgi.sock; fastcgi_request_buffering off; fastcgi_buffering off; fastcgi_read_timeout 600;
            fastcgi_param SCRIPT_FILENAME /usr/lib/git-core/git-http-backend; fastcgi_param GIT_HTTP_EXPORT_ALL 1;
            fastcgi_param GIT_PROJECT_ROOT {dir}/repos; fastcgi_param PATH_INFO $uri; fastcgi_param REMOTE_USER $remote_user;
            fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param HTTP_CONTENT_ENCODING $http_content_encoding; fastcgi_param GIT_PROTOCOL $http_git_protocol;
        }}
    }}
}}
"""


def git(*args, cwd=None):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
           "GIT_AUTHOR_NAME": "B", "GIT_AUTHOR_EMAIL": "b@example.org", "GIT_COMMITTER_NAME": "B", "GIT_COMMITTER_EMAIL": "b@example.org"}
    r = subprocess.run(["git", "-c", "safe.directory=*", "-c", "pack.threads=1", "-c", "core.bigFileThreshold=1m", *args], cwd=cwd,
                       env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    if r.returncode > 1 or (r.returncode == 1 and args[0] != "grep"):
        raise RuntimeError(f"git {' '.join(args)}: {r.stderr}")
    return r.stdout


class Backend:
    """git http-backend, fcgiwrap, nginx: on a socket and a port of their own."""

    def __init__(self, top):
        self.dir, self.port, self.procs = os.path.join(top, "backend"), harness.free_port(), []
        os.makedirs(os.path.join(self.dir, "repos"))
        with open(os.path.join(self.dir, "nginx.conf"), "w") as f:
            f.write(NGINX.format(dir=self.dir, port=self.port))
        with open(os.path.join(self.dir, "users"), "w") as f:
            f.write("x:{PLAIN}password\n")
        for argv in (["fcgiwrap", "-c", "8", "-s", f"unix:{self.dir}/fcgi.sock"],
                     ["nginx", "-p", self.dir, "-c", f"{self.dir}/nginx.conf"]):
            self.procs.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                               start_new_session=True, preexec_fn=harness.child_setup))
        harness.wait_for("fcgiwrap's socket", lambda: os.path.exists(f"{self.dir}/fcgi.sock"), 20)
        os.chmod(f"{self.dir}/fcgi.sock", 0o777)
        for d in (top, self.dir):  # nginx's worker is another user; the run's directory lets it through
            os.chmod(d, 0o755)

    def new(self, name):
        path = os.path.join(self.dir, "repos", name)
        git("init", "-q", "--bare", path)
        for key, value in (("http.receivepack", "true"), ("receive.fsckObjects", "true"), ("core.fsync", FSYNC)):
            git("config", key, value, cwd=path)
        return f"http://x:password@127.0.0.1:{self.port}/{name}"

    def drop(self, name):
        shutil.rmtree(os.path.join(self.dir, "repos", name))

    def close(self):
        for p in self.procs:
            for pid in [*host.descendants(p.pid), p.pid]:
                host.kill(pid, signal.SIGTERM)
            p.wait(20)


def make_work(path, kind):
    git("init", "-q", "-b", "main", path)
    if kind == "big":
        for i in range(BIG_FILES):
            with open(os.path.join(path, f"part{i}"), "wb") as f:
                f.write(os.urandom(BIG_BYTES))
    else:
        for i in range(SMALL_FILES):
            d = os.path.join(path, f"dir{i % SMALL_DIRS}")
            os.makedirs(d, exist_ok=True)
            with open(os.path.join(d, f"file{i}.txt"), "w") as f:
                f.write(f"file {i}\n" + "some text that is much the same everywhere\n" * 20 + (NEEDLE + "\n" if i % 500 == 0 else ""))
    git("add", "-A", cwd=path)
    git("commit", "-qm", kind, cwd=path)


def new_repo(g):
    repo = g.s.api("POST", "/git/v1/repo", {})["repoId"]
    return repo, f"http://x:{g.s.key()}@127.0.0.1:{g.s.port}/{repo}"


def bounded(budget, what):
    """what(g, i) in round i, until the time is up."""
    def one(g):
        g.begin = getattr(g, "begin", None) or time.monotonic()
        g.round = getattr(g, "round", -1) + 1
        if g.round < ROUNDS_MIN or time.monotonic() - g.begin < BUDGET_S[budget]:
            what(g, g.round)
    return one


def prepare(g, kinds):
    g.top = os.path.join(os.path.dirname(g.s.dir), "git-work")
    shutil.rmtree(g.top, ignore_errors=True)
    os.makedirs(g.top)
    g.bare = Backend(g.top)
    g.urls = {}
    for kind in kinds:
        work = os.path.join(g.top, kind)
        make_work(work, kind)
        repo, url = new_repo(g)
        g.urls[kind] = {"pando": url, "backend": g.bare.new(kind), "repo": repo}
        for side in ("pando", "backend"):
            git("push", "-q", g.urls[kind][side], "main", cwd=work)
        # both as the same one pack, as they are after a while
        path = os.path.join(g.s.dir, "git/repos", f"{repo}.git")
        git("gc", "-q", cwd=path)
        subprocess.run(["chown", "-R", "pando:pando", path], check=True)
        objects = os.path.join(g.bare.dir, "repos", kind, "objects")
        shutil.rmtree(objects)
        shutil.copytree(os.path.join(path, "objects"), objects)


def sides(i):
    return ("pando", "backend") if i % 2 == 0 else ("backend", "pando")


def turns(i):
    """The small ones are soon done, and a single one says little."""
    return [("big", side) for side in sides(i)] + [("many", side) for k in range(SMALL_TURNS) for side in sides(i + k)]


def clone(g, i):
    for kind, side in turns(i):
        to = os.path.join(g.top, "clone")
        clock = Clock()
        git("clone", "-q", "--bare", g.urls[kind][side], to)
        g.record.add(f"git.clone.{kind}.{side}", clock.ms())
        shutil.rmtree(to)


def push(g, i):
    for kind, side in turns(i):
        repo, url = new_repo(g) if side == "pando" else (None, g.bare.new("push"))
        clock = Clock()
        git("push", "-q", url, "main", cwd=os.path.join(g.top, kind))
        g.record.add(f"git.push.{kind}.{side}", clock.ms())
        if repo:
            g.s.api("DELETE", f"/git/v1/repo/{repo}")
        else:
            g.bare.drop("push")


def wire(g, i):
    clone(g, i)
    push(g, i)


def search(name):
    def one(g, i):
        bare = os.path.join(g.bare.dir, "repos", "many")
        path = f"/git/v1/repo/{g.urls['many']['repo']}/search?" + urllib.parse.urlencode({"query": NEEDLE, "caseSensitive": "true"})
        for _ in range(SEARCHES):
            clock = Clock()
            found = g.s.api("GET", path)["totalFiles"]
            g.record.add(f"git.search{name}", clock.ms())
            clock = Clock()
            lines = git("grep", "-I", "-c", "-F", "-e", NEEDLE, "main", cwd=bare).splitlines()
            g.record.add(f"git.grep{name}", clock.ms())
            if not found == len(lines) == -(-SMALL_FILES // 500):
                raise RuntimeError(f"{found} and {len(lines)} files were found")
    return one


def texts_kept(g):
    """A file without a name that pandod has mapped."""
    for pid in [g.s.proc.pid, *host.descendants(g.s.proc.pid)]:
        try:
            with open(f"/proc/{pid}/maps") as f:
                if "/git/tmp/#" in f.read():
                    return True
        except OSError:
            pass  # it has ended
    return False


def prepare_search(g):
    """The first search has the texts made; from then on they are there."""
    prepare(g, ["many"])
    g.s.api("GET", f"/git/v1/repo/{g.urls['many']['repo']}/search?query=x&caseSensitive=true")
    harness.wait_for("texts of the repository", lambda: texts_kept(g), 60)


def prepare_list(g):
    """As many repositories as that, put in place while the server is down: no more of each than Git needs, or it takes minutes."""
    account = g.s.api("GET", "/auth/v1/whoami")["accountId"]
    repo = g.s.api("POST", "/git/v1/repo", {})["repoId"]
    g.s.api("POST", f"/git/v1/repo/{repo}/commits", {"message": "m", "files": [{"path": "a", "content": "1"}]})
    g.s.stop()
    top = os.path.join(g.s.dir, "git/repos")
    model = os.path.join(top, f"{repo}.git")
    git("gc", "-q", "--prune=now", cwd=model)
    pack = [os.path.join("objects/pack", n) for n in os.listdir(os.path.join(model, "objects/pack")) if n.endswith((".pack", ".idx"))]
    g.ids = [str(uuid.UUID(int=i, version=4)) for i in range(REPOS - 1)]
    for i in g.ids:
        here = os.path.join(top, f"{i}.git")
        for d in ("", "objects", "objects/pack", "refs"):
            os.mkdir(os.path.join(here, d), 0o700)
        for name in ("HEAD", "config", "packed-refs", *pack):  # links: nobody writes to them
            os.link(os.path.join(model, name), os.path.join(here, name))
    db = sqlite3.connect(os.path.join(g.s.dir, "pando.db"))
    now = int(time.time() * 1000)
    with db:
        db.executemany("INSERT INTO git_repos (id, account, name, is_public, created_ms, pushed_ms, bytes) VALUES (?, ?, ?, 0, ?, 0, 0)",
                       [(i, account, f"repo {n}", now + n) for n, i in enumerate(g.ids)])
    db.close()
    subprocess.run(["chown", "-R", "pando:pando", top, os.path.join(g.s.dir, "pando.db")], check=True)
    g.s.start()


def list_repos(g):
    for k in range(LISTS):
        clock = Clock()
        got = g.s.api("GET", f"/git/v1/repo?limit=100&offset={k * REPOS // LISTS}")
        g.record.add("git.list", clock.ms())
        if got["total"] != REPOS or len(got["repositories"]) != 100:
            raise RuntimeError(f"the list is of {got['total']}: {json.dumps(got)[:200]}")
    for i in g.ids[::max(1, len(g.ids) // OPENS)][:OPENS]:
        clock = Clock()
        g.s.api("GET", f"/git/v1/repo/{i}/contents/a")
        g.record.add("git.open", clock.ms())


# name, settings of its server, VMs kept ready, preparation, one round
KINDS = [
    ("git-wire", {"PANDO_POOL": "0"}, 0, lambda g: prepare(g, ["big", "many"]), bounded("wire", wire)),
    ("git-search", {"PANDO_POOL": "0"}, 0, prepare_search, bounded("search", search(""))),
    ("git-search-first", {"PANDO_POOL": "0", "PANDO_GIT_SEARCH_MB": "0"}, 0, lambda g: prepare(g, ["many"]), bounded("first", search(".first"))),
    ("git-list", {"PANDO_POOL": "0"}, 0, prepare_list, list_repos),
]
NAMES = [k[0] for k in KINDS]
