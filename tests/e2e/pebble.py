# SPDX-License-Identifier: Apache-2.0
"""pebble.py - a real ACME server (pebble) on loopback, for a server that trusts it"""
import json
import os
import shutil
import socket
import subprocess
import tempfile

from case import wait_for

from ports import free_port


class Pebble:
    """dns: ADDRESS:PORT of the name server that it asks. The server s must be made before and started after it."""

    def __init__(self, dns, validity=90 * 86400):
        self.dir = tempfile.mkdtemp(prefix="pando-acme-")
        os.chmod(self.dir, 0o755)
        self.dns, self.validity = dns, validity
        self.port, self.manage = free_port(), free_port()
        self.url = f"https://127.0.0.1:{self.port}/dir"
        self.process = self.log = None

    def at(self, name):
        return os.path.join(self.dir, name)

    def trusted_by(self, s):
        """uacme trusts what the host trusts: pebble's CA takes the place of the list, in a mount namespace of its own."""
        s.prefix = ["unshare", "-m", "sh", "-c", f"mount --bind {self.at('pebble.crt')} /etc/ssl/certs/ca-certificates.crt && exec \"$@\"", "sh"]

    def start(self, s):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=pebble", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.at("pebble.key"),
                        "-out", self.at("pebble.crt")], check=True, capture_output=True)
        with open(self.at("pebble.json"), "w") as f:
            json.dump({"pebble": {"listenAddress": f"127.0.0.1:{self.port}", "managementListenAddress": f"127.0.0.1:{self.manage}",
                                  "certificate": self.at("pebble.crt"), "privateKey": self.at("pebble.key"),
                                  "httpPort": s.edge_http_port, "tlsPort": s.edge_port,
                                  "certificateValidityPeriod": self.validity}}, f)
        self.log = open(self.at("log"), "w")
        self.process = subprocess.Popen(["pebble", "-config", self.at("pebble.json"), "-dnsserver", self.dns], stdout=self.log, stderr=self.log,
                                        env={**os.environ, "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0"})
        wait_for("pebble listens", self.listens, 60)

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.log.close()
            self.process = None

    def close(self):
        self.end()
        shutil.rmtree(self.dir, ignore_errors=True)
