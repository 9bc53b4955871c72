"""Conformance: suites that a part written by somebody else can be run against.

Imported by a package's own tests, never by the rest of the library. `ctrlrun.conformance.store`
holds a store to its rules (docs/conformance.md).
"""
