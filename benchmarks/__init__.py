"""What measures this project itself. Results are kept in `results/`, with the machine and date they come from."""

import os

# OpenBLAS reads it when numpy is imported. Its threads spin on after a product, by default for so long that they would
# take a core from the service that is measured next.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "14")
