# SPDX-License-Identifier: Apache-2.0
"""plot.py - the figures as one SVG: a dot per sample, a bar at the median, a line at the target"""
import math
import sys
import json
from html import escape

WIDTH, LEFT, RIGHT = 960, 290, 120
ROW, GAP = 26, 64
INK, FAINT, DOT, BESIDE, TARGET = "#1f2933", "#d5dbe1", "#2b6cb0", "#8a94a0", "#c2410c"

# title, unit, logarithmic, [(figure, name)]
PANELS = [
    ("Time to an answer", "ms", True, [
        ("floor.echo", "bubblewrap: echo (floor)"),
        ("exec.true", "warm VM: exec of true"),
        ("thaw.agent", "create: agent confirms"),
        ("resume.agent", "resume: agent confirms"),
        ("thaw.echo", "create + echo"),
        ("resume.echo", "resume + echo"),
        ("fork.ready", "fork of 3: all answered"),
        ("qemu.echo", "QEMU's own restore + echo"),
        ("boot.echo", "cold boot + echo"),
    ]),
    ("How long the guest stands still to be saved", "ms", True, [
        ("pause.small", "freeze, little dirty"),
        ("pause.64", "freeze, 64 MB dirty"),
        ("pause.512", "freeze, 512 MB dirty"),
        ("qemu.save", "QEMU's own save"),
    ]),
    ("Private memory of one VM", "MB", False, [
        ("mem.fresh", "after create + echo"),
        ("mem.idle", "after a minute idle"),
    ]),
]
OTHERS = ("floor.", "qemu.", "boot.")  # drawn in grey: what Pando is compared with


def short(value, unit):
    if unit == "ms" and value >= 1000:
        return f"{value / 1000:.3g} s"
    return f"{value:.3g} {unit}"


class Axis:
    def __init__(self, values, log):
        self.log = log
        if log:
            self.lo, self.hi = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values) * 1.01))
        else:
            self.lo, self.hi = 0, 10 * math.ceil(max(values) * 1.1 / 10)

    def x(self, v):
        if self.log:
            part = math.log(max(v, self.lo) / self.lo) / math.log(self.hi / self.lo)
        else:
            part = (v - self.lo) / (self.hi - self.lo)
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def ticks(self):
        if self.log:
            return [10 ** e for e in range(round(math.log10(self.lo)), round(math.log10(self.hi)) + 1)]
        step = 10 * math.ceil(self.hi / 80)
        return list(range(0, self.hi + 1, step))


def text(x, y, s, size=13, anchor="start", fill=INK, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}" '
            f'font-weight="{weight}">{escape(s)}</text>')


def line(x1, y1, x2, y2, colour, width=1):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def panel(top, title, unit, log, rows):
    """rows: (name, figure). Returns (svg, height)."""
    values = [v for _, f in rows for v in f["samples"]] + [f["target"] for _, f in rows if f["target"]]
    axis = Axis([v for v in values if v > 0], log)
    out, first = [text(20, top, title, 15, weight="bold")], top + 14
    bottom = first + ROW * len(rows)
    for t in axis.ticks():
        out += [line(axis.x(t), first, axis.x(t), bottom, FAINT), text(axis.x(t), bottom + 16, short(t, unit), 11, "middle")]
    for i, (name, f) in enumerate(rows):
        y = first + ROW * i + ROW / 2
        colour = BESIDE if f["id"].startswith(OTHERS) else DOT
        out.append(text(LEFT - 12, y + 4, name, anchor="end"))
        if f["target"]:
            out.append(line(axis.x(f["target"]), y - 11, axis.x(f["target"]), y + 11, TARGET, 2))
        out += [f'<circle cx="{axis.x(v):.1f}" cy="{y:.1f}" r="3.5" fill="{colour}" fill-opacity="0.45"/>' for v in f["samples"]]
        out.append(line(axis.x(f["median"]), y - 9, axis.x(f["median"]), y + 9, colour, 4))
        out.append(text(WIDTH - RIGHT + 16, y + 4, short(f["median"], unit), weight="bold"))
    return "\n".join(out), ROW * len(rows) + GAP


def svg(run):
    by_id = {f["id"]: f for f in run["figures"] if f.get("samples")}
    m = run["machine"]
    out, top = [], 88
    for title, unit, log, wanted in PANELS:
        rows = [(name, by_id[i]) for i, name in wanted if i in by_id]
        if not rows:
            continue
        part, height = panel(top, title, unit, log, rows)
        out.append(part)
        top += height
    n = run["rounds"]
    head = [text(20, 30, "Pando, measured side by side in one run", 19, weight="bold"),
            text(20, 52, f"{run['date'][:10]}, {run['accel'].upper()}, {m['cores']} cores, VM of {run['vm']['vcpuCount']} vCPU and "
                         f"{run['vm']['memSizeMib']} MB, {n} rounds; dot: sample, bar: median (also at the right)", 12),
            line(712, 18, 712, 32, TARGET, 2), text(720, 30, "target", 12),
            f'<circle cx="786" cy="26" r="4" fill="{DOT}"/>', text(796, 30, "Pando", 12),
            f'<circle cx="852" cy="26" r="4" fill="{BESIDE}"/>', text(862, 30, "others", 12)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top - 14}" viewBox="0 0 {WIDTH} {top - 14}" '
            f'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(head + out) + "\n</svg>\n")


if __name__ == "__main__":
    # plot.py RESULT.json > PICTURE.svg
    with open(sys.argv[1]) as source:
        sys.stdout.write(svg(json.load(source)))
