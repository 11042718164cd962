# SPDX-License-Identifier: Apache-2.0
"""page.py - the dashboard in Chromium: its weight, its first view, pictures of the tree, and an hour of events

tests/web/figures.mjs does it and prints a line for each figure. The events are real ones of real VMs; the hour is made as fast as the server
takes them.
"""
import json
import os
import subprocess

import harness

DIR = os.path.join(harness.ROOT, "tests/web")
LIMIT_S = 1800
ROUNDS_MAX = 1
FIGURES = [
    ("page.weight.first", "page", "first view, gzipped", "KB", None, "page, style, frame, as sent"),
    ("page.weight.all", "page", "all pages without the editor, gzipped", "KB", 400, "as sent"),
    ("page.paint", "page", "first view: first paint", "ms", None, "nothing cached, signed in, loopback"),
    ("page.first", "page", "... the tree is drawn", "ms", 1000, "nothing cached, signed in, loopback"),
    ("page.frame.500", "page", "a picture of 500 nodes, all in view", "ms", None, "while zoomed; median of 30"),
    ("page.frame.2000", "page", "... of 2000 nodes", "ms", None, "while zoomed; median of 30"),
    ("page.live", "page", "events as fast as they can be made, followed", "1/s", None, "18000 renames, 12 clients"),
    ("page.lag.tree", "page", "... behind the last of them, tree", "ms", None, "page; to its last event"),
    ("page.lag.operate", "page", "... behind the last of them, list of events", "ms", None, "page; to its last event"),
    ("page.catchup", "page", "events a page takes that was away", "1/s", None, "4000 at once"),
    ("page.heap.before", "page", "memory of the page, before", "MB", None, "JavaScript, after collection"),
    ("page.heap.hour", "page", "... after an hour of events", "MB", None, "18000 events: 5 a second for an hour"),
    ("page.nodes.hour", "page", "elements of the page then", "", None, "tree in view"),
]


def prepare(g):
    if not os.path.isdir(os.path.join(DIR, "node_modules/playwright-core")):
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=DIR, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)


def measure(g):
    r = subprocess.run(["node", "figures.mjs"], cwd=DIR, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
                       env={**os.environ, "PANDO_URL": f"http://127.0.0.1:{g.s.port}", "PANDO_API_KEY": g.s.key()})
    for line in r.stdout.splitlines():
        f = json.loads(line)
        g.record.add(f["figure"], f["value"])
    if r.returncode != 0:
        raise RuntimeError(f"tests/web/figures.mjs ended with {r.returncode}: {r.stderr[-2000:]}")


KINDS = [("page", {"PANDO_POOL": "0", "PANDO_BLANKS": "2"}, 0, prepare, measure)]
