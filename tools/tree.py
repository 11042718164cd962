# SPDX-License-Identifier: Apache-2.0
"""tree.py - the project's files: tracked ones, and new ones that are not ignored"""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIP_DIRS = {".git", "node_modules", "__pycache__"}


def _walk():
    # an unpacked archive has no .git: everything except what .gitignore names counts
    for top, dirs, names in os.walk(ROOT):
        dirs[:] = [d for d in dirs if d not in SKIP_DIRS and not (top == ROOT and d.split("-")[0] == "build")]
        for name in names:
            yield os.path.relpath(os.path.join(top, name), ROOT)


def files(*suffixes):
    """Paths relative to the root, sorted; all of them, or those that end in one of the suffixes."""
    try:
        # the checkout may belong to another user than the root that runs this
        out = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT,
                             capture_output=True, check=True).stdout
        found = [os.fsdecode(p) for p in out.split(b"\0") if p]
    except (OSError, subprocess.CalledProcessError):
        found = list(_walk())
    return sorted(p for p in set(found)
                  if (not suffixes or p.endswith(suffixes)) and os.path.isfile(os.path.join(ROOT, p)))


def shell_scripts():
    """Files whose first line names a shell. Fragments without one are checked where they are sourced."""
    found = []
    for path in files():
        if "." in os.path.basename(path) and not path.endswith(".sh"):
            continue
        with open(os.path.join(ROOT, path), "rb") as f:
            first = f.readline(100)
        if first.startswith(b"#!") and first.rstrip().endswith(b"sh"):
            found.append(path)
    return found


def finish(problems, ok):
    """Ends a check: each problem on a line of its own on stderr, or one line that says what was checked."""
    for p in problems:
        print(p, file=sys.stderr)
    if problems:
        sys.exit(1)
    print(ok)
    sys.exit(0)
