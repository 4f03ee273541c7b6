"""Digests of matrices (`jobs/matrices/digest.py`), computed on a GPU. To be read in this order:

- `plan`: how a matrix's bytes are walked; it needs no device;
- `launch`: the kernel, and digests that are on their way to the host;
- `of_product`: which digests of a product and its operands are taken when; `worker/cuda/check/sketch.py` takes some;
- `read_back`: digests of host memory, which the device reads;
- `copy_back`: a product's copy to its place in the store, digested there. `worker/cuda/products/on_device.py` calls it.
"""
