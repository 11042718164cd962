# SPDX-License-Identifier: Apache-2.0
"""harness.py - a whole Pando on this machine, for tests: pando-priv, pandod, VMs, and the proof that nothing is left

Theory of operation: a Server has a data directory of its own and free ports; image, template and accelerator probe
come from the shared cache, so the slow cold boot happens once per machine. This process is a "child subreaper": whatever
pando-priv leaves behind becomes our child, so stop() sees every process that outlived it. Names on the host carry the
instance's tag (a CRC-32C of the data directory), so looking for the tag finds all debris of this server and of no other.
However a test ends, atexit and the parent-death signal take the server down.
"""
import atexit
import ctypes
import http.client
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

import host
from ports import free_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PRIV = os.path.join(ROOT, "build/priv/pando-priv")
PANDOD = os.path.join(ROOT, os.environ.get("PANDO_BUILD", "build"), "server/pandod")  # build-asan: the same, looking for damaged memory
LAYERS = os.path.join(ROOT, "build/layers/libpando-layers.so")
QEMU = os.environ.get("PANDO_QEMU", "/usr/bin/qemu-system-x86_64")

PATIENCE = 3       # every limit below and in the tests is for an idle machine; this is for a busy one
READY_S = 300 * PATIENCE  # to a ready template: a cold boot, emulated, on a busy machine
STOP_S = 90 * PATIENCE    # SIGINT to the end, with VMs to be frozen
CALL_S = 120 * PATIENCE   # one API call
# no VMs kept ready: tests look at what is there, and the machine is small; test_pool.py has its own
DEFAULT_ENV = {"PANDO_VM_VCPUS": "2", "PANDO_VM_MEM_MB": "1024", "PANDO_VM_DISK_GB": "20", "PANDO_POOL": "0",
               "PANDO_BLANKS": "2", "PANDO_SIZES": "none"}

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
libc = ctypes.CDLL(None, use_errno=True)


class ApiError(Exception):
    def __init__(self, method, path, status, body):
        self.status, self.body = status, body if isinstance(body, dict) else {}
        self.code, self.message = self.body.get("code"), self.body.get("message")
        super().__init__(f"{method} {path}: {status} {self.code}: {self.message or body!r}")


class Exec:
    """What a command in a guest did."""

    def __init__(self, body):
        self.out, self.err, self.code = body.get("stdout") or "", body.get("stderr") or "", body["statusCode"]


def say(text):
    print(text, flush=True)


def test_dir():
    """Where data directories go: a real file system, because tmpfs counts against memory."""
    path = tempfile.mkdtemp(prefix="pando-test-", dir=os.environ.get("PANDO_TEST_DIR", "/var/tmp"))
    os.chmod(path, 0o755)  # pandod must be able to pass through; a data directory itself is closed below
    return path


def wait_for(what, check, limit_s, every_s=0.1):
    """Polls until check() gives something true, and returns it."""
    limit_s *= PATIENCE
    end = time.monotonic() + limit_s
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit_s} s: {what}")
        time.sleep(every_s)


def image_dir():
    """PANDO_IMAGE, or made now when a test is run by hand."""
    if not os.environ.get("PANDO_IMAGE"):
        out = subprocess.run([os.path.join(ROOT, "scripts/image.sh")], stdout=subprocess.PIPE, text=True, check=True)
        os.environ["PANDO_IMAGE"] = out.stdout.strip().splitlines()[-1]
    return os.environ["PANDO_IMAGE"]


