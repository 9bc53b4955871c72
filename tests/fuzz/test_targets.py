"""Each target for a moment, so that none of them rots; `benchmarks/fuzz.py` takes its time."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.fuzz.targets import SEEDS, TARGETS

EXAMPLES = 150


def near(seeds: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    """Bytes of any kind, and the seeds with a piece of them replaced."""

    @st.composite
    def changed(draw: st.DrawFn) -> bytes:
        seed = draw(st.sampled_from(seeds))
        start = draw(st.integers(0, len(seed)))
        end = draw(st.integers(start, min(len(seed), start + 12)))
        piece = draw(
            st.one_of(
                st.binary(max_size=6),
                st.sampled_from(
                    [b"null", b"{}", b"[]", b'""', b"1e999", b"-0", b"true", b"\\ud800"]
                ),
                st.text(max_size=4).map(lambda text: text.encode("utf-8", "surrogatepass")),
            )
        )
        return seed[:start] + piece + seed[end:]

    return st.one_of(changed(), st.binary(max_size=80))


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_outside_our_errors(name: str) -> None:
    for seed in SEEDS[name]:
        TARGETS[name](seed)

    @settings(max_examples=EXAMPLES, deadline=2_000, suppress_health_check=list(HealthCheck))
    @given(near(SEEDS[name]))
    @example(b"")
    @example(b"\xed\xa0\x80")
    def examples(data: bytes) -> None:
        TARGETS[name](data)

    examples()


def test_each_target_has_a_seed_that_it_reads_whole() -> None:
    """Without one the search would only ever see refusals."""
    from ctrlrun.operator.feed_file import parse_event
    from ctrlrun.policy import Policy
    from ctrlrun.state.rows import receipt_from

    assert Policy.from_yaml(SEEDS["policy"][0].decode()).mode == "enforce"
    assert receipt_from(("ctr_1", SEEDS["receipts"][0].decode(), None)).seq == 1
    assert parse_event(SEEDS["events"][0]) is not None
