"""Writes docs/commands.md from the commands themselves: run it after changing one.

    python docs/build_commands.py

A test holds the page to what this makes.
"""

from __future__ import annotations

from pathlib import Path

import click

from ctrlrun.cli.group import SECTIONS, ctrlrun

PAGE = Path(__file__).parent / "commands.md"

_HEAD = """\
# Commands

Written by `docs/build_commands.py` from the commands themselves. `python -m ctrlrun` is the same
program as `ctrlrun`.

## What holds for all of them

| exit code | when |
| --- | --- |
| 0 | done, also when there was nothing to show |
| 1 | refused, or something was found: one `Error:` line on standard error |
| 2 | it cannot run as asked: an unknown option, a missing argument, a bad value |
| 3 | an error of ours |
| 130 | interrupted with Ctrl-C |

**Which store.** `--store-url sqlite://PATH` (`sqlite:///a/b.db` is `/a/b.db`, `sqlite://b.db` is
relative), else `CTRLRUN_STORE_URL`, else the file that `CTRLRUN_STATE` names, else
`.ctrlrun/state.db` beside the policy (`CTRLRUN_CONFIG`, else `./ctrlrun.yaml`). No command that only
reads changes a store. `demo` makes one of its own; `delegate` makes the one beside the policy where
there is none yet, and no other command makes any.

**Which policy.** `delegate` and `stats` load it, and fail when it does not load; `revoke` looks at it
and goes on without. Under `mode: observe` they say so first, on standard error. The others never read
it: they work where it is missing or malformed.

**Who answers.** `approve`, `deny` and `resolve` record `cli:local`, or `cli:NAME` with `--as NAME` or
`CTRLRUN_OPERATOR`; so does `revoke` without `--by`, whose text is recorded as given. `delegate --as`
names the principal that hands on, which is not authenticated; `CTRLRUN_OPERATOR` goes into its event
beside that. What they did is appended to the events file beside the store, too.

**Lines.** Fields are separated by exactly two spaces, and no field holds two in a row, so a line
splits on them (on a terminal `receipts` aligns its columns instead). Times are UTC with
milliseconds. Text that somebody else wrote is shown as [hostile-text.md](hostile-text.md) says.

| command | a line |
| --- | --- |
| `approvals` | `<approval_id>  <status>  <action>  <agent>  <expires_at>` |
| `effects` | `<effect_key>  <state>  attempt <n>  <action_id>  <updated_at>`, then `  (lease expired)`, `  resolved by <who>` where they apply |
| `receipts` | `<finished_at>  <receipt_id>  <action>  <decision>/<result>  <effect_key or ->  <agent>` |
| `delegations` | `<delegation_id>  <parent_id>  depth <n>  <the grant's agent or ->  <expires_at or ->`, then, where it applies, `  revoked by <who or ->`, or of one that was not `  beneath revoked <the nearest above that was>` |
| `events` | `<event_id>  <ts>  <type>  <action_id or ->  <effect_key or ->  <key=value ...>` |

**JSON.** `--json` prints one compact document a line (`inspect`: one indented document), in UTF-8;
characters that a terminal obeys or hides are `\\u` escapes, which a JSON parser reads back. With nothing
to show standard output stays empty.

**Files.** What commands make is its owner's alone, 0600 and folders 0700, whatever the umask: change the
mode of `ctrlrun.yaml` where an agent of another user has to read it. `init` and `demo` refuse a
symbolic link in the place of `.ctrlrun` or of what they write there, and a policy that is no regular
file is refused at once.
"""


def page() -> str:
    """The whole page."""
    context = click.Context(ctrlrun, info_name="ctrlrun", terminal_width=78)
    parts = [_HEAD]
    for section, entries in SECTIONS.items():
        parts.append(f"\n## {section}\n")
        for name in entries:
            command = ctrlrun.get_command(context, name)
            assert command is not None
            inner = click.Context(command, parent=context, info_name=name, terminal_width=78)
            parts.append(f"\n### {name}\n\n```text\n{command.get_help(inner).rstrip()}\n```\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
