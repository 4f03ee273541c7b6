"""A worker's health check: exit status 0 while its child beats. A child beats once its readiness product was right."""

import socket
import sys

from jobs.errors import MatmulError
from jobs.fleet.registry import WorkerRegistry
from jobs.redis.client import connect
from jobs.settings import get_settings

settings = get_settings()
own = f"{socket.gethostname()}/{settings.device}/"
try:
    live = WorkerRegistry(connect(settings), prefix=settings.key_prefix).live()
except MatmulError as error:
    sys.exit(f"the worker's heartbeat cannot be read: {error}")
if not any(worker.id.startswith(own) for worker in live):
    sys.exit("the worker's child has not been heard of lately")
