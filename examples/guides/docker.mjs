// SPDX-License-Identifier: Apache-2.0
// docker.mjs - Docker in every VM of a snapshot: an image, a container with a published port behind a name, a stack of Compose
//
// BASE: an image to pull as the base of all others, with a shell and busybox' httpd, like busybox:stable. Without it one is made of the VM's own busybox, and no registry is asked.
import { answers, builder, create, domainFor, keep, open, sh, tell, until, work } from "./serving.mjs";

const base = process.env.BASE;
const vm = await builder("docker");
await work(vm, `apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io docker-cli docker-compose busybox-static`);
await sh(vm, "systemctl enable --now docker");
await until("the engine answers", async () => (await vm.exec("docker info >/dev/null 2>&1 && echo READY || echo WAIT")).stdout.includes("READY"));

await work(vm, base ? `docker pull -q '${base}' && docker tag '${base}' base:1` : `mkdir -p rootfs/bin rootfs/www rootfs/tmp rootfs/etc rootfs/proc
cp /bin/busybox rootfs/bin/
for name in sh httpd echo cat sleep ls wget ip nslookup date; do ln -sf busybox rootfs/bin/$name; done
tar -C rootfs -c . | docker import - base:1`);
await vm.fs.writeTextFile("/root/web/Dockerfile", `FROM base:1
COPY index.html /www/index.html
RUN echo "made by a layer" >/www/layer
CMD ["/bin/httpd", "-f", "-p", "80", "-h", "/www"]
`);
await vm.fs.writeTextFile("/root/web/index.html", "hello from a container\n");
await work(vm, "DOCKER_BUILDKIT=0 docker build -q -t web:1 /root/web");

const snapshotId = await keep(vm);
const { vm: server, vmId } = await create(snapshotId, "docker-server");
tell({
  engine: await sh(server, "docker info --format '{{.Driver}}, cgroup {{.CgroupVersion}}'"),
  container: await sh(server, "docker run --rm base:1 echo container ok"),
});
await sh(server, "docker run -d --name web --restart always -p 8080:80 web:1");
await answers(server, 8080);

await server.fs.writeTextFile("/root/app/compose.yaml", `services:
  web:
    image: web:1
    ports:
      - "8081:80"
    restart: always
  worker:
    image: base:1
    command: ["/bin/sh", "-c", "while true; do echo worker tick; sleep 1; done"]
`);
await sh(server, "cd /root/app && docker compose up -d 2>&1");
await answers(server, 8081);
await until("the worker works", async () => (await sh(server, "cd /root/app && docker compose logs worker")).includes("worker tick"));
tell({
  stack: (await sh(server, "cd /root/app && docker compose ps --services")).split("\n").sort().join(", "),
  snapshotId,
  vmId,
  url: `https://${await open(vmId, 8080, domainFor("docker"))}/`,
});
