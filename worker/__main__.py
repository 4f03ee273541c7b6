"""`python -m worker`."""

import os
import signal
import sys

from jobs.starting.imports import kept_imports

if __name__ == "__main__":
    # Until Celery listens there is nothing to finish. As process 1 of a container it would not hear SIGTERM before.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))

with kept_imports():
    from worker.process.main import main

if __name__ == "__main__":
    sys.exit(main())
