// SPDX-License-Identifier: Apache-2.0
// java.mjs - programs of Java on one VM, each a single file, then a server that every VM of a snapshot has running
import { failure, run, vmFor } from "./languages.mjs";
import { create, domainFor, keep, listens, open, service, tell } from "./serving.mjs";

const vm = await vmFor("java");
const program = (body) => `public class Main { public static void main(String[] args) { ${body} } }\n`;
const java = (body, args, stdin) => run(vm, "java", program(body), args, stdin);
tell({
  hello: await java('System.out.println("Hello from Java " + Runtime.version().feature());'),
  factorial: await java("long f = 1; for (long i = 2; i <= Long.parseLong(args[0]); i++) f *= i; System.out.println(f);", [10]),
  sum: await java("var in = new java.util.Scanner(System.in); int t = 0; while (in.hasNextInt()) t += in.nextInt(); System.out.println(t);", [], "3 4 5 6\n"),
  "at once": (await Promise.all([1, 2].map((n) => java(`System.out.println(${n} * 111);`)))).join(" "),
  failed: await failure(vm, "java", program('System.err.println("no more"); System.exit(3);')),
});

await vm.fs.writeTextFile(
  "/srv/Server.java",
  `import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.atomic.AtomicInteger;

public class Server {
  public static void main(String[] args) throws Exception {
    var visits = new AtomicInteger();
    var server = HttpServer.create(new InetSocketAddress("0.0.0.0", 3000), 0);
    server.createContext("/", exchange -> {
      byte[] body = ("Hello from Java, visit " + visits.incrementAndGet() + "\\n").getBytes("UTF-8");
      exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
      exchange.sendResponseHeaders(200, body.length);
      try (var out = exchange.getResponseBody()) { out.write(body); }
    });
    server.start();
  }
}
`,
);
await service(vm, "java-server", { command: "/usr/bin/java /srv/Server.java", cwd: "/srv" });
await listens(vm, 3000);

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "java-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 3000, domainFor("java"))}/` });
