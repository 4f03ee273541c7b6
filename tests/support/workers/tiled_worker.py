"""`python -m tests.support.workers.tiled_worker`: the worker itself, with the tasks of `held_tiles`."""

import sys

from worker.process import main

if __name__ == "__main__":  # the child imports this file too
    main.TASKS = "tests.support.workers.held_tiles"
    sys.exit(main.main())
