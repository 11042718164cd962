// SPDX-License-Identifier: Apache-2.0
// spawn-in-vm.mjs - a child process whose program runs in a VM, for SDKs that let one bring the process of their command-line agent
//
// Such a program speaks lines of JSON over pipes; on a terminal it would show its interface for people. So it runs between two
// cats, on a terminal in raw mode that only carries bytes; the one that feeds it is ended when it has ended. What the terminal says before is dropped: a mark, which no terminal
// prints by itself, is where the program's own output begins, and nothing is typed before it has come.
import { EventEmitter } from "node:events";
import { Readable, Writable } from "node:stream";

const quote = (word) => `'${String(word).replaceAll("'", `'\\''`)}'`;
const MARK = "\x1e";

/** The shape of child_process.spawn: ({command, args, cwd, env, signal}) -> {stdin, stdout, kill, on, ...}. env: only what is to go along. */
export const spawnInVm =
  (vm) =>
  ({ command, args = [], cwd = "/root", env = {}, signal }) => {
    const child = new EventEmitter();
    const state = { killed: false, exitCode: null };
    let session, ready;
    const started = new Promise((resolve) => (ready = resolve));

    const set = Object.entries(env).map(([k, v]) => `export ${k}=${quote(v)}; `).join("");
    const program = [command, ...args].map(quote).join(" ");
    const line =
      `set +m; stty raw -echo -onlcr; ${set}cd ${quote(cwd)}; d=$(mktemp -d); mkfifo $d/in; exec 3<&0; cat <&3 >$d/in & ` +
      `printf '\\036'; { ${program}; echo $? >$d/code; } <$d/in | cat; kill $!; read code <$d/code; rm -r $d; exit $code\n`;

    const stdout = new Readable({ read() {} });
    const stdin = new Writable({
      write(chunk, _encoding, done) {
        started.then(() => session.write(chunk)).then(() => done(), done);
      },
    });
    let running = false;
    const onData = (bytes) => {
      let data = Buffer.from(bytes);
      if (!running) {
        const at = data.indexOf(MARK);
        if (at < 0) return;
        running = true;
        data = data.subarray(at + 1);
        ready();
      }
      if (data.length) stdout.push(data);
    };
    const ended = (code) => {
      state.exitCode = code;
      stdout.push(null);
      child.emit("exit", code, null);
    };
    const kill = () => {
      if (state.killed || state.exitCode !== null) return false;
      state.killed = true;
      session?.signal("SIGKILL");
      return true;
    };

    vm.pty
      .open({ exec: "/bin/sh", onData, onExit: ended, onError: (e) => child.emit("error", e) })
      .then((s) => {
        session = s;
        if (state.killed) s.signal("SIGKILL");
        else s.write(line);
      })
      .catch((e) => child.emit("error", e));
    signal?.addEventListener("abort", kill, { once: true });

    return Object.defineProperties(Object.assign(child, { stdin, stdout, kill }), {
      killed: { get: () => state.killed },
      exitCode: { get: () => state.exitCode },
    });
  };
