#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fuzz targets with a memory: run, measure, list (make fuzz; scripts/fuzz.sh builds first).

    run.py run NAME...        each for FUZZ_SECONDS, continuing where the last run ended
    run.py coverage NAME...   which lines of its parser each corpus reaches, from build-cov/: the seeds as make test runs them,
                              with their variants, and what was found since
    run.py table [NAME...]    what is known of all, or of these

What is found stays outside the tree, in FUZZ_DIR (default: ~/.cache/pando-fuzz), so that another run, or another checkout,
continues with it:

    NAME/corpus/        inputs that reached something new; the seeds in tests/fuzz/corpus/NAME/ are read, too
    NAME/findings/      inputs that crash, hang or take too much memory
    NAME/log            of the last run; NAME/failed-N.log: of those that failed
    NAME/state.json     executions, CPU seconds, coverage; added up over all runs

A finding is fixed, then moved to tests/fuzz/corpus/NAME/, where make test runs it from then on.
"""

import json
import os
import re
import resource
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DIR = os.environ.get("FUZZ_DIR") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pando-fuzz")
SECONDS = int(os.environ.get("FUZZ_SECONDS") or 30)
GRACE_S = 60  # a run that takes longer than its time by this much hangs
ENV = dict(os.environ, UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1", ASAN_OPTIONS="detect_leaks=1")


def targets():
    """Name -> the parser's files, from targets.txt."""
    found = {}
    with open(os.path.join(ROOT, "tests/fuzz/targets.txt"), encoding="utf-8") as f:
        for line in f:
            words = line.split("#")[0].split()
            if words:
                found[words[0].rstrip(":")] = words[1:]
    return found


def how(name):
    """The option with which make test runs its seeds, from meson.build."""
    with open(os.path.join(ROOT, "tests/fuzz/meson.build"), encoding="utf-8") as f:
        table = f.read().split("fuzz_how = {")[1].split("}")[0]
    return dict(re.findall(r"'(\w+)': \['(--\w+)'\]", table)).get(name, "--all")


def place(name, *more):
    return os.path.join(DIR, name, *more)


def load(name):
    try:
        with open(place(name, "state.json"), encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return {"executions": 0, "cpu_s": 0.0, "coverage": None}


def save(name, state):
    new = place(name, "state.json.new")
    with open(new, "w", encoding="utf-8") as f:
        json.dump(state, f)
    os.replace(new, place(name, "state.json"))


def count(*path):
    path = os.path.join(*path)
    return len(os.listdir(path)) if os.path.isdir(path) else 0


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(name):
    """True if nothing was found."""
    exe = os.path.join(ROOT, "build-fuzz/tests/fuzz/fuzz_" + name)
    seeds = os.path.join(ROOT, "tests/fuzz/corpus", name)
    words = os.path.join(ROOT, "tests/fuzz/dict", name + ".dict")
    for part in ("corpus", "findings"):
        os.makedirs(place(name, part), exist_ok=True)
    args = [exe, f"-max_total_time={SECONDS}", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1",
            "-artifact_prefix=" + place(name, "findings", "")]
    if os.path.exists(words):
        args.append("-dict=" + words)
    before, known = cpu(), count(place(name, "findings"))
    log = place(name, "log")
    with open(log, "wb") as out:
        try:
            code = subprocess.run(args + [place(name, "corpus"), seeds], stdout=out, stderr=out, env=ENV, cwd=place(name),
                                  timeout=SECONDS + GRACE_S, check=False).returncode
        except subprocess.TimeoutExpired:
            code = -1
    with open(log, encoding="utf-8", errors="replace") as f:
        text = f.read()
    done = re.findall(r"^stat::number_of_executed_units: *(\d+)", text, re.M) or re.findall(r"^#(\d+)\t", text, re.M)
    state = load(name)  # now: somebody may have measured its coverage meanwhile
    state["executions"] += int(done[-1]) if done else 0
    state["cpu_s"] += cpu() - before
    save(name, state)
    found = count(place(name, "findings")) > known
    if code or found:
        kept = place(name, f"failed-{sum(f.startswith('failed-') for f in os.listdir(place(name))) + 1}.log")
        os.replace(log, kept)
        log = kept
        print("\n".join("  | " + line for line in text.splitlines()[-30:]), file=sys.stderr)
        print(f"fuzz target {name} FAILED (exit code {code}); the input is in {place(name, 'findings')}, the log is {log}",
              file=sys.stderr)
    return not code and not found


def coverage(name, files):
    """Lines of the parser that seeds (as make test runs them) and corpus reach, in percent."""
    exe = os.path.join(ROOT, "build-cov/tests/fuzz/fuzz_" + name)
    raw, data = place(name, "cov.profraw"), place(name, "cov.profdata")
    os.makedirs(place(name, "corpus"), exist_ok=True)
    inputs = [how(name), os.path.join(ROOT, "tests/fuzz/corpus", name)]
    if count(place(name, "corpus")):
        inputs += ["--once", place(name, "corpus")]
    with open(place(name, "cov.log"), "wb") as out:
        done = subprocess.run([exe, *inputs], stdout=out, stderr=out, check=False, timeout=1200, cwd=place(name),
                              env=dict(os.environ, LLVM_PROFILE_FILE=raw))
    if done.returncode:
        print(f"coverage of {name}: exit code {done.returncode}; see {place(name, 'cov.log')}", file=sys.stderr)
        return False
    subprocess.run(["llvm-profdata", "merge", "-o", data, raw], check=True)
    shown = subprocess.run(["llvm-cov", "export", exe, "-instr-profile=" + data, "-summary-only"], check=True,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    lines = {}
    for entry in json.loads(shown.stdout)["data"][0]["files"]:
        path = os.path.relpath(os.path.realpath(entry["filename"]), ROOT)
        lines[path] = (entry["summary"]["lines"]["covered"], entry["summary"]["lines"]["count"])
    missing = [f for f in files if f not in lines]
    if missing:
        print(f"{name}: {' '.join(missing)} is not in the program: see tests/fuzz/targets.txt", file=sys.stderr)
        return False
    state = load(name)
    state["files"] = {f: lines[f] for f in files}
    state["coverage"] = 100.0 * sum(lines[f][0] for f in files) / max(1, sum(lines[f][1] for f in files))
    save(name, state)
    os.unlink(raw)
    return True


def table(names):
    print(f"{'target':14} {'executions':>12} {'CPU s':>8} {'corpus':>7} {'lines':>7} {'findings':>9}")
    for name in names:
        s = load(name)
        lines = "-" if s.get("coverage") is None else f"{s['coverage']:.1f}%"
        print(f"{name:14} {s['executions']:>12} {s['cpu_s']:>8.0f} {count(place(name, 'corpus')):>7} {lines:>7} "
              f"{count(place(name, 'findings')):>9}")


def main():
    known = targets()
    verb, names = sys.argv[1], sys.argv[2:] or list(known)
    for name in names:
        if name not in known:
            sys.exit(f"there is no fuzz target '{name}' in tests/fuzz/targets.txt")
    bad = []
    for name in names if verb in ("run", "coverage") else []:
        print(f"pando: {'fuzzing' if verb == 'run' else 'coverage of'} {name}", file=sys.stderr)
        if not (run(name) if verb == "run" else coverage(name, known[name])):
            bad.append(name)
    table(names)
    if bad:
        sys.exit("failed: " + " ".join(bad))


if __name__ == "__main__":
    main()
