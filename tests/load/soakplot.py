# SPDX-License-Identifier: Apache-2.0
"""soakplot.py - the report of soak.py as a picture: one small graph for each series, the attacked time shaded

Run by itself it draws a report again: soakplot.py REPORT.json >REPORT.svg
"""
import json
import sys

WIDTH, HEIGHT, LEFT, GAP, TOP = 900, 84, 80, 34, 76
SERIES = (("pandodMb", "pandod, MB"), ("privMb", "pando-priv, MB"), ("descriptors", "descriptors of pandod"), ("threads", "threads of pandod"),
          ("processes", "processes"), ("namespaces", "namespaces of these"), ("mounts", "mounts"), ("files", "files, without those of Git's objects"),
          ("load", "load of the machine, everything on it"))
TEXTS = {"get": "GET of a VM", "exec": "exec of echo", "edge": "GET through the edge", "ls_remote": "git ls-remote", "life": "create, suspend, resume, delete"}


def svg(report):
    samples = report["samples"]
    end = max((m["t"] for m in samples), default=1) or 1
    attacked = [m["t"] for m in samples if m["phase"] == "attacked"]
    rows = [(title, [("#1f5fa8", [(m["t"], m[k]) for m in samples])]) for k, title in SERIES if samples and k in samples[0]]
    for name, points in report.get("waitsMs", {}).items():
        rows.append((f"{TEXTS.get(name, name)}, ms: median, and longest (grey)",
                     [("#b0b0b0", [(p[0], p[2]) for p in points]), ("#1f5fa8", [(p[0], p[1]) for p in points])]))
    high = TOP + len(rows) * (HEIGHT + GAP) + 10
    bad = len(report["findings"])
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + LEFT + 30}" height="{high}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="22" font-size="15">Soak of {report["seconds"]} s, {report["date"]}, {report["cores"]} cores, {report["requests"]} requests of good '
           f'clients, {bad or "no"} finding{"" if bad == 1 else "s"}</text>',
           f'<text x="{LEFT}" y="42" fill="#555">shaded: six attacks at once beside them</text>']

    def x(t):
        return LEFT + WIDTH * min(t, end) / end
    for n, (title, lines) in enumerate(rows):
        top = TOP + n * (HEIGHT + GAP)
        most = max((v for _, points in lines for _, v in points), default=1) * 1.15 or 1
        if attacked:
            out.append(f'<rect x="{x(attacked[0]):.1f}" y="{top}" width="{x(attacked[-1]) - x(attacked[0]):.1f}" height="{HEIGHT}" fill="#f6e7d8"/>')
        for colour, points in lines:
            path = " ".join(f"{x(t):.1f},{top + HEIGHT - HEIGHT * v / most:.1f}" for t, v in points)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        out += [f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
                f'<text x="{LEFT}" y="{top - 5}">{title}</text>',
                f'<text x="{LEFT - 6}" y="{top + 12}" text-anchor="end">{most:.0f}</text>',
                f'<text x="{LEFT - 6}" y="{top + HEIGHT}" text-anchor="end">0</text>',
                f'<text x="{LEFT + WIDTH}" y="{top + HEIGHT + 14}" text-anchor="end" fill="#555">{end:.0f} s</text>']
    return "\n".join([*out, "</svg>"]) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        sys.stdout.write(svg(json.load(f)))
