# SPDX-License-Identifier: Apache-2.0
"""figures.py - every figure once: its name, unit, target; and from samples to medians, verdicts and the printed table"""
import statistics

import attack
import page

MISSED, MET, NONE = "missed", "met", ""

# id, section, what a reader sees, unit, target ("at most" unless it begins with ">="), note
FIGURES = [
    ("thaw.agent", "thaw", "create: thaw to the agent's confirmation", "ms", 150, "server: sum of its steps"),
    ("thaw.api", "thaw", "create: whole API call", "ms", 150, "client"),
    ("thaw.server", "thaw", "create: server's own figure", "ms", None, "server: 'created in'"),
    ("thaw.echo", "thaw", "create + first echo", "ms", 400, "client"),
    ("resume.agent", "thaw", "resume: thaw to the agent's confirmation", "ms", 150, "server: sum of its steps"),
    ("resume.api", "thaw", "resume: whole API call", "ms", 150, "client"),
    ("resume.server", "thaw", "resume: server's own figure", "ms", None, "server: 'resumed in'"),
    ("resume.echo", "thaw", "resume + first echo", "ms", 400, "client"),
    ("exec.true", "thaw", "exec of true, warm", "ms", None, "client"),
    ("pause.small", "freeze", "pause, little dirty", "ms", None, "server: stop to cont"),
    ("pause.64", "freeze", "pause, 64 MB dirty", "ms", 30, "server: stop to cont"),
    ("pause.512", "freeze", "pause, 512 MB dirty", "ms", 30, "server: stop to cont"),
    ("pause.growth", "freeze", "pause, 512 MB against 64 MB", "x", 1.25, "ratio of medians; 1.25 allows for noise"),
    ("fork_call.64", "freeze", "of it fork(2), 64 MB dirty", "ms", None, "server"),
    ("fork_call.512", "freeze", "of it fork(2), 512 MB dirty", "ms", None, "server"),
    ("dirty.64", "freeze", "memory written, 64 MB dirty", "MB", None, "server: pages x 4 KB"),
    ("dirty.512", "freeze", "memory written, 512 MB dirty", "MB", None, "server: pages x 4 KB"),
    ("snapshot.small", "freeze", "snapshot API call, little dirty", "ms", None, "client; durable on disk"),
    ("snapshot.64", "freeze", "snapshot API call, 64 MB dirty", "ms", None, "client; durable on disk"),
    ("snapshot.512", "freeze", "snapshot API call, 512 MB dirty", "ms", None, "client; durable on disk"),
    ("suspend.api", "freeze", "suspend API call", "ms", None, "client"),
    ("pause.16g.small", "freeze", "pause of a VM of 16 GB, little dirty", "ms", None, "server: stop to cont"),
    ("pause.16g", "freeze", "... 4 GB dirty", "ms", 30, "server: stop to cont"),
    ("pause.16g.resumed", "freeze", "... 4 GB rewritten after a resume", "ms", None, "server: stop to cont; small pages"),
    ("fork_call.16g.small", "freeze", "of it fork(2), 16 GB, little dirty", "ms", None, "server"),
    ("fork_call.16g", "freeze", "... 4 GB dirty", "ms", None, "server"),
    ("fork_call.16g.resumed", "freeze", "... 4 GB rewritten after a resume", "ms", None, "server"),
    ("dirty.16g", "freeze", "memory written, 16 GB, 4 GB dirty", "MB", None, "server: pages x 4 KB"),
    ("dirty.16g.resumed", "freeze", "... 4 GB rewritten after a resume", "MB", None, "server: pages x 4 KB"),
    ("snapshot.16g.small", "freeze", "snapshot API call, 16 GB, little dirty", "ms", None, "client; durable on disk"),
    ("snapshot.16g", "freeze", "... 4 GB dirty", "ms", None, "client; durable on disk"),
    ("snapshot.16g.resumed", "freeze", "... 4 GB rewritten after a resume", "ms", None, "client; durable on disk"),
    ("size.first", "sizes", "another size, first use of this server", "ms", None, "client; its template may be in the cache"),
    ("size.default.api", "sizes", "create of the default size", "ms", None, "client"),
    ("size.other.api", "sizes", "... of another size, from its second use on", "ms", None, "client"),
    ("size.ratio", "sizes", "... one against the other", "x", 1.2, "ratio of medians"),
    ("size.default.cell", "sizes", "first Python cell, default size", "ms", None, "client"),
    ("size.other.cell", "sizes", "... of another size", "ms", None, "client"),
    ("width.create1.seed", "width", "create + first command, forked from a seed", "ms", None, "client; no VM ready"),
    ("width.create1.thaw", "width", "... thawed", "ms", None, "client; no VM ready"),
    ("width.create10.seed", "width", "10 at once, all answered, forked", "ms", 500, "client"),
    ("width.create10.thaw", "width", "... thawed", "ms", None, "client"),
    ("width.create30.seed", "width", "30 at once, all answered, forked", "ms", 1500, "client"),
    ("width.create30.thaw", "width", "... thawed", "ms", None, "client"),
    ("width.cpu.seed", "width", "processor time of one of 10 to its answer, forked", "ms", None, "of its threads"),
    ("width.cpu.thaw", "width", "... thawed", "ms", None, "of its threads"),
    ("width.cpu.ratio", "width", "... thawed against forked", "x", ">=3", "ratio of medians"),
    ("width.private.seed", "width", "private memory of one of 10, forked", "MB", 20, "Private_Dirty"),
    ("width.private.thaw", "width", "... thawed", "MB", None, "Private_Dirty"),
    ("elsewhere.0", "cluster", "resume on another node, idle VM, to the first answer", "ms", 1000, "client; template and image are there"),
    ("elsewhere.0.own", "cluster", "... its own layers", "MB", None, "files"),
    ("elsewhere.60", "cluster", "... one that holds 60 MB more, half of them random", "ms", 2000, "client"),
    ("elsewhere.60.own", "cluster", "... its own layers", "MB", None, "files"),
    ("width.fork3.seed", "width", "fork of 3, all answered, server with seeds", "ms", None, "client"),
    ("width.fork3.thaw", "width", "... without", "ms", None, "client"),
    ("width.fork10.seed", "width", "fork of 10, all answered, server with seeds", "ms", None, "client"),
    ("width.fork10.thaw", "width", "... without", "ms", None, "client"),
    ("pty.key", "pty", "keystroke to its echo, in a shell", "ms", 15, "client"),
    ("pty.rate", "pty", "output of a terminal", "MB/s", None, "client; lines of text"),
    ("pty.attach", "pty", "attach, 10,000 lines of scrollback", "ms", None, "client; to the end of the picture"),
    ("code.first", "code", "first cell after create", "ms", None, "client"),
    ("code.warm", "code", "cell 1+1, warm", "ms", 30, "client"),
    ("code.plot", "code", "cell with a plot, warm", "ms", None, "client"),
    ("code.context", "code", "new context to its first result", "ms", None, "client; Python"),
    ("code.ts", "code", "first TypeScript cell of a VM", "ms", None, "client"),
    ("code.kernels", "code", "20 kernels at once, a cell each", "ms", None, "client; Python"),
    ("vpc.ping", "network", "two VMs of a VPC: round trip", "ms", None, "ping, mean of 10"),
    ("vpc.rate", "network", "... one connection", "MB/s", None, "8 MB"),
    ("wg.ping", "network", "through the tunnel to a VM: round trip", "ms", None, "ping, mean of 10"),
    ("wg.rate", "network", "... one connection", "MB/s", None, "8 MB, from the VM"),
    ("edge.vm.get", "network", "through the edge to a VM: kept connection", "ms", None, "GET of 2 bytes, TLS, median of 20"),
    ("edge.vm.rate", "network", "... one connection", "MB/s", None, "8 MB, from the VM, TLS"),
    ("inside.clone.host", "network", "clone of 10 MB on the host", "ms", None, "git client, through the edge, TLS"),
    ("inside.clone.vm", "network", "... inside a VM, from its own platform", "ms", None, "client; exec of git"),
    ("inside.clone.ratio", "network", "... one against the other", "x", 5, "ratio of medians"),
    ("edge.rate.edge", "edge", "small answers", "1/s", None, "wrk, 16 connections, TLS"),
    ("edge.rate.nginx", "edge", "... nginx", "1/s", None, "the same upstream"),
    ("edge.rate.haproxy", "edge", "... haproxy", "1/s", None, "the same upstream"),
    ("edge.rate.ratio", "edge", "... the edge against the better one", "x", ">=0.9", "ratio of medians"),
    ("edge.mb.edge", "edge", "answers of 1 MiB", "MB/s", None, "wrk, 16 connections, TLS"),
    ("edge.mb.nginx", "edge", "... nginx", "MB/s", None, "the same upstream"),
    ("edge.mb.haproxy", "edge", "... haproxy", "MB/s", None, "the same upstream"),
    ("edge.mb.ratio", "edge", "... the edge against the better one", "x", ">=0.9", "ratio of medians"),
    ("edge.cpu.edge", "edge", "processor time of a small answer", "us", None, "of the proxy alone"),
    ("edge.cpu.nginx", "edge", "... nginx", "us", None, ""),
    ("edge.cpu.haproxy", "edge", "... haproxy", "us", None, ""),
    ("edge.cpumb.edge", "edge", "processor time of 1 MiB", "us", None, "of the proxy alone"),
    ("edge.cpumb.nginx", "edge", "... nginx", "us", None, ""),
    ("edge.cpumb.haproxy", "edge", "... haproxy", "us", None, ""),
    ("fork.api", "fork", "fork of 3: API call", "ms", None, "client"),
    ("fork.ready", "fork", "fork of 3: all three answered echo", "ms", 1000, "client"),
    ("mem.fresh", "memory", "private memory after create + echo", "MB", 45, "Private_Dirty of QEMU's smaps_rollup"),
    ("mem.idle", "memory", "private memory after a minute idle", "MB", 45, "Private_Dirty of QEMU's smaps_rollup"),
    ("mem.pss", "memory", "proportional share, idle", "MB", None, "Pss: shared pages divided by their users"),
    ("mem.tables", "memory", "page tables, idle", "MB", None, "VmPTE of QEMU"),
    ("cpu.idle", "memory", "processor time of an idle VM", "%", None, "of one core, over that minute"),
    ("boot.api", "beside", "cold boot: start API call", "ms", None, "client; after stop"),
    ("boot.echo", "beside", "cold boot to first echo", "ms", None, "client; after stop"),
    ("boot.ratio", "beside", "cold boot against thaw, to first echo", "x", ">=60", "ratio of medians"),
    ("qemu.save", "beside", "QEMU's own save (migrate to file)", "ms", None, "the guest stands still"),
    ("qemu.flush", "beside", "... and fsync of that file", "ms", None, ""),
    ("qemu.size", "beside", "... size of that file", "MB", None, ""),
    ("qemu.agent", "beside", "QEMU's own restore to agent reply", "ms", None, "new process, -incoming"),
    ("qemu.echo", "beside", "QEMU's own restore to first echo", "ms", None, "new process, -incoming"),
    ("qemu.ratio", "beside", "QEMU's restore against thaw, to first echo", "x", None, "ratio of medians"),
    ("api.create1.ready", "api", "create to first exec, 1 wide, kept ready", "ms", 120, "client"),
    ("api.create10.ready", "api", "create to first exec, 10 wide, kept ready", "ms", None, "client"),
    ("api.create30.ready", "api", "create to first exec, 30 wide, kept ready", "ms", None, "client"),
    ("api.create1.thaw", "api", "create to first exec, 1 wide, thawed", "ms", 450, "client"),
    ("api.create10.thaw", "api", "create to first exec, 10 wide, thawed", "ms", None, "client"),
    ("api.create30.thaw", "api", "create to first exec, 30 wide, thawed", "ms", None, "client"),
    ("api.resume", "api", "exec on a suspended VM: resume to reply", "ms", 200, "client"),
    ("api.fork10", "api", "fork of 10: all ten answered", "ms", 2000, "client"),
    ("api.exec", "api", "exec of true on a warm VM", "ms", 60, "client"),
    ("run.exec", "api", "create to first exec, beside runs, kept ready", "ms", None, "client"),
    ("run.second", "api", "run of a script whose packages are cached", "ms", None, "client; its VM kept ready"),
    ("run.ratio", "api", "... of that exec + 150 ms", "x", 1, "share of what is allowed, by medians"),
    ("api.list1000", "api", "list with 1000 VMs", "ms", None, "client"),
    ("api.whoami", "api", "whoami", "1/s", None, "wrk, 8 connections"),
    ("api.bare", "api", "libmicrohttpd, a constant, same threads", "1/s", None, "wrk, 8 connections"),
    ("api.bare.pool", "api", "libmicrohttpd, a constant, its fastest", "1/s", None, "wrk, 8 connections"),
    ("api.whoami.ratio", "api", "whoami against bare libmicrohttpd", "x", ">=0.5", "ratio of medians, same threads"),
    ("git.clone.big.pando", "git", "clone of 100 MB", "ms", None, "git client"),
    ("git.clone.big.backend", "git", "... from git http-backend behind nginx", "ms", None, "git client"),
    ("git.clone.big.ratio", "git", "... one against the other", "x", 1.05, "ratio of medians; 0.05 allows for noise"),
    ("git.clone.many.pando", "git", "clone of 20000 small files", "ms", None, "git client"),
    ("git.clone.many.backend", "git", "... from git http-backend behind nginx", "ms", None, "git client"),
    ("git.clone.many.ratio", "git", "... one against the other", "x", 1.05, "ratio of medians; 0.05 allows for noise"),
    ("git.push.big.pando", "git", "push of 100 MB", "ms", None, "git client; checked and flushed to the disk"),
    ("git.push.big.backend", "git", "... to git http-backend behind nginx", "ms", None, "git client; likewise"),
    ("git.push.big.ratio", "git", "... one against the other", "x", 1.05, "ratio of medians; 0.05 allows for noise"),
    ("git.push.many.pando", "git", "push of 20000 small files", "ms", None, "git client; checked and flushed to the disk"),
    ("git.push.many.backend", "git", "... to git http-backend behind nginx", "ms", None, "git client; likewise"),
    ("git.push.many.ratio", "git", "... one against the other", "x", 1.05, "ratio of medians; 0.05 allows for noise"),
    ("git.search", "git", "search in 20000 files", "ms", None, "client"),
    ("git.grep", "git", "... git grep of the same", "ms", None, "a new process"),
    ("git.search.ratio", "git", "... of 1.2 x git grep + 20 ms", "x", 1, "share of what is allowed, by medians"),
    ("git.search.first", "git", "search in 20000 files, no texts kept", "ms", None, "client; PANDO_GIT_SEARCH_MB=0"),
    ("git.grep.first", "git", "... git grep of the same", "ms", None, "a new process"),
    ("git.search.first.ratio", "git", "... of 1.2 x git grep + 20 ms", "x", 1, "share of what is allowed, by medians"),
    ("git.list", "git", "100 of 10000 repositories listed", "ms", None, "client"),
    ("git.open", "git", "a file of one of 10000 repositories", "ms", None, "client"),
    *attack.FIGURES,
    *page.FIGURES,
    ("floor.echo", "beside", "bubblewrap, same root: echo", "ms", None, "no kernel of its own"),
]
# id, the figure above, the figure below (of several: the greatest): ratios of medians. What is below may have a factor and so many milliseconds more.
RATIOS = [("size.ratio", "size.other.api", "size.default.api"), ("width.cpu.ratio", "width.cpu.thaw", "width.cpu.seed"),
          ("pause.growth", "pause.512", "pause.64"), ("boot.ratio", "boot.echo", "thaw.echo"),
          ("qemu.ratio", "qemu.echo", "thaw.echo"), ("api.whoami.ratio", "api.whoami", "api.bare"),
          ("inside.clone.ratio", "inside.clone.vm", "inside.clone.host"),
          ("edge.rate.ratio", "edge.rate.edge", ("edge.rate.nginx", "edge.rate.haproxy")),
          ("edge.mb.ratio", "edge.mb.edge", ("edge.mb.nginx", "edge.mb.haproxy")),
          ("git.clone.big.ratio", "git.clone.big.pando", "git.clone.big.backend"),
          ("git.clone.many.ratio", "git.clone.many.pando", "git.clone.many.backend"),
          ("git.push.big.ratio", "git.push.big.pando", "git.push.big.backend"),
          ("git.push.many.ratio", "git.push.many.pando", "git.push.many.backend"), ("git.search.ratio", "git.search", "git.grep", 1.2, 20),
          ("git.search.first.ratio", "git.search.first", "git.grep.first", 1.2, 20), ("run.ratio", "run.second", "run.exec", 1, 150)]
