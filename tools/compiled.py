# SPDX-License-Identifier: Apache-2.0
"""compiled.py - for checks of every C file as build/ compiles it, with a cache of clean results

A clean result is an empty file named by the hash of all its inputs, in PANDO_CACHE_DIR/NAME; other results are
not cached.
"""
import hashlib
import json
import os
import shlex
import subprocess
import time

import tree

TIMEOUT_S = 300
KEEP_S = 30 * 24 * 3600  # results unused for a month are deleted


class Cache:
    def __init__(self, name):
        self.path = self._find(name)

    @staticmethod
    def _find(name):
        base = os.environ.get("PANDO_CACHE_DIR") or "/var/cache/pando"
        for path in (os.path.join(base, name), os.path.join(tree.ROOT, "build", name)):
            try:
                os.makedirs(path, exist_ok=True)
                if os.access(path, os.W_OK):
                    return path
            except OSError:
                continue
        return None

    def has(self, key):
        mark = self.path and key and os.path.join(self.path, key)
        if not mark or not os.path.exists(mark):
            return False
        os.utime(mark)
        return True

    def add(self, key):
        if self.path and key:
            open(os.path.join(self.path, key), "w").close()

    def forget_old(self):
        limit = time.time() - KEEP_S
        for e in os.scandir(self.path) if self.path else ():
            if e.stat().st_mtime < limit:
                os.unlink(e.path)


def entries(only):
    """{path from the root: entry of compile_commands.json}, for all files of ours or those named in only"""
    with open(os.path.join(tree.ROOT, "build", "compile_commands.json")) as f:
        found = json.load(f)
    ours, seen = set(tree.files(".c")), {}
    for e in found:
        e["path"] = os.path.normpath(os.path.join(e["directory"], e["file"]))
        rel = os.path.relpath(e["path"], tree.ROOT)
        if rel in ours and (not only or rel in only):
            seen.setdefault(rel, e)
    if not seen:
        tree.finish(["build/ compiles none of the given files"], "")
    return seen


def command_of(entry):
    """The compiler's arguments without outputs and dependency files."""
    args, out, skip = shlex.split(entry["command"]), [], False
    for a in args:
        if skip:
            skip = False
        elif a in ("-o", "-MF", "-MQ", "-MT"):
            skip = True
        elif a not in ("-c", "-MD", "-MMD"):
            out.append(a)
    return out


def preprocessed(entry, args):
    """Its preprocessed text, or None: the check itself reports the reason better."""
    pre = subprocess.run([*args, "-E"], cwd=entry["directory"], capture_output=True, timeout=TIMEOUT_S)
    return pre.stdout if pre.returncode == 0 else None


def key_of(common, *texts):
    h = hashlib.sha256(common)
    for text in texts:
        h.update(text.replace(os.fsencode(tree.ROOT), b""))  # the same for all clones
    return h


def brief(line):
    return line.split("/build/../")[-1].removeprefix("../").replace(tree.ROOT + os.sep, "")
