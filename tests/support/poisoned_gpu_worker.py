"""`python -m tests.support.poisoned_gpu_worker`: the worker itself, with tests.support.poison_gpu for its tasks."""

import sys

from worker.process import main

if __name__ == "__main__":  # the child imports this file too
    main.TASKS = "tests.support.poison_gpu"
    sys.exit(main.main())
