// SPDX-License-Identifier: Apache-2.0
// ruby.mjs - scripts of Ruby on one VM, then a WEBrick server that every VM of a snapshot has running
import { failure, run, vmFor } from "./languages.mjs";
import { create, domainFor, keep, listens, open, service, tell } from "./serving.mjs";

const vm = await vmFor("ruby");
const ruby = (code, args, stdin) => run(vm, "ruby", code, args, stdin);
tell({
  sum: await ruby("puts [1, 2, 3, 4, 5].sum"),
  product: await ruby("a, b = ARGV.map(&:to_i)\nputs a * b", [6, 7]),
  lines: await ruby("puts STDIN.map { |line| line.strip.upcase }.join('|')", [], "one\ntwo\n"),
  "at once": (await Promise.all(["2 ** 10", "'abc'.reverse", "(1..5).reduce(:*)"].map((what) => ruby(`puts(${what})`)))).join(" "),
  failed: await failure(vm, "ruby", "warn 'no more'\nexit 3"),
});

await vm.fs.writeTextFile(
  "/srv/server.rb",
  `require "webrick"

visits = 0
server = WEBrick::HTTPServer.new(BindAddress: "0.0.0.0", Port: 3000)
server.mount_proc "/" do |_req, res|
  res.content_type = "text/plain"
  res.body = "Hello from Ruby, visit #{visits += 1}\\n"
end
trap("TERM") { server.shutdown }
server.start
`,
);
await service(vm, "ruby-server", { command: "/usr/bin/ruby /srv/server.rb", cwd: "/srv" });
await listens(vm, 3000);

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "ruby-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 3000, domainFor("ruby"))}/` });
