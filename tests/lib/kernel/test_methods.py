"""`@protect` on functions of a class, and what is refused at decoration."""

from __future__ import annotations

import asyncio
import enum
import functools
import inspect
import logging
import pickle
import types
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any
from unittest import mock

import pytest

from ctrlrun.control import Control, context, protect
from ctrlrun.errors import InvalidArgument
from ctrlrun.state import InMemoryStateStore
from tests.lib.kernel.world import Clock, World


@pytest.fixture
def there(clock: Clock) -> World:
    return World(InMemoryStateStore(clock=clock), clock)


def shop_of(control: Control) -> Any:
    """A class whose methods are protected in every way, and a subclass."""
    wrap = protect("pay", effect="pay:{ref}", control=control)

    class Shop:
        name = "shop"

        @wrap
        def method(self, amount: int, ref: str) -> Any:
            return (self.name, amount, ref)

        @classmethod
        @wrap
        def class_over(cls, amount: int, ref: str) -> Any:
            return (cls.name, amount, ref)

        @wrap
        @classmethod
        def class_under(cls, amount: int, ref: str) -> Any:
            return (cls.name, amount, ref)

        @staticmethod
        @wrap
        def static_over(amount: int, ref: str) -> Any:
            return ("static", amount, ref)

        @wrap
        @staticmethod
        def static_under(amount: int, ref: str) -> Any:
            return ("static", amount, ref)

        @wrap
        def positional(self, amount: int, /, ref: str) -> Any:
            return (self.name, amount, ref)

    class Branch(Shop):
        name = "branch"

        def method(self, amount: int, ref: str) -> Any:
            return super().method(amount, ref)

    return Shop, Branch


KINDS = ["method", "class_over", "class_under", "static_over", "static_under", "positional"]


@pytest.mark.parametrize("kind", KINDS)
def test_method_is_protected_without_its_receiver(there: World, kind: str) -> None:
    shop, branch = shop_of(Control(there.policy, there.store, clock=there.clock))
    holder = "static" if kind.startswith("static") else "shop"
    with context("bot"):
        assert getattr(shop(), kind)(5, ref="a") == (holder, 5, "a")
        inherited = "static" if holder == "static" else "branch"
        assert getattr(branch(), kind)(6, ref="b") == (inherited, 6, "b")
        if kind == "method":
            assert shop.method(self=shop(), amount=7, ref="c") == ("shop", 7, "c")
        if kind == "class_over":
            by_keyword = shop.class_over.__func__(cls=branch, amount=7, ref="c")
            assert by_keyword == ("branch", 7, "c")
    arguments = [receipt.arguments for receipt in there.store.receipts()]
    assert arguments[:2] == [{"amount": 5, "ref": "a"}, {"amount": 6, "ref": "b"}]


def test_wrapped_method_stays_a_function_with_its_signature(there: World) -> None:
    shop, _ = shop_of(Control(there.policy, there.store))
    assert isinstance(shop.method, types.FunctionType)
    assert list(inspect.signature(shop.method).parameters) == ["self", "amount", "ref"]
    assert shop.method.__qualname__.endswith("Shop.method")


