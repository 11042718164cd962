# SPDX-License-Identifier: Apache-2.0
"""table.py - the cases, in the order in which they are written"""
CASES = []


def case(limit_s):
    """Marks a case: it gets the cluster, whose nodes are all alive and have no VMs, and leaves it so. What it returns is shown in the table."""
    def mark(f):
        f.limit_s = limit_s
        CASES.append(f)
        return f
    return mark
