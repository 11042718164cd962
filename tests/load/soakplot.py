# SPDX-License-Identifier: Apache-2.0
"""soakplot.py - the report of soak.py as a picture: one small graph for each series, the attacked time shaded"""

WIDTH, HEIGHT, LEFT, GAP = 900, 110, 110, 34
SERIES = (("pandodMb", "pandod, MB"), ("privMb", "pando-priv, MB"), ("descriptors", "descriptors of pandod"), ("threads", "threads of pandod"),
          ("processes", "processes"), ("namespaces", "namespaces"), ("files", "files"))


def svg(report):
    samples = report["samples"]
    end = max((m["t"] for m in samples), default=1) or 1
    attacked = [m["t"] for m in samples if m["phase"] == "attacked"]
    rows = [(k, title) for k, title in SERIES if samples and k in samples[0]]
    high = len(rows) * (HEIGHT + GAP) + 60
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + LEFT + 30}" height="{high}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="20" font-size="15">Soak of {report["seconds"]} s, {report["date"]}: shaded while attacked</text>']

    def x(t):
        return LEFT + WIDTH * t / end
    for n, (key, title) in enumerate(rows):
        top = 40 + n * (HEIGHT + GAP)
        values = [m[key] for m in samples]
        most = max(values) * 1.1 or 1
        if attacked:
            out.append(f'<rect x="{x(attacked[0]):.1f}" y="{top}" width="{x(attacked[-1]) - x(attacked[0]):.1f}" height="{HEIGHT}" fill="#f6e7d8"/>')
        points = " ".join(f"{x(m['t']):.1f},{top + HEIGHT - HEIGHT * m[key] / most:.1f}" for m in samples)
        out += [f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
                f'<polyline points="{points}" fill="none" stroke="#1f5fa8" stroke-width="1.5"/>',
                f'<text x="{LEFT + 6}" y="{top + 15}">{title}</text>',
                f'<text x="{LEFT - 6}" y="{top + 12}" text-anchor="end">{most:.0f}</text>',
                f'<text x="{LEFT - 6}" y="{top + HEIGHT}" text-anchor="end">0</text>']
    out.append(f'<text x="{LEFT + WIDTH}" y="{high - 12}" text-anchor="end">{end:.0f} s</text></svg>')
    return "\n".join(out) + "\n"
