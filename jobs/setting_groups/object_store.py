"""Settings of the `s3` store, a part of `jobs.settings.Settings`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings

MAX_URL_TTL_S = 7 * 86_400  # S3 signs for no longer


class ObjectStoreSettings(BaseSettings):
    """These settings have an effect only with MATMUL_STORE=s3."""

    store_copies_bytes: int | None = Field(
        None,
        ge=1,
        description="Most bytes of local copies that a host keeps of the `s3` store's matrices; the least recently "
        "used go first. Unset: half of the file system that MATMUL_STORE_DIR is on.",
    )
    s3_url: str | None = Field(
        None,
        description="Bucket of the `s3` store and prefix of its keys: `s3://bucket/prefix`. Each service, or cell, "
        "needs its own prefix.",
    )
    s3_endpoint: str | None = Field(
        None,
        pattern=r"^https?://",
        description="Address of the object store. Unset: AWS_ENDPOINT_URL, or Amazon's own.",
    )
    s3_public_endpoint: str | None = Field(
        None,
        pattern=r"^https?://",
        description="Address of the object store for callers, used in URLs given to them. Unset: MATMUL_S3_ENDPOINT.",
    )
    s3_region: str | None = Field(None, description="Region of the bucket. Unset: AWS_REGION.")
    s3_credentials_file: Path | None = Field(
        None,
        description="File in the form of ~/.aws/credentials, whose profile `default` is used. Unset: AWS_ACCESS_KEY_ID "
        "and AWS_SECRET_ACCESS_KEY, or the role of the machine.",
    )
    s3_timeout_s: float = Field(
        5.0, gt=0, description="How long the object store may be silent before a request to it is abandoned."
    )
    s3_url_ttl_s: int = Field(
        900,
        ge=1,
        le=MAX_URL_TTL_S,
        description="How long a URL is valid with which a caller reaches the object store directly.",
    )
