"""Amounts of money in an action's arguments, as a person reads them.

A convenience beside the raw value, never instead of it: screens mark it as ours. Only what cannot
be taken for something else is shown, so a number whose name does not say that it is an amount, or
that stands beside no single known currency, gets nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Currencies of ISO 4217 by the number of digits behind the decimal point.
_NO_DECIMALS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_THREE_DECIMALS = "BHD IQD JOD KWD LYD OMR TND"
_FOUR_DECIMALS = "CLF UYW"
_TWO_DECIMALS = """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD
    CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP
    GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD
    MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP
    PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT
    TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG
"""
_DECIMALS = {
    code: digits
    for digits, codes in (
        (0, _NO_DECIMALS),
        (2, _TWO_DECIMALS),
        (3, _THREE_DECIMALS),
        (4, _FOUR_DECIMALS),
    )
    for code in codes.split()
}

_CURRENCY_NAMES = ("currency", "currency_code")
_AMOUNT_WORDS = frozenset({"amount", "total", "price", "fee"})
_LONGEST_AMOUNT = 10**18


def money(arguments: Mapping[str, Any]) -> dict[str, str]:
    """The amounts in minor units beside a known currency, by path: `{"amount": "EUR 2,000.00"}`.

    Nested arguments are looked into, each mapping with a currency of its own; their paths read
    `charge.amount`. Empty when there is nothing to show.
    """
    found: dict[str, str] = {}
    _collect(arguments, "", found)
    return found


def in_major_units(amount: int, currency: str) -> str | None:
    """`EUR 2,000.00` for 200000 minor units; None for a currency that is not known."""
    code = currency.upper() if currency.isascii() else currency
    digits = _DECIMALS.get(code)
    if digits is None:
        return None
    sign = "-" if amount < 0 else ""
    major, minor = divmod(abs(amount), 10**digits)
    fraction = f".{minor:0{digits}d}" if digits else ""
    return f"{code} {sign}{major:,}{fraction}"


def _collect(arguments: Mapping[str, Any], prefix: str, found: dict[str, str]) -> None:
    currency = _currency(arguments)
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            _collect(value, f"{prefix}{name}.", found)
        elif currency is not None and _is_amount(name, value):
            text = in_major_units(value, currency)
            if text is not None:
                found[f"{prefix}{name}"] = text


def _currency(arguments: Mapping[str, Any]) -> str | None:
    """The one currency of a mapping; two that differ leave the amounts unclear."""
    stated = {
        value.upper() if value.isascii() else value
        for name, value in arguments.items()
        if isinstance(value, str) and "currency" in name.lower().split("_")
    }
    named = any(isinstance(arguments.get(name), str) for name in _CURRENCY_NAMES)
    return stated.pop() if named and len(stated) == 1 else None


def _is_amount(name: str, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= _LONGEST_AMOUNT:
        return False
    return name.lower().rpartition("_")[2] in _AMOUNT_WORDS
