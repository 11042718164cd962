// SPDX-License-Identifier: Apache-2.0
// go.mjs - programs of Go on one VM, then a compiled server that every VM of a snapshot has running
import { failure, run, vmFor } from "./languages.mjs";
import { create, domainFor, keep, listens, open, service, tell, work } from "./serving.mjs";

const vm = await vmFor("go");
const program = (imports, body) => `package main\nimport (${imports.map((i) => `"${i}"`).join("; ")})\nfunc main() { ${body} }\n`;
const go = (imports, body, args, stdin) => run(vm, "go", program(imports, body), args, stdin);

// The first build compiles the packages of the standard library that it uses, and everything after it finds them compiled.
await vm.fs.writeTextFile("/srv/server.go", `package main

import (
	"fmt"
	"net/http"
	"sync/atomic"
)

var visits atomic.Int64

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Hello from Go, visit %d\\n", visits.Add(1))
	})
	http.ListenAndServe("0.0.0.0:3000", nil)
}
`);
await work(vm, "cd /srv && go build -o server server.go");

tell({
  sum: await go(["fmt"], "sum := 0; for _, n := range []int{1, 2, 3, 4, 5} { sum += n }; fmt.Println(sum)"),
  product: await go(["fmt", "os", "strconv"], "a, _ := strconv.Atoi(os.Args[1]); b, _ := strconv.Atoi(os.Args[2]); fmt.Println(a * b)", [6, 7]),
  lines: await go(["bufio", "fmt", "os", "strings"],
    'var out []string; for s := bufio.NewScanner(os.Stdin); s.Scan(); { out = append(out, strings.ToUpper(s.Text())) }; fmt.Println(strings.Join(out, "|"))', [], "one\ntwo\n"),
  "at once": (await Promise.all([1, 2, 3].map((n) => go(["fmt"], `fmt.Println(${n} * 111)`)))).join(" "),
  failed: await failure(vm, "go", program(["os"], "os.Exit(3)")),
});

await service(vm, "go-server", { command: "/srv/server", cwd: "/srv" });
await listens(vm, 3000);

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "go-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 3000, domainFor("go"))}/` });
