"""Translates the errors of an object store into the service's own. None of them quotes a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jobs.errors import MatmulError, MatrixNotFound, StoreUnavailable

DOWN = "The object store does not answer; try again in a moment."
REFUSED = "The object store refuses this service's credentials; tell whoever runs the service."
NO_BUCKET = "The object store has no bucket of that name; tell whoever runs the service."


@contextmanager
def translated(*, not_found: MatmulError | None = None) -> Iterator[None]:
    """Raises StoreUnavailable, and `not_found` for a 404: MatrixNotFound if it is None. obstore's errors quote
    addresses and replies, so they are not chained.
    """
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except FileNotFoundError:
        raise not_found or MatrixNotFound from None
    except (PermissionDeniedError, UnauthenticatedError):
        raise StoreUnavailable(REFUSED, resource="objects") from None
    except BaseError as error:
        if "416 Range Not Satisfiable" in str(error):  # obstore has no class for it
            raise MatrixNotFound from None
        raise StoreUnavailable(DOWN, resource="objects") from None
