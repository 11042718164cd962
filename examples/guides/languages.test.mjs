// SPDX-License-Identifier: Apache-2.0
// Each language: sums its arguments, sees its own errors, and runs side by side. PANDO_LANGUAGES="ruby go" runs only these.
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { LANGUAGES, run, vmFor } from "./languages.mjs";

const LIMIT = { timeout: 3_000_000 }; // packages are installed in a guest that may be emulated
const chosen = process.env.PANDO_LANGUAGES?.split(" ") ?? Object.keys(LANGUAGES);

const SUM = {
  node: "console.log('total:', process.argv.slice(2).reduce((a, b) => a + Number(b), 0))",
  bun: "const n: number[] = Bun.argv.slice(2).map(Number); console.log('total:', n.reduce((a, b) => a + b, 0))",
  deno: "const n: number[] = Deno.args.map(Number); console.log('total:', n.reduce((a, b) => a + b, 0))",
  python: "import sys; print('total:', sum(int(x) for x in sys.argv[1:]))",
  ruby: "puts \"total: #{ARGV.map(&:to_i).sum}\"",
  php: "<?php echo 'total: ', array_sum(array_slice($argv, 1)), \"\\n\";",
  go: 'package main\nimport ("fmt"; "os"; "strconv")\nfunc main() { t := 0; for _, a := range os.Args[1:] { n, _ := strconv.Atoi(a); t += n }; fmt.Println("total:", t) }\n',
  java: 'public class Main { public static void main(String[] a) { int t = 0; for (String x : a) t += Integer.parseInt(x); System.out.println("total: " + t); } }\n',
};
const FAIL = {
  node: "throw new Error('boom')", bun: "throw new Error('boom')", deno: "throw new Error('boom')", python: "raise ValueError('boom')",
  ruby: "raise 'boom'", php: "<?php throw new Exception('boom');", go: 'package main\nfunc main() { panic("boom") }\n',
  java: 'public class Main { public static void main(String[] a) { throw new RuntimeException("boom"); } }\n',
};

for (const language of chosen) {
  describe(language, () => {
    let vm;
    after(() => vm?.delete(), LIMIT);
    test(`${language}: a VM with it`, LIMIT, async () => { vm = await vmFor(language); });
    test(`${language}: arguments, output, side by side`, LIMIT, async () => {
      assert.equal(await run(vm, language, SUM[language], [3, 4, 5]), "total: 12\n");
      const both = await Promise.all([[1, 1], [2, 2]].map((args) => run(vm, language, SUM[language], args)));
      assert.deepEqual(both, ["total: 2\n", "total: 4\n"]);
    });
    test(`${language}: an error is an error`, LIMIT, async () => {
      await assert.rejects(run(vm, language, FAIL[language]), /exited with \d+:[^]*boom/);
    });
  });
}
