# SPDX-License-Identifier: Apache-2.0
"""Docker in a VM: Debian's docker.io with overlayfs, a bridge and published ports that names lead to; images from a local tar"""
from case import wait_for
from guide import Guide

# An image has to come from somewhere: the guest's own static busybox, packed up.
ROOTFS = """set -e
mkdir -p /root/rootfs/bin /root/rootfs/www /root/rootfs/tmp /root/rootfs/etc /root/rootfs/proc
cp /bin/busybox /root/rootfs/bin/
for name in sh httpd echo cat sleep ls wget ip nslookup date; do ln -sf busybox /root/rootfs/bin/$name; done
tar -C /root/rootfs -cf /root/rootfs.tar .
docker import /root/rootfs.tar base:1
"""
DOCKERFILE = """FROM base:1
COPY index.html /www/index.html
RUN echo "made by a layer" >/www/layer
CMD ["/bin/httpd", "-f", "-p", "80", "-h", "/www"]
"""
COMPOSE = """services:
  web:
    image: web:1
    ports:
      - "8081:80"
    restart: always
  worker:
    image: base:1
    command: ["/bin/sh", "-c", "while true; do echo worker tick; sleep 1; done"]
"""


class Docker(Guide):
    vm = None

    def test_a_installed_and_kept(self):
        s = self.s
        vm = self.builder("docker", "docker.io", "docker-cli", "docker-compose", "busybox-static")
        s.sh(vm, "systemctl enable --now docker", timeout_ms=300000)
        self.until(vm, "docker info >/dev/null 2>&1 && echo READY || echo WAIT", "READY", "the engine answers")
        driver, cgroup = s.sh(vm, "docker info --format '{{.Driver}} {{.CgroupVersion}}'", timeout_ms=120000).split()
        self.assertIn(driver, ("overlay2", "overlayfs"))
        self.assertEqual(cgroup, "2")
        self.work(vm, ROOTFS)
        self.write(vm, "/root/ctx/Dockerfile", DOCKERFILE)
        self.write(vm, "/root/ctx/index.html", "hello from a container\n")
        self.work(vm, "DOCKER_BUILDKIT=0 docker build -q -t web:1 /root/ctx")
        self.assertIn("web:1", s.sh(vm, "docker images --format '{{.Repository}}:{{.Tag}}'", timeout_ms=120000).split())
        snapshot = self.keep(vm)
        type(self).vm = s.create(name="docker-server", snapshotId=snapshot)

    def sh(self, command, vm=None):
        return self.s.sh(vm or self.vm, command, timeout_ms=600000)

    def need(self):
        self.need_mirror()
        self.assertTrue(self.vm, "the first test made no VM with Docker")

    def test_b_a_published_port_through_the_edge(self):
        self.need()
        self.assertEqual(self.sh("systemctl is-active docker"), "active")  # since the snapshot: nothing was started
        self.sh("docker run -d --name web --restart always -p 8080:80 web:1")
        self.assertIn("overlay /var/lib/docker/", self.sh("cat /proc/mounts"))
        self.map("container.style.dev", self.vm, 8080)
        self.assertEqual(self.get("container.style.dev"), "hello from a container\n")
        self.assertEqual(self.get("container.style.dev", "/layer"), "made by a layer\n")
        self.assertEqual(self.e.curl("https://container.style.dev/nothing").status, 404)

    def test_c_the_bridge(self):
        """From container to container, by address and by name; and out, through the VM's name server."""
        self.need()
        address = self.sh("docker inspect -f '{{.NetworkSettings.IPAddress}}' web")
        self.assertTrue(address.startswith("172.17."), address)
        self.assertEqual(self.sh(f"docker run --rm base:1 wget -q -O - http://{address}/"), "hello from a container")
        self.sh("docker network create inner && docker network connect inner web")
        self.assertEqual(self.sh("docker run --rm --network inner base:1 wget -q -O - http://web/layer"), "made by a layer")
        self.assertIn("nameserver 10.0.0.1", self.sh("docker run --rm base:1 cat /etc/resolv.conf"))
        self.assertEqual(self.sh("docker run --rm base:1 sh -c 'echo $((6 * 7)); exit 3'; echo status $?").split(), ["42", "status", "3"])

    def test_d_sleep_keeps_containers(self):
        self.need()
        who = "docker inspect -f '{{.State.Pid}} {{.State.StartedAt}} {{.RestartCount}}' web"
        before = self.sh(who)
        self.s.post(self.vm, "suspend")
        self.assertEqual(self.get("container.style.dev"), "hello from a container\n")  # and wakes it
        self.assertEqual(self.sh(who), before)

    def test_e_forks_have_their_own(self):
        self.need()
        child = self.s.fork(self.vm)[0]
        self.addCleanup(self.s.delete, child)
        self.sh("docker exec web sh -c 'echo the child >/www/index.html'", vm=child)
        self.map("child-container.style.dev", child, 8080)
        self.assertEqual(self.get("child-container.style.dev"), "the child\n")
        self.assertEqual(self.get("container.style.dev"), "hello from a container\n")

    def test_f_compose(self):
        self.need()
        self.write(self.vm, "/root/app/compose.yaml", COMPOSE)
        self.sh("cd /root/app && docker compose up -d 2>&1")
        self.map("compose.style.dev", self.vm, 8081)
        self.assertEqual(self.get("compose.style.dev"), "hello from a container\n")
        wait_for("the worker's log", lambda: "worker tick" in self.sh("cd /root/app && docker compose logs worker"), 120, 2)
        self.sh("cd /root/app && docker compose stop worker 2>&1")

    def test_g_a_boot_brings_them_back(self):
        """Stopped and started cold by a request: the engine and what is to be restarted always come up."""
        self.need()
        self.sh("sync")
        self.s.post(self.vm, "stop")

        def back():
            r = self.e.curl("https://container.style.dev/", "-H", "Accept: application/json")
            if r.status == 200:
                return r.body.decode()
            self.assertIn(r.json()["code"], ("VM_STARTING", "NOTHING_LISTENS", "CONNECTION_CLOSED"), r.body)
            return None
        self.assertEqual(wait_for("the container answers after a boot", back, 1200, 2), "hello from a container\n")
        self.s.delete(self.vm)
