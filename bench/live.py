# SPDX-License-Identifier: Apache-2.0
"""live.py - interactive work in a VM: key presses, terminal output, cells"""
from api import together
from kinds import Clock
from ws import Terminal

KEYS = 50           # per round
WARM_KEYS = 20      # before them: what a key needs is translated then
KEYS_PER_LINE = 40
RATE_MB = 4
LINES = 10000
WARM_CELLS = 10
KERNELS = 20
LONG_S = 300


def terminal(b, vm, path="", **query):
    words = "&".join(f"{k}={v}" for k, v in {"cols": 80, "rows": 24, **query}.items())
    return Terminal(b.s.port, f"/v1/vms/{vm}/pty{path}?{words}", headers={"Authorization": f"Bearer {b.s.key()}"}, timeout=LONG_S)


def keys(b, vm):
    """A letter typed into bash to the message with its echo; one at a time, as fingers do"""
    t = terminal(b, vm, exec="bash%20--norc")
    t.send("PS1=; echo rea''dy\n")
    t.expect("ready")
    for i in range(WARM_KEYS + KEYS):
        if i % KEYS_PER_LINE == KEYS_PER_LINE - 1:  # the line is full
            t.send("\x15echo ne''xt\n")
            t.expect("next")
            t.out = b""
        before, letter = len(t.out), bytes([97 + i % 26])
        clock = Clock()
        t.send(letter)
        while letter not in t.out[before:]:
            t.step()
        if i >= WARM_KEYS:
            b.record.add("pty.key", clock.ms())
    t.send("\x15exit\n")
    t.end()


def rate(b, vm):
    """Lines of text from a program to a client that takes all of them, the raw terminal between them"""
    t = terminal(b, vm, exec="stty%20raw%20-echo;echo%20ready;read%20x;yes%20" + "0123456789" * 7 + f"%7Chead%20-c%20{RATE_MB}M", sessionId="rate")
    t.expect("ready")
    n = len(t.out)
    clock = Clock()
    t.send("\n")
    if t.end(timeout=LONG_S) != 0 or len(t.out) - n < RATE_MB << 20:
        raise RuntimeError(f"{len(t.out) - n} bytes of {RATE_MB} MB came")
    b.record.add("pty.rate", RATE_MB / (clock.ms() / 1e3))


def attach(b, vm):
    t = terminal(b, vm, exec=f"seq%20{LINES + 100};exec%20cat", sessionId="long")
    t.expect(f"{LINES + 100}\r\n", timeout=LONG_S)
    t.close()
    clock = Clock()
    again = terminal(b, vm, "/sessions/long")
    again.expect(f"{LINES + 100}\r\n")
    b.record.add("pty.attach", clock.ms())
    if b"\r\n200\r\n" not in again.out:
        raise RuntimeError("the scrollback did not come along")
    again.close()


def pty(b):
    b.rest()
    vm = b.create()
    for what in (keys, rate, attach):
        what(b, vm)


def cell(b, vm, code, language="python", **more):
    clock = Clock()
    r = b.s.post(vm, "code", {"language": language, "code": code, **more})
    if "error" in r:
        raise RuntimeError(f"a cell in {vm}: {r['error']}")
    return clock.ms(), r


def code(b):
    """the first cell after create, warm ones, a plot, new contexts, kernels at the same time"""
    b.rest()
    vm = b.create()
    b.record.add("code.first", cell(b, vm, "1+1")[0])
    for _ in range(WARM_CELLS):
        b.record.add("code.warm", cell(b, vm, "1+1")[0])
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]);"
    cell(b, vm, plot)  # the first one is not warm
    ms, r = cell(b, vm, plot)
    if not any("image/png" in one for one in r["results"]):
        raise RuntimeError(f"no picture: {r['results']}")
    b.record.add("code.plot", ms)
    b.record.add("code.ts", cell(b, vm, "const n: number = 1; n + 1", "typescript")[0])
    made = []
    for _ in range(KERNELS):
        clock = Clock()
        made.append(b.s.post(vm, "code/contexts", {"language": "python"})["contextId"])
        cell(b, vm, "1+1", contextId=made[-1])
        b.record.add("code.context", clock.ms())
    clock = Clock()
    together(KERNELS, lambda i: cell(b, vm, "1+1", contextId=made[i]))
    b.record.add("code.kernels", clock.ms())


ROUND = [("pty", pty), ("code", code)]
