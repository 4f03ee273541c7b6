"""`python -m tests.support.workers.poisoned_gpu_worker`: the worker itself, with the tasks of `poison_gpu`."""

import sys

from worker.process import main

if __name__ == "__main__":  # the child imports this file too
    main.TASKS = "tests.support.workers.poison_gpu"
    sys.exit(main.main())
