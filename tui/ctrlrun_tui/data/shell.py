"""The command that gives the same answer in a shell, quoted so that it runs as it stands.

Pure. None where a word of it cannot be typed: what `inert` changes is no text of a command.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ctrlrun.authority import DelegationRecord
from ctrlrun.operator.delegations import grant_file
from ctrlrun.text import inert


@dataclass(frozen=True, slots=True)
class Place:
    """What commands name so that they mean the same wherever they are pasted; None: not given.

    Absolute paths: of the policy, and of the grants where they are a document of their own.
    """

    store_url: str | None = None
    policy: str | None = None
    authority: str | None = None


@dataclass(frozen=True, slots=True)
class Shell:
    """What every command of a sitting has in common."""

    who: str
    note: str | None
    place: Place

    @property
    def _name(self) -> str:
        return self.who.removeprefix("tui:")

    def command(self, verb: str, item: str, *more: str) -> str | None:
        """The command that answers a request or an effect."""
        return self._joined(["ctrlrun", verb, *more, "--as", self._name], item)

    def revoke(self, delegation_id: str) -> str | None:
        """The command that revokes."""
        return self._joined(["ctrlrun", "revoke", "--by", f"cli:{self._name}"], delegation_id)

    def delegate(self, record: DelegationRecord) -> str | None:
        """The command that hands on the same; the grant comes by its standard input.

        The policy is loaded for it, so it is named; and so is whoever sat there.
        """
        grant = grant_file(record)
        if grant is None:
            return None
        by, user = record.created_by_agent, record.created_by_user
        if "/" in by:  # the first slash ends the agent: such a name cannot be given
            return None
        named = by if user is None else f"{by}/{user}"
        words = ["ctrlrun", "delegate", "--parent", record.parent_id, "--file", "/dev/stdin"]
        words += ["--as", named]
        if self.place.authority is not None:
            words += ["--authority", self.place.authority]
        settings = {"CTRLRUN_OPERATOR": self._name}
        if self.place.policy is not None:
            settings["CTRLRUN_CONFIG"] = self.place.policy
        words += self._ends()
        if not _can_be_typed([grant, *words, *settings.values()]):
            return None
        given = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
        return f"printf %s {shlex.quote(grant)} | {given} {shlex.join(words)}"

    def _joined(self, words: list[str], item: str) -> str | None:
        words = [*words, *self._ends()]
        words += ["--", item] if item.startswith("-") else [item]
        return shlex.join(words) if item and _can_be_typed(words) else None

    def _ends(self) -> list[str]:
        words = [] if self.note is None else ["--note", self.note]
        if self.place.store_url is not None:
            words += ["--store-url", self.place.store_url]
        return words


def _can_be_typed(words: Sequence[str]) -> bool:
    return all(inert(word) == word for word in words)
