"""`python -m worker`."""

import sys

from worker.process.main import main

sys.exit(main())
