"""Amounts as money: only where nothing else can be meant."""

from __future__ import annotations

from typing import Any

from ctrlrun.operator.money import in_major_units, money
from tests.cases import walk


@walk(
    ("arguments", "shown"),
    [
        ({"amount": 200000, "currency": "EUR"}, {"amount": "EUR 2,000.00"}),
        ({"amount": 200000, "currency": "eur"}, {"amount": "EUR 2,000.00"}),
        ({"amount": -5, "currency": "USD"}, {"amount": "USD -0.05"}),
        ({"amount": 0, "currency": "USD"}, {"amount": "USD 0.00"}),
        ({"amount": 1500, "currency": "JPY"}, {"amount": "JPY 1,500"}),
        ({"amount": 1500, "currency": "KWD"}, {"amount": "KWD 1.500"}),
        ({"amount": 12345, "currency": "CLF"}, {"amount": "CLF 1.2345"}),
        ({"refund_amount": 100, "currency_code": "GBP"}, {"refund_amount": "GBP 1.00"}),
        (
            {"charge": {"amount": 100, "currency": "EUR"}, "amount": 5},
            {"charge.amount": "EUR 1.00"},
        ),
        # Nothing, rather than something that may be wrong:
        ({"amount": 200000}, {}),
        ({"amount": 200000, "currency": "XYZ"}, {}),
        ({"amount": 200000, "currency": "BTC"}, {}),
        ({"amount": "200000", "currency": "EUR"}, {}),
        ({"amount": True, "currency": "EUR"}, {}),
        ({"quantity": 3, "customer_id": 77, "currency": "EUR"}, {}),
        ({"amount": 100, "currency": "EUR", "target_currency": "USD"}, {}),
        ({"amount": 100, "currency": 978}, {}),
        ({"amount": 10**30, "currency": "EUR"}, {}),
        ({"amount": 100, "source_currency": "EUR"}, {}),
        ({"amount": 100, "currency": "\u017fEK"}, {}),  # a long s, whose upper case is S
        ({}, {}),
    ],
)
def test_amounts_beside_a_known_currency(arguments: dict[str, Any], shown: dict[str, str]) -> None:
    assert money(arguments) == shown


def test_an_unknown_currency_has_no_major_units() -> None:
    assert in_major_units(100, "ZZZ") is None
