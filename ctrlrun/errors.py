"""Every error class of the project, and nothing else.

CTRLRunError
├── InvalidArgument        wiring: a value that can never be right
│   ├── StoreNotFound      a store was named that is not there
│   └── FilterError        a filter's text cannot be read
├── PolicyError            a policy document is missing or malformed
├── EffectKeyError         the effect template names what the call does not have
├── ActionDenied           refused by policy, principal, or a person
│   └── AuthorityDenied    no grant covers it
├── AuthorityEscalation    a delegation that may not exist
├── ApprovalRequired       a person has to answer first
├── ApprovalTimeout        nobody answered in time
├── ApprovalMismatch       the approval presented does not cover this
├── DuplicateEffect        it happened, or is happening
├── AmbiguousEffect        nobody knows whether it happened
├── NotExecuted            raised by an executor: the remote did nothing
│   └── LeaseLost          raised by `fence`: the attempt lost its effect before it acted
├── Suspended              raised by an executor: to be continued
├── IdentityError          a credential was rejected or has expired
├── AmbiguousWrite         nobody knows whether the store took a write
├── StoreReplaced          the store's files were replaced by older ones
├── SchemaMismatch         the store's format is not one that this build knows
├── DamagedRow             a stored row cannot be read
└── MissingDependency      an optional extra is not installed

Facts are attributes; messages are for people and are never parsed. Every class survives pickling
with its attributes.
"""

from __future__ import annotations

from typing import Any


class CTRLRunError(Exception):
    """Base of everything that ctrlrun raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args, dict(self.__dict__)))


def _rebuild(cls: type[CTRLRunError], args: tuple[Any, ...], facts: dict[str, Any]) -> CTRLRunError:
    """Make an error again without its constructor, whose facts are keyword-only."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class InvalidArgument(CTRLRunError):
    """A value that can never be right: a wiring bug, not a decision."""


class StoreNotFound(InvalidArgument):
    """The store that was named does not exist; nothing was created."""


class FilterError(InvalidArgument):
    """A filter's text cannot be read; `position` (from 0) is where in it."""

    def __init__(self, message: str, *, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class PolicyError(CTRLRunError):
    """A policy or authority document is missing or malformed."""


class EffectKeyError(CTRLRunError):
    """The effect template cannot be filled from this call."""


class ActionDenied(CTRLRunError):
    """The action was refused; retrying the same action does not help.

    ``note`` is what the person who denied it wrote, as they wrote it.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        reason: str,
        action_id: str | None = None,
        note: str | None = None,
    ) -> None:
        super().__init__(message or reason)
        self.reason = reason
        self.action_id = action_id
        self.note = note


class AuthorityDenied(ActionDenied):
    """No grant covers the action."""

    def __init__(
        self,
        message: str | None = None,
        *,
        reason: str,
        action_id: str | None = None,
        note: str | None = None,
        grant_id: str | None = None,
        delegation_id: str | None = None,
    ) -> None:
        super().__init__(message, reason=reason, action_id=action_id, note=note)
        self.grant_id = grant_id
        self.delegation_id = delegation_id


class AuthorityEscalation(CTRLRunError):
    """A delegation that may not exist: it would permit more than its parent."""

    def __init__(
        self,
        message: str | None = None,
        *,
        reason: str,
        parent_id: str | None = None,
        dimension: str | None = None,
    ) -> None:
        super().__init__(message or reason)
        self.reason = reason
        self.parent_id = parent_id
        self.dimension = dimension


class ApprovalRequired(CTRLRunError):
    """A person has to approve the action; retry inside ``with_approval(request_id)`` once granted."""

    def __init__(
        self, message: str | None = None, *, request_id: str, action_id: str | None = None
    ) -> None:
        super().__init__(message or request_id)
        self.request_id = request_id
        self.action_id = action_id


class ApprovalTimeout(CTRLRunError):
    """Nobody answered in time; the request is unchanged."""

    def __init__(self, message: str | None = None, *, request_id: str) -> None:
        super().__init__(message or request_id)
        self.request_id = request_id


class ApprovalMismatch(CTRLRunError):
    """The approval does not cover this: ``reason`` is ``unknown``, ``mismatch`` or its status.

    Of a ``mismatch``, ``differences`` are the names of what is not as it was approved: arguments
    by their paths (``amount``, ``meta.rows[0]``), or ``action``, ``agent``, ``user``, ``resource``,
    ``environment``.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        reason: str,
        approval_id: str | None = None,
        differences: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message or reason)
        self.reason = reason
        self.approval_id = approval_id
        self.differences = differences


