"""A harness for tests, measurements and pictures of pages:

- `api`: an API server in this process, with no worker; the caller plays one;
- `benchmarks`: results of benchmarks, made up as a worker would record them;
- `page_speed` and `main_thread`: how fast that server's pages are in a browser;
- `elements`: element types of numpy's arrays.
"""
