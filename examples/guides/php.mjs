// SPDX-License-Identifier: Apache-2.0
// php.mjs - scripts of PHP on one VM, then PHP's own server with a session, that every VM of a snapshot has running
import { failure, run, vmFor } from "./languages.mjs";
import { create, domainFor, keep, listens, open, service, tell } from "./serving.mjs";

const vm = await vmFor("php");
const php = (code, args, stdin) => run(vm, "php", code, args, stdin);
tell({
  hello: await php("<?php echo 'Hello from PHP ', PHP_MAJOR_VERSION, PHP_EOL;"),
  sum: await php("<?php echo array_sum(array_slice($argv, 1)), PHP_EOL;", [3, 4, 5]),
  lines: await php("<?php echo strtoupper(str_replace(\"\\n\", '|', trim(stream_get_contents(STDIN)))), PHP_EOL;", [], "one\ntwo\n"),
  "at once": (await Promise.all([1, 2, 3].map((n) => php(`<?php echo ${n} * 111;`)))).join(" "),
  failed: await failure(vm, "php", "<?php fwrite(STDERR, 'no more'); exit(3);"),
});

await vm.fs.writeTextFile(
  "/srv/index.php",
  `<?php
session_id("everybody");
session_start();
$_SESSION["visits"] = ($_SESSION["visits"] ?? 0) + 1;
echo "Hello from PHP, visit ", $_SESSION["visits"], "\\n";
`,
);
await service(vm, "php-server", { command: "/usr/bin/php -S 0.0.0.0:3000 -t /srv", cwd: "/srv" });
await listens(vm, 3000);

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "php-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 3000, domainFor("php"))}/` });