SECTIONS = {"thaw": "thaw", "freeze": "freeze", "sizes": "other sizes", "width": "many at once", "cluster": "another node", "fork": "fork", "pty": "terminals", "code": "code interpreter", "network": "the way to a VM",
            "edge": "the edge beside others, TLS and keep-alive",
            "memory": "memory of one VM", "api": "through the API, small VMs", "git": "repositories", "attack": "good clients beside an attack", "page": "the dashboard in Chromium", "beside": "beside them"}


def rank(values, percent):
    """Nearest rank: a value that was measured."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def verdict(value, target):
    if target is None:
        return NONE
    if isinstance(target, str):
        return MET if value >= float(target[2:]) else MISSED
    return MET if value <= target else MISSED


def summarise(samples):
    """samples: id -> [value]. Returns the figures that were measured, in the order of the table."""
    known = {f[0] for f in FIGURES}
    unknown = set(samples) - known
    if unknown:
        raise KeyError(f"samples of unknown figures: {sorted(unknown)}")
    medians = {name: statistics.median(values) for name, values in samples.items() if values}
    result = []
    for name, section, text, unit, target, note in FIGURES:
        ratio = next((r for r in RATIOS if r[0] == name), None)
        values = samples.get(name) or []
        below = max((medians.get(n, 0) for n in ([ratio[2]] if isinstance(ratio[2], str) else ratio[2])), default=0) if ratio else 0
        if below and ratio[1] in medians:
            factor, more = ratio[3:] or (1, 0)
            entry = {"median": medians[ratio[1]] / (factor * below + more), "n": 0}
        elif values:
            entry = {"median": medians[name], "min": min(values), "p90": rank(values, 90), "p95": rank(values, 95),
                     "p99": rank(values, 99), "max": max(values),
                     "n": len(values), "samples": [round(v, 3) for v in values]}
        else:
            continue
        entry = {k: round(v, 3) if isinstance(v, float) else v for k, v in entry.items()}
        result.append({"id": name, "section": section, "text": text, "unit": unit, "target": target,
                       "verdict": verdict(entry["median"], target), "source": note, **entry})
    return result


def number(value):
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def target_text(f):
    t = f["target"]
    if t is None:
        return ""
    return f"{t} {f['unit']}" if isinstance(t, str) else f"<={t} {f['unit']}"


def table(figures):
    lines = [f"{'':44} {'median':>8} {'min':>8} {'p90':>8} {'p95':>8} {'p99':>8} {'n':>4}  {'target':<9} verdict"]
    section = None
    for f in figures:
        if f["section"] != section:
            section = f["section"]
            lines.append(f"{SECTIONS[section]}")
        lines.append(f"  {f['text']:<42} {number(f['median']):>8} {number(f.get('min')):>8} {number(f.get('p90')):>8} {number(f.get('p95')):>8} {number(f.get('p99')):>8} "
                     f"{f['n'] or '':>4}  {target_text(f):<9} {f['verdict']:<7} {f['unit']}")
    return "\n".join(lines)


def breakdown(steps):
    """steps: kind -> [{step: ms}] -> kind -> {step: median}"""
    result = {}
    for kind, rows in steps.items():
        names = list(dict.fromkeys(name for row in rows for name in row))
        result[kind] = {name: round(statistics.median([row[name] for row in rows if name in row]), 2) for name in names}
    return result
