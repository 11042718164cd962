# SPDX-License-Identifier: Apache-2.0
"""name_tools.py - what the edge shows and the name server says for a name"""
import re
import socket
import ssl
import subprocess


class NameTools:
    """For a case with tls_port and dns_port."""

    def leaf(self, name, ca=None):
        """Issuer and names of the certificate that the edge shows for a name; checked against the CA when there is one."""
        ctx = ssl.create_default_context(cafile=ca) if ca else ssl._create_unverified_context()
        with ctx.wrap_socket(socket.create_connection(("127.0.0.1", self.tls_port), timeout=60), server_hostname=name) as s:
            pem = ssl.DER_cert_to_PEM_cert(s.getpeercert(binary_form=True))
        return subprocess.run(["openssl", "x509", "-noout", "-issuer", "-ext", "subjectAltName"], input=pem, capture_output=True,
                              text=True, check=True).stdout

    def dig(self, name, kind, *args):
        """What the server's own name server says: status, and each answer's data."""
        r = subprocess.run(["kdig", "@127.0.0.1", "-p", str(self.dns_port), "+time=10", "+retry=2", *args, name, kind], capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        status = re.search(r"status: (\w+);", r.stdout)[1]
        answers = [line.split(None, 4)[4] for line in r.stdout.partition("ANSWER SECTION:")[2].partition("\n\n")[0].strip().splitlines()]
        return status, answers, r.stdout
