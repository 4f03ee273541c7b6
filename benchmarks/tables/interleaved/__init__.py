"""What docs/performance.md says of runs by `benchmarks.measure.interleaved`."""
