"""The sections of docs/performance.md on runs of `benchmarks.measure.interleaved`."""
