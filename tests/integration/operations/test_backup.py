"""Back-up and restore by the commands of docs/operations.md, with everything destroyed in between."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np

from service.pause import PAUSED, Pause
from tools.harness.api import from_npy, http_client, npy, until
from tools.stack import Stack

DOC = Path(__file__).parents[3] / "docs" / "operations.md"
N = 64
SETTINGS = {"cpu_threads": "1", "record_matrix_bytes": "1024", "redis_timeout_s": "5"}  # matrices of N×N are stored
# In place of redis-cli, which is not among what tests need: `-u URL COMMAND …`.
REDIS_CLI = """
import redis, sys
reply = redis.Redis.from_url(sys.argv[2], decode_responses=True).execute_command(*sys.argv[3:])
print(*(f"{name}:{value}" for name, value in reply.items()) if isinstance(reply, dict) else [reply], sep="\\n")
"""


def documented(section: str) -> str:
    """The commands of that part, as a script."""
    part = DOC.read_text().split(f"**{section}.**")[1]
    found = re.search(r"```sh\n(.*?)```", part, re.DOTALL)
    assert found is not None
    return found[1]


def carry_out(section: str, stack: Stack, directory: Path) -> None:
    """On the stack's own Redis and directories."""
    tools, cli = directory / "bin", directory / "redis_cli.py"
    tools.mkdir(exist_ok=True)
    cli.write_text(REDIS_CLI)
    for name, command in (("python", sys.executable), ("redis-cli", f"{sys.executable} {cli}")):
        (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (tools / name).chmod(0o755)
    own = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "REDIS_DIR": str(stack.redis.directory),
        "ADMIN_REDIS_URL": stack.redis.url,
        "BACKUP": str(directory / "backup"),
    }
    subprocess.run(["sh", "-eu", "-c", documented(section)], env=stack.environment | own, check=True, timeout=240)


def submit(client: httpx.Client, number: int, n: int) -> str:
    """Its operands hold its number."""
    files = {
        name: (f"{name}.npy", npy(np.full((n, n), value, np.float32))) for name, value in (("a", number), ("b", 1))
    }
    reply = client.post("/v1/matmul", files=files, headers={"prefer": "respond-async"})
    assert reply.status_code == 202, reply.text
    return str(reply.json()["job"]["id"])


def states(client: httpx.Client, jobs: list[str]) -> set[str]:
    return {client.get(f"/v1/jobs/{job}").json()["state"] for job in jobs}


def assert_right(client: httpx.Client, jobs: list[str], first: int, n: int) -> None:
    """Their products, whose digests are compared on the way, have their numbers."""
    for number, job in enumerate(jobs, first):
        reply = client.get(f"/v1/jobs/{job}/product", headers={"accept": "application/x-npy"})
        assert reply.status_code == 200, reply.text
        assert (from_npy(reply.content) == np.full((n, n), number * n, np.float32)).all()


def test_what_was_backed_up_is_there_again(tmp_path: Path) -> None:
    stack = Stack(tmp_path, settings=SETTINGS)
    (tmp_path / "backup").mkdir()
    uploaded = np.arange(N * N, dtype=np.float32).reshape(N, N)
    with stack, http_client(stack.url) as client, stack.redis.client() as root:
        done = [*(submit(client, number, N) for number in (1, 2)), submit(client, 3, 8)]
        matrix = client.post(
            "/v1/matrices", content=npy(uploaded), headers={"content-type": "application/x-npy"}
        ).json()
        until(lambda: states(client, done) == {"succeeded"})
        Pause(root, "matmul:").begin()
        waiting = [*(submit(client, number, N) for number in (11, 12)), submit(client, 13, 8)]
        carry_out("Back-up", stack, tmp_path)
        until(lambda: states(client, waiting) == {"succeeded"})
    for lost in (stack.redis.directory, Path(stack.environment["MATMUL_STORE_DIR"])):
        shutil.rmtree(lost)
    carry_out("Restore", stack, tmp_path)
    with stack, http_client(stack.url) as client, stack.redis.client() as root:
        until(lambda: client.get("/readyz").status_code == 200)
        assert PAUSED in client.get("/readyz").json()["warnings"]  # beside it, for a while: the worker that was
        assert_right(client, done[:2], 1, N)
        assert_right(client, done[2:], 3, 8)
        kept = client.get(f"/v1/matrices/{matrix['id']}", headers={"accept": "application/x-npy"})
        assert (from_npy(kept.content) == uploaded).all()
        assert states(client, waiting) == {"queued"}
        Pause(root, "matmul:").end()
        until(lambda: states(client, waiting) == {"succeeded"})
        assert_right(client, waiting[:2], 11, N)
        assert_right(client, waiting[2:], 13, 8)
