# SPDX-License-Identifier: Apache-2.0
"""test_store_pg.py OBJECTS PROGRAM... - the tests of the store again, on PostgreSQL

One server for all of them; each test has a schema of its own (db_fx.h). Their lines are passed on as they are, so that each test is
counted. Then every statement that is a text in the store's object files (the directory OBJECTS) is prepared: what no test executes
must be PostgreSQL, too.
"""
import glob
import os
import re
import subprocess
import sys

import pg

# The engine's own, and patterns that the tests complete.
NOT_OURS = re.compile(r"sqlite_|pragma_|%[sud]")


def texts(objects):
    found = set()
    for path in glob.glob(os.path.join(objects, "*.o")):
        out = subprocess.run(["strings", "-n", "10", path], check=True, capture_output=True, text=True).stdout
        found.update(line for line in out.split("\n") if re.match(r"(SELECT|UPDATE|DELETE FROM|INSERT INTO|WITH|WHERE|ORDER BY) ", line))
    return sorted(t for t in found if not NOT_OURS.search(t))


def prepare(server, schemas, statements):
    """The error of each, or nothing."""
    script = f"SET search_path = {','.join(schemas)};\nCREATE TEMP TABLE held (id TEXT PRIMARY KEY);\n"
    script += "".join(f"\\echo @{i}\nPREPARE p{i} AS {sql};\n" for i, sql in enumerate(statements))
    out = subprocess.run([os.path.join(server.bin, "psql"), "-XAtq", "-d", server.url()], input=script, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    parts = re.split(r"^@(\d+)\n", out, flags=re.M)
    errors = {int(n): text.strip() for n, text in zip(parts[1::2], parts[2::2])}
    return [errors.get(i, "psql did not get there") for i in range(len(statements))]


def check_statements(server, objects):
    """Tails (WHERE ...) are completed with each table's name; one of them must do."""
    schemas = [server.sql(f"SELECT schemaname FROM pg_tables WHERE tablename = '{t}' LIMIT 1") for t in ("vms", "audit")]
    tables = server.sql(f"SELECT tablename FROM pg_tables WHERE schemaname IN ('{schemas[0]}', '{schemas[1]}')").split()
    all_texts = texts(objects)
    bad = 0
    whole = [t for t in all_texts if not t.startswith(("WHERE", "ORDER"))]
    for sql, error in zip(whole, prepare(server, schemas, whole)):
        if error:
            bad += 1
            print(f"{sql}\n  {error}")
    tails = [t for t in all_texts if t.startswith(("WHERE", "ORDER"))]
    errors = prepare(server, schemas, [f"SELECT 1 FROM {table} {tail}" for tail in tails for table in tables])
    for i, tail in enumerate(tails):
        if all(errors[i * len(tables):(i + 1) * len(tables)]):
            bad += 1
            print(f"{tail}\n  {errors[i * len(tables)]}")
    print(f"{len(whole)} statements and {len(tails)} tails prepared, {bad} failed")
    return bad == 0 and len(whole) > 150 and len(tails) > 40


def main():
    failed = []
    with pg.Server() as server:
        env = {**os.environ, "PANDO_TEST_DATABASE": server.url(), "PANDO_TEST_PG_SOCKET": server.dir}
        for program in sys.argv[2:]:
            print(f"---- {os.path.basename(program)} on PostgreSQL", flush=True)
            if subprocess.run([program], env=env, stderr=subprocess.STDOUT).returncode != 0:
                failed.append(os.path.basename(program))
        if not check_statements(server, sys.argv[1]):
            failed.append("statements")
    if failed:
        sys.exit(f"failed on PostgreSQL: {' '.join(failed)}")


main()
