"""The operator console: a Textual application for the person on call.

`ctrlrun console` and `python -m ctrlrun_tui` start it. It shows what needs a human and lets that
human answer through `ctrlrun.operator`; it has no SQL and no rule of its own. How it is built is in
docs/console-internals.md.
"""
