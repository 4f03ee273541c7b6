"""The first table of docs/performance.md and the picture at the top of README.md."""
