"""`python -m tests.support.poisoned_worker`: the worker itself, with tests.support.poison for its tasks."""

import sys

from worker.process import main

if __name__ == "__main__":  # the child imports this file too
    main.TASKS = "tests.support.poison"
    sys.exit(main.main())
