"""The cost of a small product in Valkey, which has one thread for everything: by Valkey's own counts, minus what it
uses when idle.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import redis

IDLE_S = 3.0
SCRIPTS = ("eval", "evalsha", "evalsha_ro", "fcall")
END = "the end of the commands that are counted"


def server_time(client: redis.Redis, work: Callable[[int], object], jobs: int) -> dict[str, float]:
    """For each job that `work` runs: `scripts_us`, execution of Lua; `commands_us`, that and all commands outside
    scripts; `cpu_us`, processor time of the main thread including reading, writing and the log; `commands`, how many a
    job sends outside scripts. `work` takes the number of jobs."""
    idle = _counted(client, lambda: time.sleep(IDLE_S))
    busy = _counted(client, lambda: work(jobs))
    sent, sent_s = _sent(client, lambda: work(jobs))
    sent_idle, idle_s = _sent(client, lambda: time.sleep(IDLE_S))

    def net(name: str) -> float:
        return (busy[name] - idle[name] * busy["seconds"] / idle["seconds"]) / jobs

    outside = {name: count - sent_idle[name] * sent_s / idle_s for name, count in sent.items()}
    others = sum(count * _us_per_call(client, name) for name, count in outside.items() if name not in SCRIPTS) / jobs
    return {
        "jobs": jobs,
        "scripts_us": net("scripts_us"),
        "commands_us": net("scripts_us") + others,
        "cpu_us": net("cpu_us"),
        "commands": sum(outside.values()) / jobs,
    }


def _counted(client: redis.Redis, work: Callable[[], object]) -> dict[str, float]:
    before, begun = _counts(client), time.monotonic()
    work()
    seconds, after = time.monotonic() - begun, _counts(client)
    return {name: after[name] - before[name] for name in before} | {"seconds": seconds}


def _counts(client: redis.Redis) -> dict[str, float]:
    commands: Any = client.info("commandstats")
    cpu: Any = client.info("cpu")
    return {
        "scripts_us": sum(commands.get(f"cmdstat_{name}", {}).get("usec", 0) for name in SCRIPTS),
        "cpu_us": 1e6 * (cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"]),
    }


def _us_per_call(client: redis.Redis, name: str) -> float:
    """Mean execution time of a command, inside scripts or not."""
    commands: Any = client.info("commandstats")
    return float(commands.get(f"cmdstat_{name}", {}).get("usec_per_call", 0.0))


def _sent(client: redis.Redis, work: Callable[[], object]) -> tuple[Counter[str], float]:
    """Commands by name that arrived while `work` ran, without those inside scripts, and its duration in seconds."""
    counts: Counter[str] = Counter()
    with client.monitor() as monitor, ThreadPoolExecutor(1) as thread:  # type: ignore[no-untyped-call]
        begun = time.monotonic()
        done = thread.submit(work)
        done.add_done_callback(lambda _: client.echo(END))
        for command in monitor.listen():
            if END in command["command"]:
                break
            counts[command["command"].split(" ", 1)[0].lower()] += command["client_type"] != "lua"
        done.result()
        return counts, time.monotonic() - begun
