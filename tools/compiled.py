# SPDX-License-Identifier: Apache-2.0
"""compiled.py - for checks of every C file as build/ compiles it, with a cache of clean results

A clean result is an empty file named by the hash of all its inputs, in PANDO_CACHE_DIR/NAME; other results are
not cached. The hash takes a run of the preprocessor, so a second file, named by the command line, lists the files that were read
with the hash of each: while these are the same, so is the result. Both serve all clones.
"""
import hashlib
import json
import os
import re
import shlex
import subprocess
import threading
import time

import tree

TIMEOUT_S = 300
KEEP_S = 30 * 24 * 3600  # results unused for a month are deleted
MARKER = re.compile(rb'^# \d+ "([^"<]+)"', re.M)


class Cache:
    def __init__(self, name):
        self.path = self._find(name)
        self.hashes = {}  # of files that were read in this run

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

    def clean_before(self, entry, args, common):
        """True if it was clean and nothing it read has changed since; takes no preprocessor."""
        try:
            with open(self._inputs(entry, args, common)) as f:
                known = json.load(f)
        except (OSError, TypeError, ValueError):
            return False
        return all(self._hash(os.path.join(tree.ROOT, name)) == old for name, old in known["read"].items()) and self.has(known["key"])

    def read(self, entry, args, common, pre, key):
        """Its preprocessed text came from these files."""
        path = self._inputs(entry, args, common)
        if not path or not key:
            return
        names = {os.path.normpath(os.path.join(entry["directory"], os.fsdecode(n))) for n in MARKER.findall(pre)} | {entry["path"]}
        # relative to the root where they are below it, so that the list serves other clones
        read = {n.removeprefix(tree.ROOT + os.sep): self._hash(n) for n in names if not n.endswith(os.sep) and not os.path.isdir(n)}
        temp = f"{path}.{os.getpid()}.{threading.get_ident()}"
        with open(temp, "w") as f:
            json.dump({"key": key, "read": read}, f)
        os.rename(temp, path)

    def _inputs(self, entry, args, common):
        name = key_of(common, "\0".join(args).encode(), os.path.relpath(entry["path"], tree.ROOT).encode()).hexdigest()
        return self.path and os.path.join(self.path, "inputs-" + name)

    def _hash(self, path):
        if path not in self.hashes:
            try:
                with open(path, "rb") as f:
                    self.hashes[path] = hashlib.sha256(f.read()).hexdigest()
            except OSError:
                self.hashes[path] = None
        return self.hashes[path]

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
