#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""graph.py - prints the module graph of tools/deps.allow, highest level first; --fix puts it into docs/ARCHITECTURE.md

A line is a level, a module, and its direct dependencies. Indirect ones may be used as well
and aren't repeated. Modules that may use anything (tests) and those that are part of no program are left out.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import deps  # noqa: E402
import tree  # noqa: E402

PAGE = "docs/ARCHITECTURE.md"
BEGIN, END = "<!-- tools/graph.py -->\n", "<!-- end of tools/graph.py -->\n"


def draw(rules):
    graph = {a: to for a, to in rules.graph().items() if "*" not in rules.allow[a] and a != "tools"}
    height, stands = deps.levels(graph), deps.reduced(graph)
    lines, last = [], None
    for name in sorted(graph, key=lambda a: (-height[a], a)):
        level = f"{height[name]:2}" if height[name] != last else "  "
        last = height[name]
        lines.append(f"    {level}  {name:<11}{' '.join(sorted(stands[name]))}".rstrip())
    return "\n".join(lines) + "\n"


def split(text):
    """What is before the graph, the graph, and what is after it; None if the page has no place for it."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        return None
    head, rest = text.split(BEGIN)
    body, tail = rest.split(END)
    return head + BEGIN, body, END + tail


def check(rules):
    """An error message about the page, or None."""
    with open(os.path.join(tree.ROOT, PAGE), encoding="utf-8") as f:
        parts = split(f.read())
    if not parts:
        return f"{PAGE}: the lines {BEGIN.strip()} and {END.strip()} are missing: the module graph goes between them"
    if parts[1].strip("\n") != draw(rules).strip("\n"):
        return f"{PAGE}: the module graph doesn't match {deps.RULES}: run tools/graph.py --fix"
    return None


def main():
    problems = []
    rules = deps.Rules(problems)
    if problems:
        tree.finish(problems, "")
    if sys.argv[1:] != ["--fix"]:
        sys.stdout.write(draw(rules))
        return
    path = os.path.join(tree.ROOT, PAGE)
    with open(path, encoding="utf-8") as f:
        parts = split(f.read())
    if not parts:
        tree.finish([check(rules)], "")
    with open(path, "w", encoding="utf-8") as f:
        f.write(parts[0] + "\n" + draw(rules) + "\n" + parts[2])


if __name__ == "__main__":
    main()
