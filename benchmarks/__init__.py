"""Programs that measure this project itself. Their results are in `results/`, with the machine and date of each."""

import os

# OpenBLAS reads it when numpy is imported. By default its threads keep spinning after a product for so long that they
# would take a core from the service that is measured next.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "14")