@pytest.mark.parametrize("first", ["self", "cls"])
def test_parameter_named_self_of_a_plain_function_is_an_argument(first: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def pay({first}, amount): ...", namespace)
    # A template may name it, so the policy sees it.
    protect("pay", effect=f"pay:{{{first}}}")(namespace["pay"])


def test_other_first_parameter_of_a_method_is_an_argument() -> None:
    class Shop:
        def pay(this, amount: int) -> None: ...

    protect("pay", effect="pay:{this}")(Shop.pay)


def collects(*args: int) -> None: ...


def pays(amount: int) -> None: ...


@pytest.mark.parametrize(
    ("options", "function", "hint"),
    [
        ({}, collects, "no fixed name"),
        ({"effect": "pay:{order}"}, pays, "'order', which is no parameter of the function"),
        ({"resource": "pay:{resource}"}, pays, "'resource', which is no parameter"),
        ({"wait": 5}, pays, "positive timedelta"),
        ({"reuse_requests": "yes"}, pays, "must be a bool"),
    ],
)
def test_what_can_never_work_is_refused_at_decoration(
    options: dict[str, Any], function: Any, hint: str
) -> None:
    with pytest.raises(InvalidArgument, match=hint):
        protect("pay", **options)(function)


class Travel:
    """Parameters that are called like a receiver, and are arguments."""

    def book(self, cls: str, amount: int, ref: str) -> Any:
        return (cls, amount, ref)

    @classmethod
    def book_for(cls, self: str, amount: int, ref: str) -> Any:
        return (self, amount, ref)


class Cabin(enum.StrEnum):
    FIRST = "first"


@functools.wraps(Travel().book)
def logged(*args: Any, **kwargs: Any) -> Any:
    return Travel().book(*args, **kwargs)


@pytest.mark.parametrize("book", [Travel().book, Travel.book_for, logged])
def test_an_argument_of_a_bound_method_is_never_taken_for_its_receiver(
    there: World, book: Any
) -> None:
    protected = protect("pay", effect="pay:{ref}", control=there.control)(book)
    with context(agent="a"):
        assert protected("first", 5, "r1") == ("first", 5, "r1")
        name = "self" if book == Travel.book_for else "cls"
        assert protected(ref="r2", amount=5, **{name: "first"}) == ("first", 5, "r2")
    for receipt, ref in zip(there.store.receipts(), ("r1", "r2"), strict=True):
        assert receipt.arguments == {name: "first", "amount": 5, "ref": ref}


class Fare(enum.Enum):
    FULL = 1


@dataclass
class Order:
    total: int


@pytest.mark.parametrize(
    "cabin",
    [
        *("first", Cabin.FIRST, 1, None, ("first",), {"cabin": "first"}),
        *(Decimal("9.5"), date(2026, 9, 3), Fare.FULL, Order(5), {1, 2}, Order, mock.Mock()),
        "an object of the class itself",
    ],
)
@pytest.mark.parametrize("by_keyword", [False, True])
@pytest.mark.parametrize("called", ["self", "cls"])
def test_an_argument_in_the_place_of_self_is_refused(
    there: World, called: str, by_keyword: bool, cabin: object
) -> None:
    """`@staticmethod` over `@protect`: a function in a class, as far as the decorator can tell."""
    wrap = protect("pay", effect="pay:{ref}", control=there.control)

    class Desk:
        @staticmethod
        @wrap
        def with_self(self: object, amount: int, ref: str) -> None:  # type: ignore[misc]
            raise AssertionError("ran without its first argument in the action")

        @staticmethod
        @wrap
        def with_cls(cls: object, amount: int, ref: str) -> None:
            raise AssertionError("ran without its first argument in the action")

    if cabin == "an object of the class itself":
        cabin = Desk()
    first = {called: cabin} if by_keyword else {}
    with context(agent="a"), pytest.raises(InvalidArgument, match=f"{called!r} of .*Desk is not"):
        getattr(Desk, f"with_{called}")(
            *([] if by_keyword else [cabin]), amount=5, ref="r1", **first
        )
    assert not there.store.events()


class Till:
    @protect("pay")
    def pay(self, amount: int) -> None: ...

    @protect("pay")
    async def apay(self, amount: int) -> None: ...


@protect("pay")
def pay_plainly(amount: int) -> None: ...


@pytest.mark.parametrize("protected", [Till.pay, Till.apay, pay_plainly])
def test_protected_function_is_pickled_by_its_name(protected: Any) -> None:
    """So a process pool that is handed one runs the protected function, not the one inside it."""
    assert pickle.loads(pickle.dumps(protected)) is protected


def test_a_method_can_be_lent_to_another_class_or_tried_with_a_specified_mock(
    there: World,
) -> None:
    wrap = protect("pay", effect="pay:{ref}", control=there.control)

    class Shop:
        @wrap
        def pay(self, amount: int, ref: str) -> str:
            return type(self).__name__

    class Kiosk:
        pay = Shop.pay

    made_anew = type("Shop2", (), dict(Shop.__dict__))
    with context(agent="a"):
        assert Kiosk().pay(5, "r1") == "Kiosk"
        assert made_anew().pay(5, "r2") == "Shop2"
        assert Shop.pay(mock.Mock(spec=Shop), 5, "r3") == "Mock"
    assert [receipt.arguments["ref"] for receipt in there.store.receipts()] == ["r1", "r2", "r3"]


def test_a_class_made_of_a_text_or_a_mapping_has_methods_too(there: World) -> None:
    wrap = protect("pay", effect="pay:{ref}", control=there.control)

    class Basket(dict[str, int]):
        @wrap
        def pay(self, amount: int, ref: str) -> int:
            return self["items"] + amount

    class Big(Basket): ...

    with context(agent="a"):
        assert Big(items=3).pay(5, "r1") == 8
    assert there.last.arguments == {"amount": 5, "ref": "r1"}


def test_template_may_not_name_self() -> None:
    class Shop:
        def pay(self, amount: int) -> None: ...

    with pytest.raises(InvalidArgument, match="'self'"):
        protect("pay", effect="pay:{self}")(Shop.pay)


def test_float_default_warns(caplog: pytest.LogCaptureFixture) -> None:
    def pay(amount: float = 1.5) -> None: ...

    with caplog.at_level(logging.WARNING, "ctrlrun.protect"):
        protect("pay")(pay)
    assert "the default of 'amount' is a float" in caplog.text


def test_async_method_is_protected_without_its_receiver(there: World) -> None:
    class Shop:
        @protect("pay", control=Control(there.policy, there.store, clock=there.clock))
        async def pay(self, amount: int) -> Any:
            return (type(self).__name__, amount)

    with context("bot"):
        assert asyncio.run(Shop().pay(5)) == ("Shop", 5)
    assert there.store.receipts()[-1].arguments == {"amount": 5}
