# SPDX-License-Identifier: Apache-2.0
"""cut.py - what a disk may have had when the power went: from the log of recfs.c

Theory of operation: the log is an order of changes. At a cut, a file has everything up to its last fsync; of the writes after that, in any
combination, some are there, some not, and some in part, torn at sectors of 512 bytes; truncations likewise. A directory
has the changes up to its last fsync; of all names that changed later, as many as the seed says, in the order in which they did, since all
file systems with a journal keep that order. So a name that was never flushed may be missing although the file it names was, which POSIX allows: that
is a strict cut. In a lenient one fsync of anything also flushes all changes of names before it, as ext4 and xfs do. The seed chooses.
Taken for granted in both: modes and owners are those of the last change, and no file has another's blocks.
"""
import collections
import os
import random
import shutil
import stat
import struct

RECORD = struct.Struct("<4I3Q2I")
SECTOR = 512
Rec = collections.namedtuple("Rec", "op uid gid mode node a b name data at")  # data: where in the log, and how much


def read_log(path):
    """All records; data stays in the file."""
    found = []
    with open(path, "rb") as f:
        end = os.fstat(f.fileno()).st_size
        at = 0
        while at + RECORD.size <= end:
            f.seek(at)
            op, uid, gid, mode, node, a, b, nlen, dlen = RECORD.unpack(f.read(RECORD.size))
            name = f.read(nlen).decode("utf-8", "surrogateescape")
            data = at + RECORD.size + nlen
            if data + dlen > end:
                break
            found.append(Rec(chr(op), uid, gid, mode, node, a, b, name, (data, dlen), len(found)))
            at = data + dlen
    return found


class Base:
    """A copy of the directory before anything was recorded. Layers that are there stay as they are for good: linked, not copied."""

    def __init__(self, src, dst):
        self.dir = dst
        self.inodes = {}  # of the original: path in the copy
        for top, dirs, names in os.walk(src):
            rel = os.path.relpath(top, src)
            to = os.path.normpath(os.path.join(dst, rel))
            st = os.lstat(top)
            os.makedirs(to, exist_ok=True)
            os.chmod(to, stat.S_IMODE(st.st_mode))
            os.chown(to, st.st_uid, st.st_gid)
            self.inodes[st.st_ino] = os.path.normpath(rel)
            for name in names + [d for d in dirs if os.path.islink(os.path.join(top, d))]:
                path, st = os.path.join(top, name), os.lstat(os.path.join(top, name))
                if stat.S_ISSOCK(st.st_mode):
                    continue
                self.inodes[st.st_ino] = os.path.normpath(os.path.join(rel, name))
                if self.shared(self.inodes[st.st_ino]):
                    os.link(path, os.path.join(to, name))
                else:
                    shutil.copy2(path, os.path.join(to, name), follow_symlinks=False)
                    os.chown(os.path.join(to, name), st.st_uid, st.st_gid, follow_symlinks=False)

    @staticmethod
    def shared(rel):
        return rel.startswith(("layers/", "points/"))


class File:
    def __init__(self, base=None, rec=None, target=None):
        self.base = base      # path in Base, of a file that was there
        self.kind = stat.S_IFMT(rec.mode) if rec else None
        self.uid, self.gid, self.mode = (rec.uid, rec.gid, stat.S_IMODE(rec.mode)) if rec else (None, None, None)
        self.target = target
        self.changes = []     # of its contents, flushed
        self.pending = []     # since
        self.names = {}       # of a directory: name to File
        self.later = []       # changes of names since it was flushed


class Change:
    """Of names. dirs: those it is in; apply() does it."""

    def __init__(self, at, dirs, apply):
        self.at, self.dirs, self.apply, self.done = at, dirs, apply, False


