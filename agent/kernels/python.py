# SPDX-License-Identifier: Apache-2.0
"""python.py - the kernel of Python contexts: IPython's shell in this process, fed with cells by the agent

Theory of operation: descriptor 3 is a socket to the agent. It sends "RUN <bytes>\\n" and a cell; the shell runs it on
the main thread; what is shown goes back as frames (u32 length, u8 kind, u8 more, payload; docs/PROTOCOL.agent.md), DONE
last; "CD <bytes>\\n" and a directory is where the cells after it run. Descriptors 1 and 2 are pipes that the agent reads, so output of C code and of children is caught too.
SIGINT interrupts a cell and nothing else; "INT\\n" precedes it, so that one that came before the cell began is found in the socket. The file /run/pando/generation tells that this process became a copy: then
the generators of random numbers are seeded anew, before the next cell, or by SIGURG in the middle of one.
"""
import base64
import builtins
import ctypes
import gc
import importlib
import json
import os
import re
import signal
import socket
import struct
import sys
import traceback
import warnings

CONTROL_FD = 3
FRAME_MAX = 32 << 10        # bytes of one frame's payload
RESULT_MAX = 16 << 20       # bytes of one result as JSON; a larger one is not sent
RESULTS_MAX = 256           # results of one cell
RESULT, ERROR, READY, DONE = 3, 4, 6, 7
GENERATION = "/run/pando/generation"
BINARY = ("image/png", "image/jpeg", "application/pdf")
PLAIN = frozenset((int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset, range))  # have no other look than text
SPECIAL = re.compile(r"[%!?]|^\s*[,;/]", re.M)  # without one of these a cell has no IPython syntax that takes tokens to find

WARM_CELLS = ("1+1", "import numpy; numpy.zeros(2)", "import pandas; pandas.DataFrame({'a': [1.5]}).describe()",
              "import matplotlib.pyplot as plt; plt.plot([1, 2])", "plt.close('all')", "1/0", "def f(", "print(end='')")

HERE = os.path.abspath(__file__)


class Channel:
    """The agent's end: cells come in, frames go out."""

    def __init__(self, fd):
        self.sock = socket.socket(fileno=fd)
        self.sock.set_inheritable(False)
        self.pending = b""
        self.held = b""
        self.pid = os.getpid()

    def receive(self):
        """(word, text) of the next message, or None when the agent is gone."""
        while b"\n" not in self.pending:
            if not self.fill():
                return None
        head, self.pending = self.pending.split(b"\n", 1)
        word, _, size = head.partition(b" ")
        size = size or b"0"
        parts, missing = [self.pending], int(size) - len(self.pending)
        while missing > 0:
            piece = self.sock.recv(min(missing, 65536))
            if not piece:
                return None
            parts.append(piece)
            missing -= len(piece)
        text = b"".join(parts)
        self.pending = text[int(size):]
        return word, text[:int(size)].decode("utf-8", "surrogateescape" if word == b"CD" else "replace")

    def interrupted(self):
        """Whether an interrupt of the cell that was received last is there."""
        try:
            self.pending += self.sock.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        return self.pending.startswith(b"INT\n")

    def fill(self):
        piece = self.sock.recv(65536)
        self.pending += piece
        return bool(piece)

    def send(self, kind, payload=b"", hold=False):
        """hold: it may wait for what is sent next; one message wakes the agent once."""
        if os.getpid() != self.pid:
            return  # a forked child of a cell has nothing to say here
        view, frames = memoryview(payload), [self.held]
        self.held = b""
        while True:
            piece, view = view[:FRAME_MAX], view[FRAME_MAX:]
            frames.append(struct.pack(">IBB", len(piece) + 2, kind, 1 if view else 0) + bytes(piece))
            if not view:
                break
        if hold and len(payload) <= FRAME_MAX:
            self.held = b"".join(frames)
        else:
            self.sock.sendall(b"".join(frames))

    def send_json(self, kind, value):
        self.send(kind, json.dumps(value, ensure_ascii=False, default=repr).encode("utf-8", "replace"))


