#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pandod-man.py PANDOD: writes the man page pandod(8); the settings are those that pandod --help lists"""
import re
import subprocess
import sys

SETTING = re.compile(r"^  (PANDO_\w+), (--[\w-]+)\n      (.*)\n      default: (.*)$", re.M)

HEAD = r""".TH PANDOD 8 "" "Pando {version}" "Pando"
.SH NAME
pandod \- server of microVMs for untrusted code
.SH SYNOPSIS
.B systemctl enable \-\-now pando
.PP
.B pandod \-\-help
.SH DESCRIPTION
.B pandod
serves Pando's API and runs its VMs. It is never started by hand: the service
.B pando
starts
.BR pando\-priv ,
which runs as root and does the few things that need it; it starts pandod as the user
.B pando
and restarts it if it dies. VMs do not depend on either process.
.PP
The first start builds the base image
.RB ( pando\-image (8))
and boots it once; it takes minutes, and
.B journalctl \-fu pando \-u pando\-image
shows the progress. Later starts take seconds.
.PP
.B systemctl stop pando
suspends all running VMs. After the next start they wake up, with their memory, when they are used.
.SH SETTINGS
From the environment, from
.I /etc/pando/pando.conf
(lines of the form NAME=value) and from the command line; later ones win.
"""
TAIL = r""".SH FILES
.TP
.I /etc/pando/pando.conf
settings of the service
.TP
.I /var/lib/pando
persistent data: the database, disks and memory of VMs, repositories, keys
.TP
.I /var/lib/pando/api\-key
the operator's API key, created by the first start
.TP
.I /var/cache/pando
the base image and its packages; may be deleted at any time
.SH EXIT STATUS
0: it was asked to stop. 2: a setting must be changed. 1: anything else.
.SH SEE ALSO
.BR pando (1),
.BR pando\-image (8)
"""


def text(s):
    """Escaped for use anywhere in a line of troff."""
    return s.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")


def main():
    def ask(option):
        return subprocess.run([sys.argv[1], option], capture_output=True, text=True, check=True).stdout
    settings = SETTING.findall(ask("--help"))
    if not settings or len(settings) != len(re.findall(r"^  PANDO_", ask("--help"), re.M)):
        sys.exit("pandod-man.py: pandod --help does not look as expected")
    out = HEAD.replace("{version}", ask("--version").split()[1])
    for name, option, help_text, default in settings:
        if name in ("PANDO_VM_VCPUS", "PANDO_VM_MEM_MB", "PANDO_QUOTA_VCPUS", "PANDO_QUOTA_MEM_MB"):
            default = "what the host can carry"  # not the value of this host
        out += f".TP\n.BR {text(name)} \", \" {text(option)}\n\\&{text(help_text)}. Default: {text(default)}.\n"
    sys.stdout.write(out + TAIL)


main()
