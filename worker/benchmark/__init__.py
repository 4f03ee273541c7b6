"""Benchmarks on this worker's device: `job` runs one, `measure` takes one case, a `Bench` is the device's part."""