class Mute:
    """Stands for the agent's end while nobody is to hear anything."""

    def __init__(self):
        self.pid = os.getpid()

    def send(self, *_args):
        pass

    send_json = send


class Interrupts:
    """SIGINT raises KeyboardInterrupt while a cell runs, and is nothing at any other time."""

    def __init__(self):
        self.running = False

    def install(self):
        signal.signal(signal.SIGINT, self.on_signal)

    def on_signal(self, _sig, _frame):
        if self.running:
            raise KeyboardInterrupt


class Seeds:
    """Generators of this process that a copy of the machine must not share."""

    def __init__(self):
        try:
            self.fd = os.open(GENERATION, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.fd = -1
        self.seen = self.now()

    def now(self):
        try:
            return os.pread(self.fd, 32, 0) if self.fd >= 0 else b""
        except OSError:
            return b""

    def check(self, *_):
        now = self.now()
        if now == self.seen:
            return
        self.seen = now
        self.renew()

    @staticmethod
    def renew():
        random = sys.modules.get("random")
        if random:
            random.seed()
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random:
            numpy_random.seed()
        ssl = sys.modules.get("ssl")
        if ssl:  # OpenSSL has a generator in this process, which it only renews now and then
            ssl.RAND_add(os.urandom(64), 64.0)
        torch = sys.modules.get("torch")
        if torch and hasattr(torch, "seed"):
            torch.seed()


class Output:
    """Descriptors 1 and 2 as they were given to us: a cell that closed or replaced them gets them back."""

    def __init__(self):
        self.kept = {fd: os.dup(fd) for fd in (1, 2)}  # dup() sets close-on-exec
        self.where = {fd: os.fstat(fd).st_ino for fd in (1, 2)}

    def restore(self):
        for fd, kept in self.kept.items():
            try:
                same = os.fstat(fd).st_ino == self.where[fd]
            except OSError:
                same = False
            if not same:
                os.dup2(kept, fd, inheritable=True)
        for name, fd in (("stdout", 1), ("stderr", 2)):
            stream = getattr(sys, name, None)
            if stream is None or getattr(stream, "closed", False):
                stream = open(fd, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(line_buffering=True, errors="backslashreplace")

    @staticmethod
    def flush():
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass  # closed by the cell; the next one gets a new one


def refuse_input(prompt="", *_args, **_kw):
    """Stands for input() and getpass()."""
    raise RuntimeError("input() cannot work here: a cell has nobody to ask. Put the value into a variable instead.")


def bundle(data):
    """A result as JSON: text as it is, binary types in base64, and no type that says nothing."""
    out = {}
    for mime, value in data.items():
        if value is None:
            continue
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode()
        elif mime in BINARY and isinstance(value, str):
            value = value.replace("\n", "")
        out[mime] = value
    return out


class Kernel:
    def __init__(self, channel):
        self.channel = channel
        self.interrupts = Interrupts()
        self.seeds = Seeds()
        self.output = Output()
        self.output.restore()
        self.error = None
        self.sent = 0
        self.shell = self.make_shell()

    def make_shell(self):
        from IPython.core.displayhook import DisplayHook
        from IPython.core.displaypub import DisplayPublisher
        from IPython.core.formatters import DisplayFormatter
        from IPython.core.inputtransformer2 import TransformerManager
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets import Instance
        from traitlets.config import Config
        kernel = self

        class Publisher(DisplayPublisher):
            def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kw):
                kernel.result(data)

            def clear_output(self, wait=False):
                pass  # what was sent is sent

        class Hook(DisplayHook):
            def quiet(self):
                cells = self.shell.history_manager.input_hist_parsed
                return bool(cells) and ";" in cells[-1] and super().quiet()

            def write_output_prompt(self):
                pass

            def write_format_data(self, format_dict, md_dict=None):
                kernel.result(format_dict, hold=self.shell.ast_node_interactivity == "last_expr")

            def finish_displayhook(self):
                pass

        class Formatter(DisplayFormatter):
            def is_plain(self, kind):
                """Nobody asked for it to be shown in another way."""
                name = ("builtins", kind.__name__)
                for mime, f in (*self.formatters.items(), ("", self.mimebundle_formatter), ("", self.ipython_display_formatter)):
                    printers = f.type_printers
                    if mime != "text/plain" and (kind in printers or object in printers or name in f.deferred_printers):
                        return False
                return True

            def format(self, obj, include=None, exclude=None):
                if type(obj) in PLAIN and not include and not exclude and self.is_plain(type(obj)):
                    return {"text/plain": self.formatters["text/plain"](obj)}, {}
                return super().format(obj, include=include, exclude=exclude)

        class Transforms(TransformerManager):
            def do_token_transforms(self, lines):
                if len(self.token_transformers) == self.usual and not SPECIAL.search("".join(lines)):
                    return lines
                return super().do_token_transforms(lines)

        Transforms.usual = len(TransformerManager().token_transformers)

        class Shell(InteractiveShell):
            displayhook_class = Hook
            display_pub_class = Publisher
            input_transformer_manager = Instance(Transforms, ())

            def init_display_formatter(self):
                self.display_formatter = Formatter(parent=self)
                self.configurables.append(self.display_formatter)

            def init_io(self):
                pass

            def init_readline(self):
                pass

            def _showtraceback(self, etype, evalue, stb):
                kernel.failed(etype, evalue)

            def showsyntaxerror(self, filename=None, running_compiled_code=False):
                kernel.failed(*sys.exc_info()[:2])

            def ask_exit(self):
                pass

        c = Config()
        c.HistoryManager.enabled = False
        c.HistoryAccessor.enabled = False
        c.InteractiveShell.colors = "NoColor"
        c.InteractiveShell.color_info = False
        c.InteractiveShell.cache_size = 1000
        c.InteractiveShell.xmode = "Plain"
        shell = Shell.instance(config=c)
        shell.system = shell.system_raw  # straight to descriptors 1 and 2, no terminal in between
        shell.compile.get_code_name = lambda _raw, _code, number: f"<cell {number}>"
        warnings.filterwarnings("ignore", message="To exit: use")
        builtins.input = refuse_input
        for name in ("exit", "quit"):
            shell.user_ns.pop(name, None)
        import getpass
        getpass.getpass = refuse_input
        return shell

    # ---- what goes out ----

    def result(self, data, hold=False):
        """hold: it is the last expression's, the cell is as good as over."""
        self.output.flush()
        if self.sent >= RESULTS_MAX:
            return
        self.sent += 1
        if self.sent == RESULTS_MAX:
            data = {"text/plain": f"[results cut here: the cell showed more than {RESULTS_MAX}]"}
        text = json.dumps(bundle(data), ensure_ascii=False, default=repr).encode("utf-8", "replace")
        if len(text) > RESULT_MAX:
            note = f"[result left out: {len(text)} bytes, more than {RESULT_MAX}]"
            text = json.dumps({"text/plain": note}).encode()
        self.channel.send(RESULT, text, hold)

    def failed(self, etype, evalue):
        """Remembers the error; of the traceback only frames that are the user's."""
        if issubclass(etype, SyntaxError) and etype.__name__.startswith("_"):  # Python's own, for its prompt
            etype, evalue = SyntaxError, SyntaxError(*evalue.args)
        try:
            value = str(evalue)
        except Exception:
            value = f"<{etype.__name__} that cannot be shown>"
        self.error = {"name": etype.__name__, "value": value, "traceback": self.trace(etype, evalue)}

    @staticmethod
    def trace(etype, evalue):
        try:
            te = traceback.TracebackException(etype, evalue, evalue.__traceback__, compact=True)
            todo = [te]
            while todo:
                t = todo.pop()
                frames = [f for f in t.stack if f.filename != HERE and "/IPython/" not in f.filename]
                t.stack = traceback.StackSummary.from_list(frames)
                todo += [n for n in (t.__cause__, t.__context__, *(getattr(t, "exceptions", None) or ())) if n]
            return "".join(te.format()).rstrip("\n")
        except Exception as e:
            return f"{etype.__name__} (its traceback cannot be shown: {e!r})"

    # ---- cells ----

    def order_hooks(self):
        """Figures are shown and closed before pyplot redraws, for a window that is not there, what is still open."""
        hooks = self.shell.events.callbacks["post_execute"]
        if len(hooks) > 1 and getattr(hooks[0], "__name__", "") != "flush_figures":
            hooks.sort(key=lambda f: getattr(f, "__name__", "") != "flush_figures")

    def run(self, code):
        self.error, self.sent = None, 0
        self.output.restore()
        self.interrupts.install()
        signal.signal(signal.SIGURG, self.seeds.check)
        self.seeds.check()
        self.order_hooks()
        count = self.shell.execution_count - (not code)  # an empty cell is not counted
        try:
            try:
                self.interrupts.running = True
                if self.channel.interrupted():
                    raise KeyboardInterrupt  # its signal came too early
                result = self.shell.run_cell(code or "None", store_history=bool(code))
                if not code:  # it is only there to have the way of a cell walked once
                    self.shell.display_formatter.format(2)
                if not result.success and self.error is None:
                    e = result.error_before_exec or result.error_in_exec
                    if e is not None:
                        self.failed(type(e), e)
            finally:
                self.interrupts.running = False
        except KeyboardInterrupt as e:  # it came between two steps of the shell
            self.failed(type(e), e)
        except SystemExit as e:
            self.failed(type(e), e)
        if os.getpid() != self.channel.pid:
            self.output.flush()
            os._exit(0)  # a fork of the cell that came back here
        self.output.flush()
        if self.error:
            self.channel.send_json(ERROR, self.error)
        self.channel.send(DONE, struct.pack(">I", count))

    def warm(self):
        """What nearly every cell needs, done before this machine is frozen into the template."""
        keep, self.channel = self.channel, Mute()
        for name in ("numpy", "pandas", "matplotlib.pyplot"):
            try:
                importlib.import_module(name)
            except ImportError:
                pass  # then it is not what cells here need
        for code in WARM_CELLS:
            self.shell.run_cell(code, store_history=False)
        self.channel, self.error, self.sent = keep, None, 0
        self.shell.reset(new_session=True)
        for name in ("exit", "quit"):
            self.shell.user_ns.pop(name, None)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        gc.freeze()

    def move(self, path):
        try:
            os.chdir(path)
        except OSError as e:
            os.write(2, f"enter directory {path!r}: {e.strerror}\n".encode("utf-8", "replace"))

    def serve(self):
        """To the end of this process."""
        self.interrupts.install()
        signal.signal(signal.SIGURG, self.seeds.check)
        self.channel.send(READY)
        while True:
            try:
                message = self.channel.receive()
            except KeyboardInterrupt:
                continue
            if message is None:
                os._exit(0)
            word, text = message
            if word == b"CD":
                self.move(text)
            elif word == b"RUN":
                self.run(text)
            elif word != b"INT":  # else its cell has ended
                os._exit(1)


def main():
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    sys.argv = [""]
    sys.path[0] = ""  # the working directory, not ours
    if os.environ.pop("PANDO_KERNEL_ZYGOTE", ""):
        path = os.path.join(os.path.dirname(HERE), "zygote.py")
        with open(path, encoding="utf-8") as f:
            parts = {"__name__": "pando_zygote"}
            exec(compile(f.read(), path, "exec"), parts)
        parts["serve"](sys.modules[__name__])
    warm = os.environ.pop("PANDO_KERNEL_WARM", "")
    kernel = Kernel(Channel(CONTROL_FD))
    if warm:
        kernel.warm()
    kernel.serve()


if __name__ == "__main__":
    main()