class DuplicateEffect(CTRLRunError):
    """The effect is ``committed`` (never retry) or ``in_progress``."""

    def __init__(
        self, message: str | None = None, *, state: str, effect_key: str | None = None
    ) -> None:
        super().__init__(message or state)
        self.state = state
        self.effect_key = effect_key


class AmbiguousEffect(CTRLRunError):
    """Nobody knows whether the effect happened; no retry until it is resolved.

    ``effect_key`` is None for a call without a key.
    """

    def __init__(
        self, message: str | None = None, *, effect_key: str | None, action_id: str | None = None
    ) -> None:
        super().__init__(message or effect_key)
        self.effect_key = effect_key
        self.action_id = action_id


class NotExecuted(CTRLRunError):
    """Raised by an executor that knows the remote did nothing: the only retryable outcome."""


class LeaseLost(NotExecuted):
    """The attempt does not hold its effect any more, and `fence` stopped it before it acted.

    ``reason``: ``lapsed`` (its lease ran out), ``resolved`` (a person or a hook answered for it),
    ``taken`` (another attempt stands there). ``effect_key`` and ``attempt`` are the fenced one's.
    """

    def __init__(
        self, message: str | None = None, *, effect_key: str, attempt: int, reason: str
    ) -> None:
        super().__init__(message or reason)
        self.effect_key = effect_key
        self.attempt = attempt
        self.reason = reason


class Suspended(CTRLRunError):
    """Raised by an executor whose remote answers later; ``continuation`` finds the call again.

    Raises InvalidArgument for a continuation that is empty, not text, or not UTF-8.
    """

    def __init__(self, continuation: bytes | str) -> None:
        if isinstance(continuation, bytes):
            try:
                continuation = continuation.decode("utf-8")
            except UnicodeDecodeError as error:
                raise InvalidArgument(f"continuation is not UTF-8: {error}") from None
        if not isinstance(continuation, str) or not continuation:
            raise InvalidArgument("continuation must be a non-empty str or UTF-8 bytes")
        try:
            continuation.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidArgument(
                "continuation holds a lone surrogate, so it is not UTF-8"
            ) from None
        # The token opens the call again: it is kept out of the message, which is logged.
        super().__init__("the call was suspended")
        self.continuation = continuation


class IdentityError(CTRLRunError):
    """A credential was rejected or has expired."""


class AmbiguousWrite(CTRLRunError):
    """The connection broke while the store committed: the write is there whole, or not at all."""


class StoreReplaced(CTRLRunError):
    """The files at the store's path lack evidence that this program has seen; nothing is done.

    ``path`` is the database's.
    """

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class SchemaMismatch(CTRLRunError):
    """The store's format is not one that this build reads.

    ``applied`` and ``known`` are migration ids, ``running`` is this build's version.
    """

    def __init__(
        self,
        message: str,
        *,
        applied: tuple[str, ...] = (),
        known: tuple[str, ...] = (),
        running: str = "",
    ) -> None:
        super().__init__(message)
        self.applied = applied
        self.known = known
        self.running = running


class DamagedRow(CTRLRunError):
    """A stored row cannot be read; ``table`` and ``row_id`` say which."""

    def __init__(self, message: str | None = None, *, table: str, row_id: str) -> None:
        super().__init__(message or f"{table} {row_id} cannot be read")
        self.table = table
        self.row_id = row_id


class MissingDependency(CTRLRunError):
    """An optional extra is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} is not installed; run: pip install 'ctrlrun[{extra}]'")
        self.module = module
        self.extra = extra