class Cut:
    """The disk at a place in the log; seeded."""

    def __init__(self, log_path, records, base, at, seed):
        self.rng = random.Random(seed)
        self.strict = self.rng.random() < 0.5
        self.base, self.log = base, open(log_path, "rb")
        self.byid, self.by_ino = {}, {}
        self.changes = 0
        self.dirty = {}  # directories with changes that are not flushed
        self.root = self._tree(".")
        self.byid[1] = self.root
        self.live = {}  # (directory, name): File as programs saw it
        self._see(self.root)
        for r in records[:at]:
            self._step(r)
        self._settle()

    def _tree(self, rel):
        f = File(base=rel)
        full = os.path.join(self.base.dir, rel)
        if os.path.isdir(full) and not os.path.islink(full):
            f.kind = stat.S_IFDIR
            for name in os.listdir(full):
                f.names[name] = self._tree(os.path.normpath(os.path.join(rel, name)))
        else:
            f.kind = stat.S_IFMT(os.lstat(full).st_mode)
        return f

    def _see(self, d):
        for name, f in d.names.items():
            self.live[(id(d), name)] = f
            if f.kind == stat.S_IFDIR:
                self._see(f)
        if d is self.root:
            paths = {v: k for k, v in self.base.inodes.items()}

            def number(f):
                self.by_ino[paths.get(f.base)] = f
                for g in f.names.values():
                    number(g)
            number(d)

    # ---- the log ----

    def _step(self, r):
        f = self.byid.get(r.node)
        if r.op == "n":
            if r.a in self.by_ino:
                self.byid[r.node] = self.by_ino[r.a]
        elif r.op == "c":
            new = File(rec=r, target=self._data(r).decode() if stat.S_ISLNK(r.mode) else None)
            self.byid[r.a] = self.by_ino[r.b] = new
            if r.name:
                self._put(f, r.name, new)
        elif r.op == "l":
            self._put(f, r.name, self.byid[r.a])
        elif r.op == "u":
            self.live.pop((id(f), r.name), None)
            self._change([f], lambda: f.names.pop(r.name, None))
        elif r.op == "r":
            self._rename(f, r.name, self.byid[r.a], self._data(r).decode("utf-8", "surrogateescape"))
        elif r.op in "wta":
            f.pending.append(r)
        elif r.op == "m":
            f.uid, f.gid, f.mode = r.uid, r.gid, stat.S_IMODE(r.mode)
        elif r.op == "s":
            f.changes += f.pending
            f.pending = []
            self._flush_names(f)
            if not self.strict:
                for d in list(self.dirty.values()):
                    self._flush_names(d)

    def _put(self, d, name, f):
        self.live[(id(d), name)] = f
        self._change([d], lambda: d.names.__setitem__(name, f))

    def _rename(self, d, name, to, to_name):
        f = self.live.pop((id(d), name))
        self.live[(id(to), to_name)] = f

        def move():
            if d.names.get(name) is f:
                d.names.pop(name)
            to.names[to_name] = f
        self._change([d] if d is to else [d, to], move)

    def _change(self, dirs, apply):
        self.changes += 1
        c = Change(self.changes, dirs, apply)
        for d in dirs:
            d.later.append(c)
            self.dirty[id(d)] = d

    def _do(self, c):
        """With everything before it in its directories."""
        for d in c.dirs:
            while c in d.later:
                first = d.later[0]
                if first is not c:
                    self._do(first)
                else:
                    if not c.done:
                        c.done = True
                        c.apply()
                    d.later.pop(0)

    def _flush_names(self, d):
        while d.later:
            self._do(d.later[0])
        self.dirty.pop(id(d), None)

    def _settle(self):
        """What was not flushed: as much as chance wants, in the order in which it happened."""
        rest = sorted({c.at: c for d in self.dirty.values() for c in d.later}.items())
        keep = self.rng.choice((0, 0, self.rng.randint(0, len(rest)), len(rest)))
        for _, c in rest[:keep]:
            self._do(c)

    # ---- to a directory ----

    def _data(self, r):
        self.log.seek(r.data[0])
        return self.log.read(r.data[1])

    def build(self, dst):
        """Fills dst, which must not exist. Returns what was done, for a failure's report."""
        self.report = [f"{'strict' if self.strict else 'lenient'}"]
        self._make(self.root, dst, ".")
        return self.report

    def _make(self, f, path, rel):
        if f.kind == stat.S_IFDIR:
            os.mkdir(path)
            if f.base:
                st = os.lstat(os.path.join(self.base.dir, f.base))
                os.chmod(path, stat.S_IMODE(st.st_mode))
                os.chown(path, st.st_uid, st.st_gid)
            for name, child in f.names.items():
                self._make(child, os.path.join(path, name), os.path.join(rel, name))
        elif f.kind == stat.S_IFLNK:
            os.symlink(f.target if f.target is not None else os.readlink(os.path.join(self.base.dir, f.base)), path)
        elif f.kind == stat.S_IFREG:
            if hasattr(f, "built"):
                os.link(f.built, path)
            else:
                self._make_file(f, path, rel)
                f.built = path
        else:
            return  # sockets do not outlive a machine
        if f.mode is not None:
            os.chown(path, f.uid, f.gid, follow_symlinks=False)
            if f.kind != stat.S_IFLNK:
                os.chmod(path, f.mode)

    def _make_file(self, f, path, rel):
        changed = f.changes or f.pending
        if f.base and not changed and Base.shared(f.base):
            os.link(os.path.join(self.base.dir, f.base), path)
            return
        if f.base:
            shutil.copy2(os.path.join(self.base.dir, f.base), path)
            st = os.lstat(os.path.join(self.base.dir, f.base))
            os.chown(path, st.st_uid, st.st_gid)
        with open(path, "r+b" if f.base else "w+b") as out:
            for r in f.changes:
                self._write(out, r, self._data(r) if r.op == "w" else None)
            if not f.pending:
                return
            how = self.rng.choice(("none", "all", "some", "torn", "prefix"))
            self.report.append(f"{rel}: {how} of {len(f.pending)} changes")
            upto = self.rng.randint(0, len(f.pending))
            for n, r in enumerate(f.pending):
                if how == "none" or (how == "prefix" and n >= upto) or (how in ("some", "torn") and self.rng.random() < 0.5):
                    continue
                if r.op == "w" and how == "torn":
                    self._tear(out, r)
                else:
                    self._write(out, r, self._data(r) if r.op == "w" else None)

    def _write(self, out, r, data):
        if r.op == "w":
            out.seek(r.a)
            out.write(data)
        elif r.op == "t":
            out.truncate(r.a)
        else:
            out.flush()
            size = os.fstat(out.fileno()).st_size
            if r.mode & 2:  # punch a hole
                if r.a < size:
                    out.seek(r.a)
                    out.write(bytes(min(r.b, size - r.a)))
            elif not r.mode & 1 and r.a + r.b > size:
                out.truncate(r.a + r.b)
        out.flush()

    def _tear(self, out, r):
        data = self._data(r)
        for at in range(0, len(data), SECTOR):
            if self.rng.random() < 0.5:
                out.seek(r.a + at)
                out.write(data[at:at + SECTOR])
        out.flush()
