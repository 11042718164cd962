# SPDX-License-Identifier: Apache-2.0
"""deps.py - includes: the rules of tools/deps.allow, what the files include, and the resulting graph

A file uses a header if it includes it, directly or through another header: what a header includes is
compiled into its users, so it counts as theirs.
"""
import os
import re

import tree

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.M)
RULES = "tools/deps.allow"


class Rules:
    """The rules of tools/deps.allow; problems with the file itself are appended to `problems`."""

    def __init__(self, problems):
        self.allow = {}   # module -> {"module" or "module/header.h"}
        self.system = {}  # system header -> {modules}
        with open(os.path.join(tree.ROOT, RULES), encoding="utf-8") as f:
            for n, line in enumerate(f, 1):
                self._read(line.split("#")[0].strip(), f"{RULES}:{n}", problems)
        for name, may in self.allow.items():
            for other in sorted(may):
                if other != "*" and other.split("/")[0] not in self.allow:
                    problems.append(f"{RULES}: '{name}' may use '{other}', which is not a module listed there")
        for header, modules in self.system.items():
            for name in sorted(modules - set(self.allow)):
                problems.append(f"{RULES}: <{header}> names '{name}', which is not a module listed there")
        cycle = find_cycle(self.graph())
        if cycle:
            problems.append(f"{RULES}: modules form a cycle: {' -> '.join(cycle)}")

    def _read(self, line, where, problems):
        if not line:
            return
        m = re.fullmatch(r"<(\S+)>\s*:\s*(.+)", line)
        if m:
            self.system[m[1]] = set(m[2].split())
            return
        m = re.fullmatch(r"(\w+)\s*->\s*(.*)", line)
        if not m:
            problems.append(f"{where}: neither 'module -> modules' nor '<header> : modules'")
        elif m[1] in self.allow:
            problems.append(f"{where}: module '{m[1]}' is listed twice")
        else:
            self.allow[m[1]] = set(m[2].split())

    def graph(self):
        """module -> modules. A rule for one header is an edge like any other: it can cause cycles too."""
        return {a: {b.split("/")[0] for b in may if b != "*"} for a, may in self.allow.items()}


def find_cycle(graph):
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for other in sorted(graph.get(node, ())):
            found = visit(other)
            if found:
                return found
        path.pop()
        done.add(node)
        return None

    for start in sorted(graph):
        found = visit(start)
        if found:
            return found
    return None


def module_of(path):
    parts = path.split("/")
    if parts[0] == "server":
        if len(parts) > 2:
            return parts[1]
        return "conf" if parts[1].startswith("conf.") else "main"
    return parts[0] if len(parts) > 1 else None


class Files:
    """Every .c, .h and .def of ours, with what each includes."""

    def __init__(self):
        self.paths = tree.files(".c", ".h", ".def")
        self.known = set(self.paths)
        self.includes = {}  # path -> [(line, "ours" or "system", name, path of ours or None)]
        for path in self.paths:
            with open(os.path.join(tree.ROOT, path), encoding="utf-8") as f:
                text = f.read()
            self.includes[path] = [
                (text.count("\n", 0, m.start()) + 1, "ours" if m[1] else "system", m[1] or m[2],
                 self._resolve(path, m[1]) if m[1] else None) for m in INCLUDE.finditer(text)]

    def _resolve(self, path, name):
        # as the compiler does: beside the file, then -I. and -Iserver
        for base in (os.path.dirname(path), "", "server"):
            full = os.path.normpath(os.path.join(base, name))
            if full in self.known:
                return full
        return None

    def used(self, path):
        """Everything that path uses: (line of its own include, kind, name, target, headers on the way there)."""
        seen = set()
        queue = [(line, kind, name, target, ()) for line, kind, name, target in self.includes[path]]
        while queue:  # breadth-first, so that the path is the shortest
            line, kind, name, target, way = queue.pop(0)
            if (target or name) in seen or target == path:
                continue
            seen.add(target or name)
            yield line, kind, name, target, way
            if target:
                queue += [(line, k, n, t, way + (name,)) for _, k, n, t in self.includes[target]]


def reduced(graph):
    """The same graph without the edges that follow from others."""
    below = {}

    def reach(node):
        if node not in below:
            below[node] = set()
            for other in graph[node]:
                below[node] |= {other} | reach(other)
        return below[node]

    return {a: {b for b in to if not any(b in reach(c) for c in to if c != b)} for a, to in graph.items()}


def levels(graph):
    """module -> its height: 0 for those without dependencies, else one above their highest dependency."""
    height = {}

    def of(node):
        if node not in height:
            height[node] = 1 + max((of(other) for other in graph[node]), default=-1)
        return height[node]

    for node in graph:
        of(node)
    return height
