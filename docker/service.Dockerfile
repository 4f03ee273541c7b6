# The API: HTTP in, HTTP out, no CUDA. Context: the repository's root.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS python
# The Debian release is the pin: its mirror keeps only the newest security build of a version.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

FROM python AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3-venv \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN python3 -m venv /opt/matmul
WORKDIR /src
COPY constraints/run.txt constraints/
# Both secrets are optional: the builder's own pip configuration and certificates, never part of a layer.
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca_bundle,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/matmul/bin/pip install --no-cache-dir --require-hashes -r constraints/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY kernels kernels
COPY jobs jobs
COPY analysis analysis
COPY worker worker
COPY service service
# What only builds is taken out again: pip goes last, by its own hand.
RUN /opt/matmul/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && /opt/matmul/bin/pip uninstall --yes hatchling editables setuptools pip

FROM python
# Pango lays out reports as PDF; with it come fontconfig and the DejaVu fonts.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 fonts-dejavu-core \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
LABEL org.opencontainers.image.title="matmul-service" \
      org.opencontainers.image.description="Matrix products over HTTP: the API" \
      org.opencontainers.image.licenses="Apache-2.0"
# The store's directory belongs to the user before it becomes a volume, so that a new volume does too.
RUN useradd --uid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin matmul \
    && install -d -o matmul -g matmul -m 0700 /var/lib/matmul
COPY --from=build /opt/matmul /opt/matmul
COPY docker/service_health.py /opt/matmul/health.py
ENV PATH=/opt/matmul/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MATMUL_HOST=0.0.0.0 \
    MATMUL_PORT=8000 \
    MATMUL_STORE_DIR=/var/lib/matmul/matrices \
    MATMUL_LOG_FORMAT=json
USER 10001:10001
WORKDIR /
VOLUME /var/lib/matmul
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["python", "/opt/matmul/health.py"]
CMD ["python", "-m", "service"]