def child_setup():
    # the server must not outlive us; SIGTERM lets it clean up
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Server:
    at = "127.0.0.1"  # where it listens

    def __init__(self, env=None, data_dir=None):
        self.dir = data_dir or test_dir()
        self.own_dir = data_dir is None
        os.makedirs(self.dir, exist_ok=True)
        self.tag = f"{host.crc32c(os.path.realpath(self.dir).encode()):08x}"
        self.log_path = os.path.join(test_logs(), f"server-{self.tag}.log")
        self.port, self.ssh_port, self.edge_port, self.edge_http_port = (free_port() for _ in range(4))
        self.env = {
            **os.environ, **DEFAULT_ENV,
            "PANDO_DATA_DIR": self.dir,
            "PANDO_CACHE_DIR": os.environ.get("PANDO_CACHE_DIR", "/var/cache/pando"),
            "PANDO_IMAGE": image_dir(),
            "PANDO_LISTEN": f"{self.at}:{self.port}",
            "PANDO_SSH_LISTEN": f"{self.at}:{self.ssh_port}",
            "PANDO_EDGE_LISTEN": f"{self.at}:{self.edge_port}",
            "PANDO_EDGE_HTTP_LISTEN": f"{self.at}:{self.edge_http_port}",
            **(env or {}),
        }
        self.proc = None
        self.rest = None  # files of the data directory when nothing but the template is there
        self.prefix = []  # put before the command: a namespace, a cgroup
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
        servers.append(self)

    # ---- life ----

    def argv(self):
        return [*self.prefix, PRIV, "--data", self.dir, "--user", "pando", "--qemu", QEMU, "--layers", LAYERS, "--", PANDOD]

    def spawn(self):
        """Starts it and waits for nothing."""
        for path in (PRIV, PANDOD, LAYERS):
            if not os.path.exists(path):
                raise AssertionError(f"{path} is missing: make build")
        shutil.chown(self.dir, "pando", "pando")
        os.chmod(self.dir, 0o700)
        with open(self.log_path, "ab") as log:
            self.proc = subprocess.Popen(self.argv(), cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL, stdout=log,
                                         stderr=log, start_new_session=True, preexec_fn=child_setup)
        return self

    def start(self, ready_s=READY_S):
        begin = time.monotonic()
        self.spawn()
        self.wait_ready(ready_s)
        if self.rest is None:
            self.rest = self.files()
        took = time.monotonic() - begin
        if took > 5:
            say(f"  (server ready after {took:.0f} s)")
        return self

    def wait_ready(self, limit_s=READY_S):
        end, beat = time.monotonic() + limit_s, time.monotonic() + 20
        note = "no answer yet"
        while time.monotonic() < end:
            if self.proc.poll() is not None:
                raise AssertionError(f"the server ended with {self.proc.returncode} before it was ready:\n{self.log_tail()}")
            try:
                status, h = self.request("GET", "/v1/health", timeout=5)
                template = h.get("template") or {}
                state = template.get("state") if isinstance(template, dict) else template
                note = json.dumps(h)
                if status == 200 and state == "ready":
                    return h
                if state == "failed":
                    raise AssertionError(f"the template failed: {note}")
            except (OSError, http.client.HTTPException, ValueError) as e:
                note = f"{e}; its log: {self.log_tail(1).strip()}"
            if time.monotonic() > beat:
                say(f"  (waiting for the server: {note[:200]})")
                beat += 20
            time.sleep(0.1)
        raise AssertionError(f"not ready after {limit_s} s: {note}\n{self.log_tail()}")

    def stop(self, sig=signal.SIGINT):
        """Ends it as Ctrl-C does; returns the exit code."""
        if self.proc is None:
            return None
        if self.proc.poll() is None:
            self.proc.send_signal(sig)
        try:
            return self.proc.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server did not end within {STOP_S} s of {sig.name}:\n{self.log_tail()}")

    def restart(self):
        self.stop()
        return self.start()

    def close(self):
        """For good, whatever state it is in: no process, nothing on the host, no directory."""
        if self in servers:
            servers.remove(self)
        try:
            if self.proc and self.proc.poll() is None:
                self.stop(signal.SIGTERM)
        except AssertionError as e:
            say(f"  ({str(e).splitlines()[0]}, killing it)")
        for pid in [*self.descendants(), *([self.proc.pid] if self.proc and self.proc.poll() is None else [])]:
            host.kill(pid, signal.SIGKILL)
        reap()
        self.clean()
        if self.own_dir:
            shutil.rmtree(self.dir, ignore_errors=True)

    def clean(self, prefix=()):
        """What processes that were killed have left on the host."""
        if os.path.exists(PRIV) and os.path.isdir(os.path.join("/run/pando", self.tag)):
            subprocess.run([*prefix, PRIV, "--data", self.dir, "--clean"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    # ---- looking inside ----

    def log_tail(self, lines=40):
        return "\n".join("    | " + line for line in self.log_text().splitlines()[-lines:])

    def log_text(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def descendants(self):
        return host.descendants(self.proc.pid) if self.proc and self.proc.poll() is None else []

    def pandod_pid(self):
        """pandod itself, or None while there is none."""
        own = [pid for pid in self.descendants() if host.exe(pid) == PANDOD]
        return next((pid for pid in own if host.parent(pid) not in (None, *own)), None)  # its starter is pandod, too, and so are children until their exec

    def all_qemu_pids(self):
        real = os.path.realpath(QEMU)
        return [pid for pid in self.descendants() if os.path.basename(host.exe(pid) or "") == os.path.basename(real)]

    def qemu_pids(self):
        """Of VMs and of what waits for one; not the seed that VMs are forked from, which alone has capabilities (in its user namespace)."""
        return [pid for pid in self.all_qemu_pids() if not host.capable(pid)]

    def qemu_of(self, vm):
        """QEMU of a running VM, from pando-priv's record of it: "pid start-ticks uid slot"."""
        instance = self.info(vm)["vmInstanceId"]
        with open(f"/run/pando/{self.tag}/vm/{instance}") as f:
            pid = int(f.read().split()[0])
        assert pid in self.qemu_pids(), f"the record of {vm} names {host.describe(pid)}"
        return pid

    def kill9_pandod(self):
        """kill -9 of pandod; pando-priv restarts it."""
        pid = self.pandod_pid()
        assert pid, "there is no pandod to kill"
        host.kill(pid, signal.SIGKILL)
        self.await_pandod(pid)

    def await_pandod(self, old):
        def another():
            if self.proc.poll() is not None:
                self.spawn()  # pando-priv went along; whoever runs it starts it again
            pid = self.pandod_pid()
            return pid and pid != old
        wait_for("a new pandod", another, 30)
        self.wait_ready(120)

    def files(self):
        """Layers and points; the database and logs come and go, and so does the server's own template (vm/template_own.c)."""
        found = set()
        for part in ("layers", "points"):
            top = os.path.join(self.dir, part)
            if os.path.isdir(top):
                found |= {os.path.join(part, name) for name in os.listdir(top)}
        return found - self.own_template()

    def own_template(self):
        """Files of the template that the server made of the shared one."""
        path = os.path.join(self.dir, "pando.db")
        if not os.path.exists(path):
            return set()
        # while no server has it open, sqlite would make files of its own beside it
        still = "" if os.path.exists(path + "-wal") else "&immutable=1"
        db = sqlite3.connect(f"file:{path}?mode=ro{still}", uri=True, timeout=30)
        try:
            rows = db.execute("SELECT p.id, p.mem_layer, p.disk_layer FROM points p JOIN templates t ON t.point = p.id "
                              "WHERE p.parent IS NOT NULL").fetchall()
        except sqlite3.DatabaseError:  # a test has damaged it, or its server is from before
            return set()
        finally:
            db.close()
        return {n for point, mem, disk in rows for n in (f"points/{point}.state", f"layers/{mem}", f"layers/{disk}")}

    def sql(self, statement):
        """On the database of a server that is down."""
        db = sqlite3.connect(os.path.join(self.dir, "pando.db"))
        try:
            db.execute(statement)
            db.commit()
        finally:
            db.close()

    def debris(self):
        """What is on the host in this server's name."""
        return host.named(self.tag)

    # ---- the API ----

    def key(self):
        with open(os.path.join(self.dir, "api-key")) as f:
            return f.read().strip()

    def request(self, method, path, body=None, headers=None, timeout=CALL_S, key=None):
        """(status, parsed body); the body may be bytes, text, or something for JSON."""
        c = http.client.HTTPConnection(self.at, self.port, timeout=timeout)
        h = dict(headers or {})
        if path != "/v1/health" or key:
            h.setdefault("Authorization", f"Bearer {key or self.key()}")
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            h.setdefault("Content-Type", "application/json")
        try:
            c.request(method, path, body=body, headers=h)
            r = c.getresponse()
            data = r.read()
        finally:
            c.close()
        try:
            return r.status, json.loads(data)
        except ValueError:
            return r.status, data.decode("utf-8", "replace")

    def api(self, method, path, body=None, **kw):
        status, parsed = self.request(method, path, body, **kw)
        if not 200 <= status < 300:
            raise ApiError(method, path, status, parsed)
        return parsed

    def create(self, **body):
        body.setdefault("idleTimeoutSeconds", None)  # tests decide when a VM sleeps
        return self.api("POST", "/v1/vms", body)["id"]

    def create_ready(self, **body):
        """create() that is known to have handed over a VM of the pool, as most of them are with the defaults"""
        wait_for("a VM is ready", lambda: self.made_ahead()[1] > 0, 90)
        before = self.api("GET", "/v1/health")["pool"]["given"]
        vm = self.create(**body)
        given = self.api("GET", "/v1/health")["pool"]["given"] - before
        if given != 1:
            raise AssertionError(f"the pool gave {given} VMs, not 1")
        return vm

    def info(self, vm):
        return self.api("GET", f"/v1/vms/{vm}")

    def made_ahead(self):
        """(processes that wait, VMs that are ready)"""
        pool = self.api("GET", "/v1/health")["pool"]
        return pool["processes"], pool["ready"]

    def state(self, vm):
        return self.info(vm)["state"]

    def vms(self):
        return {v["id"]: v for v in self.api("GET", "/v1/vms")["vms"]}

    def post(self, vm, verb, body=None, **kw):
        return self.api("POST", f"/v1/vms/{vm}/{verb}", body, **kw)

    def fork(self, vm, count=1):
        return [f["id"] for f in self.post(vm, "fork", {"count": count})["forks"]]

    def snapshot(self, vm, **body):
        return self.post(vm, "snapshot", body)["snapshotId"]

    def delete(self, vm):
        return self.api("DELETE", f"/v1/vms/{vm}")

    def run(self, vm, command, timeout_ms=60000 * PATIENCE, user=None):
        headers = {"X-Freestyle-Vm-Linux-User-Id": user} if user else None
        return Exec(self.post(vm, "exec-await", {"command": command, "terminal": None, "timeoutMs": timeout_ms},
                              headers=headers, timeout=timeout_ms / 1000 + CALL_S))

    def sh(self, vm, command, **kw):
        """stdout of a command that must succeed."""
        r = self.run(vm, command, **kw)
        if r.code != 0:
            raise AssertionError(f"'{command}' in {vm} ended with {r.code}: {r.out}{r.err}")
        return r.out.strip()

    def ask(self, query):
        """What the store answers; the server may run."""
        db = sqlite3.connect(f"file:{os.path.join(self.dir, 'pando.db')}?mode=ro", uri=True, timeout=30)
        try:
            return db.execute(query).fetchall()
        finally:
            db.close()

    def rows(self, table):
        """How many the store has."""
        return self.ask(f"SELECT COUNT(*) FROM {table}")[0][0]

    def delete_all(self):
        for vm in self.vms():
            self.delete(vm)
        self.delete_snapshots()

    def delete_snapshots(self):
        for s in self.api("GET", "/v1/vms/snapshots")["snapshots"]:
            if not s.get("deleted"):
                self.api("DELETE", f"/v1/vms/snapshots/{s['snapshotId']}")


def assert_no_debris(server, own=()):
    """Everything deleted, then stopped: data directory and host are as they were before the first VM. own: children of the test's."""
    server.delete_all()

    def back():
        return len(server.files() - server.rest) <= server.made_ahead()[1]  # a disk layer for each VM kept ready
    try:
        wait_for("layers of deleted VMs are removed", back, 30)
    except AssertionError as e:
        raise AssertionError(f"{e}: {sorted(server.files() - server.rest)}") from None
    code = server.stop()
    left = server.debris()
    assert not left, f"left on the host: {left}"
    def running():
        reap()
        return [p for p in host.children() if p not in own]
    # process 1 of a seed's pid namespace goes once we have reaped those of its VMs that became our children
    try:
        wait_for("no process is left", lambda: not running(), 10)
    except AssertionError as e:
        raise AssertionError(f"{e}: {[host.describe(p) for p in running()]}") from None
    run_dir = os.path.join(server.dir, "run")
    stray = os.listdir(run_dir) if os.path.isdir(run_dir) else []
    assert not stray, f"left in run/: {stray}"
    assert code in (0, 130, -signal.SIGINT), f"exit code {code}:\n{server.log_tail()}"


def reap():
    host.reap(keep=[s.proc.pid for s in servers if s.proc])


def test_logs():
    path = os.path.join(ROOT, "build-logs")
    os.makedirs(path, exist_ok=True)
    return path


servers = []  # that may still run


@atexit.register
def close_all():
    for s in list(servers):
        s.close()
