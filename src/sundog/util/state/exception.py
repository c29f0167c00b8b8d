"""Errors of the state API.

```
Exception
├── DataSourceUnavailable
└── RayStateApiException
    ├── BadFilter (is a ValueError too)
    └── ServerUnavailable
```
"""

from __future__ import annotations


class DataSourceUnavailable(Exception):
    """A part of the session could not be asked, so the answer would be incomplete."""


class RayStateApiException(Exception):
    """A question about the state could not be answered."""


class BadFilter(RayStateApiException, ValueError):
    """A filter names a column that cannot be filtered on, or a value that its column can never have; or a bad limit."""


class ServerUnavailable(RayStateApiException):
    """There is no session to ask at the address given."""
