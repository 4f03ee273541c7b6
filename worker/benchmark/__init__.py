"""Benchmarks on this worker's device: `job` runs a benchmark, `measure` measures one case, a `Bench` is the
device-specific part.
"""
