# A worker: one GPU, or the CPU. Context: the repository's root.
# CUDA comes as wheels beside CuPy (NVRTC, cuBLAS, headers); the driver comes from the host's container toolkit.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS python
# The Debian release is the pin: its mirror keeps only the newest security build of a version.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

FROM python AS build
# Which file of constraints/ is installed: cuda13, cuda12 or run (no CUDA: a CPU worker).
ARG CONSTRAINTS=cuda13
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3-venv \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN python3 -m venv /opt/matmul
WORKDIR /src
COPY constraints/${CONSTRAINTS}.txt constraints/
# Both secrets are optional: the builder's own pip configuration and certificates, never part of a layer.
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca_bundle,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/matmul/bin/pip install --no-cache-dir --require-hashes -r "constraints/${CONSTRAINTS}.txt"
COPY pyproject.toml README.md LICENSE ./
COPY kernels kernels
COPY jobs jobs
COPY analysis analysis
COPY worker worker
COPY service service
# What only builds is taken out again: pip goes last, by its own hand.
RUN /opt/matmul/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && /opt/matmul/bin/pip uninstall --yes hatchling editables setuptools pip
# What kernels are compiled for, so that no worker has to: any of sm_75 to sm_121, or nothing. A CPU worker has none.
ARG ARCHITECTURES="sm_80 sm_86 sm_89 sm_90 sm_100 sm_120"
# Only these kernels, by name; without any, all, and what the check of products takes.
ARG KERNELS=""
RUN mkdir /opt/matmul/kernels \
    && if [ "${CONSTRAINTS}" != run ] && [ -n "${ARCHITECTURES}" ]; then \
        /opt/matmul/bin/python -m worker.cuda.ahead --directory /opt/matmul/kernels ${ARCHITECTURES} \
            ${KERNELS:+--kernels ${KERNELS}}; fi \
    && chmod -R a+rX /opt/matmul/kernels

FROM python
LABEL org.opencontainers.image.title="matmul-worker" \
      org.opencontainers.image.description="Matrix products over HTTP: a worker" \
      org.opencontainers.image.licenses="Apache-2.0"
# Directories belong to the user before they become volumes, so that new volumes do too.
RUN useradd --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin matmul \
    && install -d -o matmul -g matmul -m 0700 /var/lib/matmul /var/cache/matmul
COPY --from=build /opt/matmul /opt/matmul
COPY docker/worker_health.py /opt/matmul/health.py
ENV PATH=/opt/matmul/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    MATMUL_STORE_DIR=/var/lib/matmul/matrices \
    MATMUL_KERNEL_CACHE_DIR=/var/cache/matmul/kernels \
    MATMUL_COMPILED_KERNELS_DIR=/opt/matmul/kernels \
    CUPY_CACHE_DIR=/var/cache/matmul/cupy \
    CUDA_CACHE_PATH=/var/cache/matmul/driver \
    MATMUL_LOG_FORMAT=json
USER 10001:10001
WORKDIR /
VOLUME ["/var/lib/matmul", "/var/cache/matmul"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 CMD ["python", "/opt/matmul/health.py"]
CMD ["python", "-m", "worker"]
