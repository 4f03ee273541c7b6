"""`python -m service.local`."""

from __future__ import annotations

from jobs.starting.imports import kept_imports

with kept_imports():
    from service.local.run import main

if __name__ == "__main__":
    main()
