"""`python -m service.local`."""

from __future__ import annotations

from service.local.run import main

if __name__ == "__main__":
    main()
