# SPDX-License-Identifier: Apache-2.0
"""Docker in a VM: docs/guides/docker.md, and then in the VM that it made: bridges, sleep, forks, Compose, a cold boot"""
from case import wait_for
from guide import Guide
from test_docs import ProgramPages


class Docker(ProgramPages, Guide):
    vm = None

    def clean(self):
        """What the page made is what the other tests are about."""

    def test_a_page_docker(self):
        self.page("guides/docker.md")
        type(self).vm = next(v["id"] for v in self.s.vms().values() if v["name"] == "docker-server")

    def sh(self, command, vm=None):
        return self.s.sh(vm or self.vm, command, timeout_ms=600000)

    def need(self):
        self.need_mirror()
        self.assertTrue(self.vm, "the page made no VM with Docker")

    def test_b_what_it_runs_on(self):
        self.need()
        self.assertIn("overlay /var/lib/docker/", self.sh("cat /proc/mounts"))
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
        self.map("compose.style.dev", self.vm, 8081)
        self.assertEqual(self.get("compose.style.dev"), "hello from a container\n")
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
