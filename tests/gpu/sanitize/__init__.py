"""Every CUDA kernel under compute-sanitizer: `make sanitize`."""
