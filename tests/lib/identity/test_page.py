"""docs/identity.md says the settings, their defaults and the limits as they are."""

from __future__ import annotations

import inspect
import re
from datetime import timedelta
from pathlib import Path

from ctrlrun import HeaderIdentityProvider, IdentityContext, StaticIdentityProvider
from ctrlrun.clock import utc_now
from ctrlrun.jwt_identity import JWTIdentityProvider
from ctrlrun.jwt_identity.https import MAX_BODY
from ctrlrun.jwt_identity.token import MAX_TOKEN
from tests.cases import walk

PAGE = (Path(__file__).parents[3] / "docs" / "identity.md").read_text("utf-8")


def as_written(default: object) -> str:
    if default is inspect.Parameter.empty:
        return "required"
    if isinstance(default, timedelta):
        return f"{default.total_seconds():.0f} s"
    return "`utc_now`" if default is utc_now else f"`{default!r}`".replace("'", '"')


def test_the_table_has_every_setting_in_order_with_its_default() -> None:
    table = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE, re.MULTILINE)
    settings = inspect.signature(JWTIdentityProvider).parameters.values()
    assert table == [(setting.name, as_written(setting.default)) for setting in settings]


@walk("kind", [IdentityContext, StaticIdentityProvider, HeaderIdentityProvider])
def test_what_the_others_take_is_as_written(kind: type) -> None:
    found = re.search(rf"`{kind.__name__}\(([^`]*)\)`", PAGE)
    assert found is not None
    names = [part.partition("=")[0] for part in found[1].split(", ")]
    assert names == list(inspect.signature(kind).parameters)


def test_the_limits_are_as_written() -> None:
    assert f"{MAX_TOKEN:,} characters" in PAGE
    assert f"{MAX_BODY:,} bytes" in PAGE
