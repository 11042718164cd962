# SPDX-License-Identifier: Apache-2.0
"""attack.py - what good clients wait while somebody attacks: exec, GET, a request through the edge, git ls-remote

Each round takes SAMPLES of each, alone and beside each attack of tests/load/attacks.py, one attack at a time. An attack has SETTLE_S to begin, so that
what is measured is its effect and not its first moment. The attacker is another account, or has no key.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests/load"))
import attacks  # noqa: E402
import clients  # noqa: E402

ASKED = ("exec", "get", "edge", "ls_remote")
BESIDE = ("alone", *attacks.NAMES)
SAMPLES = 20
SETTLE_S = 2
ROUNDS_MAX = 5
TEXTS = {"exec": "exec of echo", "get": "GET of a VM", "edge": "GET through the edge, new connection", "ls_remote": "git ls-remote"}
WORDS = {"alone": "alone", "half_requests": "half-sent requests", "json_bombs": "JSON bombs", "slow_clones": "slow clones", "zero_windows": "zero windows",
         "tree_bombs": "tree bombs", "floods": "floods of output"}
FIGURES = [(f"attack.{what}.{beside}", "attack", TEXTS[what] if beside == "alone" else f"... beside {WORDS[beside]}", "ms", None, "client")
           for what in ASKED for beside in BESIDE]


def prepare(g):
    g.world = clients.World(g.s)
    g.attacks = attacks.Attacks(g.world)
    good = clients.Good(g.world)
    for what in ASKED:
        getattr(good, what)()  # the first time warms up


def measure(g):
    good = clients.Good(g.world)
    for beside in BESIDE:
        if beside != "alone":
            g.attacks.run(beside)
            time.sleep(SETTLE_S)
        try:
            for _ in range(SAMPLES):
                for what in ASKED:
                    g.record.add(f"attack.{what}.{beside}", clients.timed(getattr(good, what)))
        finally:
            g.attacks.stop()


KINDS = [("attack", {"PANDO_POOL": "0", "PANDO_BLANKS": "0"}, 0, prepare, measure)]
