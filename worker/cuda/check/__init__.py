"""The check of a product on the GPU that computed it.

`worker/check/verify.py` decides what is checked and how. It asks a `DeviceProduct`, which `worker/cuda/products`,
`tiles`, `grouped` and `bench` make. To be read in this order:

- `matrices`: A, B and C as a check reads them;
- `device_product`: the answers to what `verify` asks, by the modules below;
- `every_element`: short sums are all computed again;
- `sketch`: long sums are compared by random projections. `sketch_plan` has its arrays and units of work,
  `sketch_argument` what its kernel is given, `epilogue` what it asks of an epilogue that the kernel applied;
- `recheck`: rows and columns that the sketch suspects are computed again, in the launches of `recheck_plan`.

Digests, which a sketch can take on the way, are in `worker/cuda/digests`.
"""
