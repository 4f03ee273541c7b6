"""Credentials of an object store."""

from __future__ import annotations

import configparser
from pathlib import Path

from jobs.errors import InvalidSettings


def credentials_of(path: Path | None) -> dict[str, str]:
    """The profile `default` of a credentials file; empty without a file. Raises InvalidSettings."""
    if path is None:
        return {}
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with open(path) as file:
            parser.read_file(file)
        section = parser["default"]
        found = {
            "access_key_id": section["aws_access_key_id"],
            "secret_access_key": section["aws_secret_access_key"],
        }
    except (OSError, configparser.Error, KeyError):
        raise InvalidSettings(
            f"MATMUL_S3_CREDENTIALS_FILE: {path} must have a section [default] with aws_access_key_id and "
            "aws_secret_access_key."
        ) from None
    token = section.get("aws_session_token")
    return found | ({"session_token": token} if token else {})
