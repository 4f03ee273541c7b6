"""`python -m tests.support.workers.faulty_gpu_worker`: the worker itself, with the tasks of `faulty_gpu`."""

import sys

from worker.process import main

if __name__ == "__main__":  # the child imports this file too
    main.TASKS = "tests.support.workers.faulty_gpu"
    setattr(main, "offer_bench_queue", lambda _: "bench-simulated-h200")  # noqa: B010  # there is no GPU to ask
    setattr(main, "check_device", lambda _: None)  # noqa: B010
    sys.exit(main.main())
