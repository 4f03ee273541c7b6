"""Explains wrong settings in sentences that name the environment variable."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from pydantic_settings.exceptions import SettingsError

from jobs.errors import InvalidSettings
from jobs.setting_groups.redis_tls import check_tls
from jobs.settings import Settings, get_settings
from jobs.starting.settings_text import variable

REDIS_SCHEMES = ("redis://", "rediss://", "unix://")
OF_SENTINEL = (
    "MATMUL_REDIS_URL must name Redis, not its Sentinels: give it one redis:// address that leads to the primary, as a "
    "proxy or a virtual address does. docs/operations.md#replicas-of-redis has an example."
)
UNREADABLE_URL = (
    "MATMUL_REDIS_URL cannot be read: it must look like redis://<user>:<password>@<host>:6379/0, with numbers for port "
    "and database. In a password write %40 for @, %23 for #, %2F for / and %3F for ?."
)


def checked_settings() -> Settings:
    """This process's settings. Raises InvalidSettings with a sentence for everything that is wrong."""
    try:
        settings = get_settings()
    except ValidationError as error:
        raise InvalidSettings(_sentence(error)) from None
    except SettingsError as error:
        raise InvalidSettings(_not_json(str(error))) from None
    except OSError as error:
        raise InvalidSettings(f"MATMUL_REDIS_URL_FILE: {error.filename} cannot be read ({error.strerror}).") from None
    if "sentinel" in settings.redis_url.get_secret_value().partition("://")[0]:
        raise InvalidSettings(OF_SENTINEL)
    if not settings.redis_url.get_secret_value().startswith(REDIS_SCHEMES):
        raise InvalidSettings(
            f"MATMUL_REDIS_URL must begin with {', '.join(REDIS_SCHEMES[:-1])} or {REDIS_SCHEMES[-1]}, as in "
            "redis://127.0.0.1:6379/0."
        )
    _check_parts(settings.redis_url.get_secret_value())
    check_tls(settings.redis_url.get_secret_value())
    return settings


def _check_parts(url: str) -> None:
    """Raises InvalidSettings for a port or database that is none, without quoting it: where a password has characters
    that end it early, this is its rest."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return
    with suppress(ValueError):
        if parts.port != 0 and not parts.fragment and (not parts.path.strip("/") or parts.path[1:].isdecimal()):
            return
    raise InvalidSettings(UNREADABLE_URL)


def _sentence(error: ValidationError) -> str:
    return "; ".join(_clause(one) for one in error.errors(include_url=False)) + "."


def _clause(found: Any) -> str:
    name = str(found["loc"][0])
    words = found["msg"].removeprefix("Value error, ")
    words = words.replace("Input should", "must", 1).replace("String should", "must", 1).partition(", unable to")[0]
    field = Settings.model_fields.get(name)
    is_secret = field is not None and "SecretStr" in str(field.annotation)
    value = "set" if is_secret else repr(found["input"])
    joined = "but" if words.startswith("must") else "which cannot be read:"
    return f"{variable(name)} is {value}, {joined} {words}"


def _not_json(message: str) -> str:
    """Extracts the field name, which pydantic-settings puts in quotes; the rest of its message is of no use to a
    reader.
    """
    name = message.partition('"')[2].partition('"')[0]
    return f'{variable(name)} is not JSON; it takes a list such as ["name", "name:8000"].'
