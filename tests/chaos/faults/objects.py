"""An object store that refuses, resets or holds back connections, for all hosts or one of them, or that dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from typing import Literal

from tests.chaos.faults.fault import Fault
from tests.chaos.faults.links import SLOW_S
from tests.chaos.layout import OBJECTS, object_link
from tests.chaos.stack import ChaosStack


def _links(stack: ChaosStack, fault: Fault) -> Sequence[str]:
    return list(map(object_link, range(stack.layout.hosts))) if fault.at == OBJECTS else [fault.at]


def cut(stack: ChaosStack, fault: Fault) -> bool:
    """Connections are reset, and new ones refused."""
    for link in _links(stack, fault):
        stack.link.do(link, "refuse")
    time.sleep(fault.seconds)
    for link in _links(stack, fault):
        stack.link.do(link, "accept")
    return True


def reset(stack: ChaosStack, fault: Fault) -> bool:
    for link in _links(stack, fault):
        stack.link.do(link, "reset")
    return True


def _while_it_lasts(mode: Literal["slow", "hole", "trickle"], stack: ChaosStack, fault: Fault) -> bool:
    for link in _links(stack, fault):
        stack.link.do(link, "mode", mode=mode, delay_s=SLOW_S)
    time.sleep(fault.seconds)
    for link in _links(stack, fault):
        stack.link.do(link, "mode", mode="plain")
    return True


slow, hole, trickle = (partial(_while_it_lasts, mode) for mode in ("slow", "hole", "trickle"))


def kill(stack: ChaosStack, fault: Fault) -> bool:
    """SIGKILL, and another on what its disk has."""
    stack.objects.stop()
    time.sleep(fault.seconds)
    stack.objects.start_again()
    return True


def stop(stack: ChaosStack, fault: Fault) -> bool:
    os.kill(stack.objects.process.pid, signal.SIGSTOP)
    time.sleep(fault.seconds)
    os.kill(stack.objects.process.pid, signal.SIGCONT)
    return True
