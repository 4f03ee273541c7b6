"""`python -m worker`."""

import sys

from jobs.starting.imports import kept_imports

with kept_imports():
    from worker.process.main import main

if __name__ == "__main__":
    sys.exit(main())
