# SPDX-License-Identifier: Apache-2.0
"""doc_blocks.py - the fenced blocks of a page, and whether what they printed is what the page shows

A block is code (sh, js, python), shown output (text, right after a code block) or data (json, ini, toml, ...), which is not run. What comes after the
language in the info string is a note: `not-run: REASON` is the only one. In shown output `...` stands for anything within its line. Both sides are made equal
in what differs from run to run (SAME) before they are compared; nothing else may differ but spaces at the ends of lines.
"""
import json
import re

RUN = ("sh", "js", "python")
DATA = ("json", "ini", "toml", "yaml")
NOT_RUN = "not-run:"
FENCE = re.compile(r"^( {0,3})(`{3,})\s*(.*)$")
# what is new in every run: (expression, what stands for it)
SAME = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b([a-z]{2,4})-[a-z0-9]{20}\b"), r"<\1>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{40}\b"), "<commit>"),
    (re.compile(r"\b(?=[a-z0-9]*[a-z])[a-z0-9]{20}\b"), "<id>"),
)


class PageError(Exception):
    """A page that is not written as it must be; the text begins with file:line."""


class Block:
    def __init__(self, page, line, lang, note, text):
        self.page, self.line, self.lang, self.note, self.text = page, line, lang, note, text
        self.shown = None  # its output, a Block

    @property
    def where(self):
        return f"{self.page}:{self.line}"

    @property
    def not_run(self):
        """The reason why it is not run, or None."""
        return self.note[len(NOT_RUN):].strip() if self.note.startswith(NOT_RUN) else None


def fences(page, text):
    """All fenced blocks in order, and for each whether only blank lines are between it and the one before."""
    found, begin, close, near = [], None, 0, False
    for n, line in enumerate(text.splitlines(), 1):
        m = FENCE.match(line)
        if begin is None:
            if m:
                lang, _, note = m[3].partition(" ")
                begin, close, body, indent = Block(page, n, lang, note.strip(), ""), len(m[2]), [], len(m[1])
            elif line.strip():
                near = False
        elif m and not m[3] and len(m[2]) >= close:
            begin.text = "".join(b + "\n" for b in body)
            found.append((begin, near))
            begin, near = None, True
        else:
            body.append(line[indent:] if line[:indent].isspace() else line)
    if begin is not None:
        raise PageError(f"{begin.where}: this block has no end: add a line with ``` after it")
    return found


def blocks(page, text):
    """The page's code blocks, each with its shown output; PageError if the page has others than it may have."""
    found, last = [], None
    for block, near in fences(page, text):
        if block.note and not block.not_run:
            raise PageError(f"{block.where}: '{block.note}' says nothing to the test: leave it out, or write '{NOT_RUN} REASON'")
        if block.lang in RUN:
            found.append(block)
        elif block.lang == "text":
            if not (near and last and last.lang in RUN):
                raise PageError(f"{block.where}: shown output of nothing: put it right after its block, or indent a picture by four spaces")
            check_shown(block)
            last.shown = block
        elif block.lang in DATA:
            if block.lang == "json":
                check_json(block)
        else:
            raise PageError(f"{block.where}: '{block.lang}' is neither run ({', '.join(RUN)}) nor data ({', '.join(DATA)}) nor text")
        last = block
    return found


def check_shown(block):
    if not block.text.replace("...", "").strip():
        raise PageError(f"{block.where}: an output that is only '...' shows nothing: show some of it, or print nothing")


def check_json(block):
    try:
        json.loads(block.text)
    except ValueError as e:
        raise PageError(f"{block.where}: this is not JSON: {e}") from None


def same(text):
    """Without what differs from run to run."""
    for pattern, word in SAME:
        text = pattern.sub(word, text)
    return text


def lines_of(text):
    return [line.rstrip() for line in same(text).rstrip("\n").split("\n")] if text.strip() else []


def line_matches(shown, came):
    parts = shown.split("...")
    return re.fullmatch(".*".join(re.escape(p) for p in parts), came) is not None


def difference(shown, came):
    """None if what came is what is shown; else (index of the first line that differs, the line shown, the line that came)."""
    want, got = lines_of(shown), lines_of(came)
    for n in range(max(len(want), len(got))):
        a = want[n] if n < len(want) else None
        b = got[n] if n < len(got) else None
        if a is None or b is None or not line_matches(a, b):
            return n, a, b
    return None
